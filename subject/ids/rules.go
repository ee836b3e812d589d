// SPDX-License-Identifier: Apache-2.0

package ids

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"boxdyno/internal/files"
)

// A RuleSet says what is in a file of rules that was written for a run.
type RuleSet struct {
	Kind     string // RulesNone, RulesGenerated or RulesReal: never mixed
	Label    string // for people: "generated (seed 7)", "et-open.rules (sha256 1a2b3c4d5e6f, 1000 of 20116, seed 7)"
	File     string // of real rules: the name of their file, without its folder, or the folder of files
	SHA256   string // of real rules: of that file as it is, packed or not; hexadecimal
	Found    int    // of real rules: those in the file that are enabled
	Disabled int    // of real rules: those in the file that are commented out
	Other    int    // of real rules: lines in the file that are neither a rule nor a comment; they are left out
	Needed   int    // of real rules: of Rules, those that were not drawn, and set flowbits that drawn ones need
	Unset    int    // of real rules: of Rules, those that need a flowbit that no enabled rule of the file sets: they never match
	Rules    int    // that were written
}

// What a RuleSet's rules are.
const (
	RulesNone      = "none"
	RulesGenerated = "generated"
	RulesReal      = "real"
)

const (
	// mostRuleFile is what a file of rules may have in octets, unpacked.
	mostRuleFile = 256 << 20
	mostRuleLine = 64 << 10
)

// A rule is one line of a file.
type rule struct {
	text  string
	sets  []string // flowbits that it sets or toggles
	needs []string // flowbits of which it needs each ("a|b": one of both)
}

// MachineRules is where a machine keeps the rules that its Suricata runs with
// (suricata-update writes them there).
const MachineRules = "/var/lib/suricata/rules"

// ErrTooFewRules says that a file has fewer enabled rules than were asked for.
var ErrTooFewRules = errors.New("too few rules")

// SampleRules writes n of the enabled rules of a file (plain or gzip) or of a folder's
// *.rules, drawn with the seed, in their order; n 0: all. The rules that set the flowbits
// of drawn ones are among the n (Needed); a rule whose chain does not fit is passed over,
// so fewer than n may come. With equal seeds a larger sample has nearly all of a smaller
// one. The error is fs.ErrNotExist for a folder without rules.
func SampleRules(w io.Writer, file string, n int, seed uint64) (RuleSet, error) {
	data, err := readRules(file)
	if err != nil {
		return RuleSet{}, fmt.Errorf("read the rules: %w", err)
	}
	sum := sha256.Sum256(data)
	if bytes.HasPrefix(data, []byte{0x1f, 0x8b}) {
		if data, err = unpack(data); err != nil {
			return RuleSet{}, fmt.Errorf("read the rules: unpack %s: %w", file, err)
		}
	}
	set := RuleSet{Kind: RulesReal, File: filepath.Base(file), SHA256: hex.EncodeToString(sum[:])}
	if isFolder(file) {
		set.File = file
	}
	rules, err := parseRules(data, &set)
	if err != nil {
		return RuleSet{}, fmt.Errorf("read the rules: %s %w", file, err)
	}
	if set.Found == 0 {
		return RuleSet{}, fmt.Errorf("read the rules: %s has no enabled rule (%d are commented out, %d lines are no rule): %w", file, set.Disabled, set.Other, ErrTooFewRules)
	}
	if n < 0 || n > set.Found {
		return RuleSet{}, fmt.Errorf("sample %d rules: %s has %d enabled ones: give that many at most, or 0 for all: %w", n, file, set.Found, ErrTooFewRules)
	}
	drawn := draw(rules, n, seed, &set)
	set.Label = fmt.Sprintf("%s (sha256 %.12s, all %d)", set.File, set.SHA256, set.Found)
	if n > 0 {
		set.Label = fmt.Sprintf("%s (sha256 %.12s, %d of %d, seed %d)", set.File, set.SHA256, set.Rules, set.Found, seed)
	}
	b := bufio.NewWriter(w)
	for _, i := range drawn {
		_, _ = b.WriteString(rules[i].text) // Flush has the error
		_ = b.WriteByte('\n')
	}
	if err := b.Flush(); err != nil {
		return RuleSet{}, fmt.Errorf("write the rules: %w", err)
	}
	return set, nil
}

func readRules(file string) ([]byte, error) {
	if isFolder(file) {
		return readFolder(file)
	}
	return files.Read(file, mostRuleFile)
}

// CheckRules returns what keeps SampleRules from opening a file or folder of rules.
func CheckRules(file string) error {
	if isFolder(file) {
		return nil
	}
	f, err := files.Open(file)
	if err != nil {
		return err
	}
	return f.Close()
}

func isFolder(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

// readFolder returns the rules of a folder's files, one file after the other.
func readFolder(dir string) (all []byte, err error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.rules"))
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%s has no file *.rules: %w", dir, fs.ErrNotExist)
	}
	for _, name := range names {
		data, err := files.Read(name, mostRuleFile)
		if err != nil {
			return nil, err
		}
		if all = append(append(all, data...), '\n'); len(all) > mostRuleFile {
			return nil, fmt.Errorf("%s has more than %d MiB of rules", dir, mostRuleFile>>20)
		}
	}
	return all, nil
}

func unpack(data []byte) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	out, err := io.ReadAll(io.LimitReader(z, mostRuleFile+1))
	if err == nil && len(out) > mostRuleFile {
		err = fmt.Errorf("what is in it has more than %d MiB", mostRuleFile>>20)
	}
	return out, errors.Join(err, z.Close())
}

var (
	ruleLine = regexp.MustCompile(`^(alert|drop|pass|reject|rejectsrc|rejectdst|rejectboth)\s+\S.*\(.*\)$`)
	flowbits = regexp.MustCompile(`[;(]\s*flowbits\s*:\s*([a-z]+)\s*,\s*([^;]+)`)
)

// parseRules are the enabled rules; a line that ends with a backslash goes on.
func parseRules(data []byte, set *RuleSet) (rules []rule, err error) {
	if bytes.IndexByte(data, 0) >= 0 {
		return nil, errors.New("is no text")
	}
	part := ""
	number := 0
	for line := range strings.Lines(string(data)) {
		number++
		line = part + strings.TrimSpace(line)
		part = ""
		if len(line) > mostRuleLine {
			return nil, fmt.Errorf("line %d: a rule of more than %d octets", number, mostRuleLine)
		}
		if rest, more := strings.CutSuffix(line, `\`); more && !strings.HasPrefix(line, "#") {
			part = strings.TrimSpace(rest) + " "
			continue
		}
		switch {
		case line == "":
		case strings.HasPrefix(line, "#"):
			if ruleLine.MatchString(strings.TrimLeft(line, "# \t")) {
				set.Disabled++
			}
		case ruleLine.MatchString(line):
			rules = append(rules, parseRule(line))
		default:
			set.Other++
		}
	}
	if part != "" {
		set.Other++
	}
	set.Found = len(rules)
	return rules, nil
}

func parseRule(line string) rule {
	r := rule{text: line}
	for _, m := range flowbits.FindAllStringSubmatch(line, -1) {
		names := strings.ReplaceAll(strings.TrimSpace(m[2]), " ", "")
		switch m[1] {
		case "set", "toggle":
			r.sets = append(r.sets, strings.Split(names, "|")...)
		case "isset":
			r.needs = append(r.needs, names)
		}
	}
	return r
}

// draw chooses n rules by their index, or fewer where the flowbits of those that are left
// need more than there is room for; n 0: all.
func draw(rules []rule, n int, seed uint64, set *RuleSet) (chosen []int) {
	setters := map[string][]int{}
	for i, r := range rules {
		for _, bit := range r.sets {
			setters[bit] = append(setters[bit], i)
		}
	}
	in := make([]bool, len(rules))
	if n == 0 {
		n = len(rules)
	}
	order := rand.New(rand.NewPCG(seed, 0x72756c6573)).Perm(len(rules))
	for moved := true; moved && set.Rules < n; {
		moved = false
		for _, i := range order {
			if in[i] || set.Rules == n {
				continue
			}
			chain := needed(rules, setters, in, i)
			if set.Rules+len(chain) > n {
				continue
			}
			for _, j := range chain {
				in[j] = true
			}
			set.Rules += len(chain)
			set.Needed += len(chain) - 1
			moved = true
		}
	}
	if n == len(rules) {
		set.Needed = 0
	}
	for i := range in {
		if !in[i] {
			continue
		}
		chosen = append(chosen, i)
		if slices.ContainsFunc(rules[i].needs, func(bits string) bool { return !settable(setters, bits) }) {
			set.Unset++
		}
	}
	return chosen
}

// settable says whether a rule sets one of the flowbits "a|b".
func settable(setters map[string][]int, bits string) bool {
	return slices.ContainsFunc(strings.Split(bits, "|"), func(bit string) bool { return len(setters[bit]) > 0 })
}

// needed are rule i and those that set its flowbits, and theirs, that are not in yet: of
// several that set one the first.
func needed(rules []rule, setters map[string][]int, in []bool, i int) (chain []int) {
	chain = []int{i}
	for at := 0; at < len(chain); at++ {
		for _, bits := range rules[chain[at]].needs {
			var by []int
			for _, bit := range strings.Split(bits, "|") {
				by = append(by, setters[bit]...)
			}
			met := slices.ContainsFunc(by, func(j int) bool { return in[j] || slices.Contains(chain, j) })
			if !met && len(by) > 0 {
				chain = append(chain, by[0])
			}
		}
	}
	return chain
}
