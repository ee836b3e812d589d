// SPDX-License-Identifier: Apache-2.0

package ids

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

// GenerateRules writes n rules, 0 to MostGenerated, in the language of Suricata 7. They
// follow the statistics of a real set (ruleShapes), so that searching them costs about
// what real rules cost, and equal n and seeds give equal rules. Some look first for what
// ordinary traffic has. Each also wants random octets, or packets that no application
// sends: none raises an alert on the application mix. Sids begin at FirstGeneratedSID,
// and messages with "boxdyno generated".
func GenerateRules(w io.Writer, n int, seed uint64) (RuleSet, error) {
	if n < 0 || n > MostGenerated {
		return RuleSet{}, fmt.Errorf("generate %d rules: want 0 to %d", n, MostGenerated)
	}
	if n == 0 {
		return RuleSet{Kind: RulesNone, Label: "no rules"}, nil
	}
	g := newGenerator(seed)
	b := bufio.NewWriter(w)
	for i := range n {
		_, _ = fmt.Fprintf(b, "%s sid:%d; rev:1;)\n", g.rule(i), FirstGeneratedSID+i) // Flush has the error
	}
	if err := b.Flush(); err != nil {
		return RuleSet{}, fmt.Errorf("write the rules: %w", err)
	}
	return RuleSet{Kind: RulesGenerated, Label: fmt.Sprintf("generated (%d, seed %d, calibration %s)", n, seed, RulesCalibration), Rules: n}, nil
}

// A generator spreads shapes, and properties within a shape, evenly: any run of rules has
// the shares of ruleShapes.
type generator struct {
	*rand.Rand
	total  int
	states []shapeState
}

type shapeState struct {
	due                              int64 // share not yet made up, in shares
	common, nocase, pcre, bits, more spread
	token, size                      int    // what was drawn last
	bit                              string // flowbit that the next rule with flowbits needs; empty: it sets one
}

// A spread yields true in the given share of its calls, as evenly as can be.
type spread struct{ sum int }

func (s *spread) next(share, of int) int {
	s.sum += share
	n := s.sum / of
	s.sum -= n * of
	return n
}

func newGenerator(seed uint64) *generator {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 0x67656e)), states: make([]shapeState, len(ruleShapes))}
	for i := range ruleShapes {
		g.total += ruleShapes[i].share
		s := &g.states[i]
		s.common.sum, s.size = g.IntN(10_000), g.IntN(goldenSteps)
		for _, p := range []*spread{&s.nocase, &s.pcre, &s.bits, &s.more} {
			p.sum = g.IntN(100)
		}
	}
	return g
}

// pick returns the shape that lags most behind its share.
func (g *generator) pick() int {
	most := 0
	for i := range g.states {
		g.states[i].due += int64(ruleShapes[i].share)
		if g.states[i].due > g.states[most].due {
			most = i
		}
	}
	g.states[most].due -= int64(g.total)
	return most
}

// rule returns rule i without its sid.
func (g *generator) rule(i int) string {
	k := g.pick()
	s, t := &ruleShapes[k], &g.states[k]
	var b strings.Builder
	fmt.Fprintf(&b, "alert %s %s (msg:\"boxdyno generated %s\";", s.proto, s.head, s.proto)
	if s.flow != "" {
		fmt.Fprintf(&b, " flow:%s;", s.flow)
	}
	if s.without != "" {
		g.bare(&b, s.without)
		return b.String()
	}
	size := g.size(s, t)
	if s.dsize {
		fmt.Fprintf(&b, " dsize:%d;", size+distinct+g.IntN(64))
	}
	if s.buffer != "" {
		fmt.Fprintf(&b, " %s;", s.buffer)
	}
	common := len(s.tokens) > 0 && t.common.next(s.common, 10_000) > 0
	more := t.more.next(s.more, 100)
	if common {
		token := s.tokens[t.token%len(s.tokens)]
		t.token++
		size = contentLen(token)
		fmt.Fprintf(&b, ` content:"%s";`, token)
	} else {
		fmt.Fprintf(&b, ` content:"%s";`, g.pattern(s, size))
		if t.nocase.next(s.nocase, 100) > 0 && s.buffer != "http.host" {
			b.WriteString(" nocase;")
		}
	}
	if s.offset {
		fmt.Fprintf(&b, " depth:%d;", size+g.IntN(4)/3*g.IntN(16)) // most stand at the beginning
	}
	b.WriteString(" fast_pattern;")
	pcre := t.pcre.next(s.pcre, 100) > 0
	// Without an alert: a short pattern is in the traffic by chance, a common one by intent.
	if (common || size < distinct) && !pcre {
		more = max(more, 1)
	}
	for j := range more {
		n := 4 + g.IntN(12)
		if j == 0 {
			n = distinct + g.IntN(6)
		}
		fmt.Fprintf(&b, ` content:"%s";`, g.pattern(s, n))
		if !s.offset && !s.dsize && g.IntN(2) == 0 {
			b.WriteString(" distance:0;")
		}
	}
	if pcre {
		fmt.Fprintf(&b, ` pcre:"/%s[a-z0-9]{2,8}=?\d+/%s";`, g.word(distinct, s), map[bool]string{true: "i", false: ""}[s.nocase > 50 && s.buffer != "http.host"])
	}
	if t.bits.next(s.bits, 100) > 0 {
		if t.bit == "" {
			t.bit = fmt.Sprintf("boxdyno.%d", i)
			fmt.Fprintf(&b, " flowbits:set,%s; flowbits:noalert;", t.bit)
		} else {
			fmt.Fprintf(&b, " flowbits:isset,%s;", t.bit)
			t.bit = ""
		}
	}
	return b.String()
}

const (
	distinct    = 10 // octets of a pattern that no traffic has by chance
	goldenSteps = 1000
)

// size draws the length of a fast pattern, evenly from the shape's distribution.
func (g *generator) size(s *ruleShape, t *shapeState) int {
	t.size = (t.size + 618) % goldenSteps // 1000 over the golden ratio
	u := float64(t.size) / goldenSteps * 4
	q := min(int(u), 3)
	lo, hi := float64(s.size[q]), float64(s.size[q+1])
	f := u - float64(q)
	switch q { // the ends of a distribution are thin
	case 0:
		f = 1 - (1-f)*(1-f)*(1-f)
	case 3:
		f = f * f * f
	}
	return int(lo + f*(hi-lo) + 0.5)
}

// contentLen returns the octets of a content as a rule writes it.
func contentLen(s string) (n int) {
	for i, part := range strings.Split(s, "|") {
		if i%2 == 1 {
			n += len(strings.Fields(part))
		} else {
			n += len(part)
		}
	}
	return n
}

// pattern returns n octets of the shape's kind, as a content writes them.
func (g *generator) pattern(s *ruleShape, n int) string {
	if !s.binary {
		return g.word(n, s)
	}
	octets := make([]string, n)
	for i := range octets {
		octets[i] = fmt.Sprintf("%02x", g.IntN(256))
	}
	return "|" + strings.Join(octets, " ") + "|"
}

var syllables = strings.Fields("an ar ba be bo ca ce co da de di do en er es fa fi ge ha hi il in is ja jo ka ko la le li lo ma me mi mo na ne ni no on or pa pe po ra re ri ro sa se si so ta te ti to un ur va ve vi wa we wi xa za com php get set log img asp exe key cmd")

// word returns n characters like those of names, with one pair that no word has.
func (g *generator) word(n int, s *ruleShape) string {
	var b strings.Builder
	mark := g.IntN(max(1, n-2))
	for b.Len() < n {
		switch {
		case b.Len() >= mark && mark >= 0:
			fmt.Fprintf(&b, "%c%d", "qjxz"[g.IntN(4)], g.IntN(10))
			mark = -1
		case g.IntN(6) == 0 && s.buffer == "http.uri":
			b.WriteByte("/=&-_"[g.IntN(5)])
		case g.IntN(8) == 0:
			b.WriteByte("-_0123456789"[g.IntN(12)])
		default:
			w := syllables[g.IntN(len(syllables))]
			if s.buffer != "http.host" && g.IntN(8) == 0 {
				w = strings.ToUpper(w[:1]) + w[1:]
			}
			b.WriteString(w)
		}
	}
	return b.String()[:n]
}

// bare writes what a rule without a fast pattern looks for.
func (g *generator) bare(b *strings.Builder, what string) {
	plain := &ruleShape{}
	switch what {
	case pcreDigits: // numbers in groups
		fmt.Fprintf(b, ` pcre:"/ (%d\d{3}|%d[1-5]\d{2}|%d\d{3})[ -]\d{%d} \d{%d} /";`, 1+g.IntN(9), 1+g.IntN(9), 1+g.IntN(9), 4+g.IntN(6), 3+g.IntN(6))
	case pcreGUIDs:
		ids := make([]string, 10+g.IntN(10))
		for i := range ids {
			ids[i] = fmt.Sprintf("%08X-%04X-%04X-%04X-%012X", g.Uint32(), g.IntN(1<<16), g.IntN(1<<16), g.IntN(1<<16), g.Uint64()>>16)
		}
		fmt.Fprintf(b, ` pcre:"/%s/i";`, strings.Join(ids, "|"))
	case pcreWords:
		fmt.Fprintf(b, ` pcre:"/(%s\s%s|%s)/i";`, g.word(8, plain), g.word(6, plain), g.word(distinct, plain))
	case pcreCommand:
		fmt.Fprintf(b, ` pcre:"/^(%s|%s)\s+[#&]?%s/i";`, g.word(4, plain), g.word(4, plain), g.word(6, plain))
	default:
		b.WriteByte(' ')
		fmt.Fprintf(b, what, 1+g.IntN(1200))
	}
}
