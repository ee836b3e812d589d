// SPDX-License-Identifier: Apache-2.0

package subject

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
)

// FirstGeneratedSID is the sid of the first generated rule.
const FirstGeneratedSID = 8_000_001

// MostGenerated is how many rules GenerateRules makes at most.
const MostGenerated = 900_000

// generatedKinds are a rule's protocol by its number: of 20 there are 8 for http, 3 for
// tls, 3 for dns, 3 for tcp, 2 for udp and 1 for smtp.
var generatedKinds = [20]string{
	"http", "dns", "http", "tls", "tcp", "http", "udp", "http", "tls", "smtp",
	"http", "dns", "http", "tcp", "http", "tls", "udp", "http", "dns", "tcp",
}

// GenerateRules writes n rules, 0 to MostGenerated, in the language of Suricata 7, for
// http, dns, tls, smtp, tcp and udp (40, 15, 15, 5, 15 and 10 of 100); equal n and seeds
// give equal rules. Each looks for 12 or more random letters and digits, or as many random
// octets, so that nothing of the application mix matches: what they cost is the search,
// and far less than that of real rules. Their sids begin at FirstGeneratedSID, and their
// messages with "boxdyno generated".
func GenerateRules(w io.Writer, n int, seed uint64) (RuleSet, error) {
	if n < 0 || n > MostGenerated {
		return RuleSet{}, fmt.Errorf("generate %d rules: want 0 to %d", n, MostGenerated)
	}
	if n == 0 {
		return RuleSet{Kind: RulesNone, Label: "no rules"}, nil
	}
	g := generator{rand.New(rand.NewPCG(seed, 0x67656e))}
	b := bufio.NewWriter(w)
	for i := range n {
		kind := generatedKinds[i%len(generatedKinds)]
		head, match := g.rule(kind)
		_, _ = fmt.Fprintf(b, "alert %s %s (msg:\"boxdyno generated %s\"; %s sid:%d; rev:1;)\n", kind, head, kind, match, FirstGeneratedSID+i) // Flush has the error
	}
	if err := b.Flush(); err != nil {
		return RuleSet{}, fmt.Errorf("write the rules: %w", err)
	}
	return RuleSet{Kind: RulesGenerated, Label: fmt.Sprintf("generated (%d, seed %d)", n, seed), Rules: n}, nil
}

type generator struct{ *rand.Rand }

// rule is a rule's addresses and what it looks for.
func (g generator) rule(kind string) (head, match string) {
	const toServer = "$HOME_NET any -> $EXTERNAL_NET any"
	switch kind {
	case "http":
		buffer := []string{"http.uri", "http.header", "http.user_agent", "http.host", "http.request_body"}[g.IntN(5)]
		word := g.word()
		if buffer == "http.host" { // which is in small letters
			word = strings.ToLower(word)
		}
		match = fmt.Sprintf(`flow:established,to_server; %s; content:"%s"; fast_pattern;`, buffer, word)
		switch g.IntN(4) {
		case 0:
			match += fmt.Sprintf(` pcre:"/%s[a-z]{2,8}[0-9]+/";`, word)
		case 1:
			match += fmt.Sprintf(` content:"%s"; distance:0; within:%d;`, strings.ToLower(g.word()), 32+g.IntN(96))
		}
		return toServer, match
	case "tls":
		return toServer, fmt.Sprintf(`flow:established,to_server; tls.sni; content:"%s.example"; nocase; endswith; fast_pattern;`, g.word())
	case "dns":
		return toServer, fmt.Sprintf(`dns.query; content:"%s"; nocase; fast_pattern;`, g.word())
	case "smtp":
		return toServer, fmt.Sprintf(`flow:established,to_server; content:"%s"; fast_pattern;`, g.word())
	case "tcp":
		if g.IntN(2) == 0 {
			return fmt.Sprintf("$HOME_NET any -> $EXTERNAL_NET %d", 1024+g.IntN(64512)), fmt.Sprintf(`flow:established,to_server; content:"%s"; fast_pattern;`, g.octets())
		}
		return "$EXTERNAL_NET any -> $HOME_NET any", fmt.Sprintf(`flow:established,to_client; content:"%s"; fast_pattern; content:"%s"; distance:%d;`, g.word(), g.octets(), g.IntN(16))
	}
	return "$EXTERNAL_NET any -> $HOME_NET any", fmt.Sprintf(`content:"%s"; fast_pattern;`, g.octets())
}

// word is 12 to 20 letters and digits.
func (g generator) word() string {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	b := make([]byte, 12+g.IntN(9))
	for i := range b {
		b[i] = letters[g.IntN(len(letters))]
	}
	return string(b)
}

// octets are 12 to 16 of any value, as a rule writes them.
func (g generator) octets() string {
	words := make([]string, 12+g.IntN(5))
	for i := range words {
		words[i] = fmt.Sprintf("%02x", g.IntN(256))
	}
	return "|" + strings.Join(words, " ") + "|"
}
