// SPDX-License-Identifier: Apache-2.0

package ids

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"boxdyno/internal/files"
	"boxdyno/internal/testutil"
)

const ruleFile = `# a comment, in which alert is a word
#alert tcp any any -> any any (msg:"off"; sid:1;)
# alert tcp any any -> any any (msg:"off, too"; sid:2;)

alert tcp any any -> any any (msg:"sets a"; flowbits:set,a; flowbits:noalert; sid:10;)
alert tcp any any -> any any (msg:"needs a, sets b"; flowbits:isset,a; flowbits:set,b; sid:11;)
alert tcp any any -> any any (msg:"needs b or c"; flowbits:isset,b|c; sid:12;)
alert tcp any any -> any any (msg:"needs what nobody sets"; flowbits: isset, gone; sid:13;)
alert http any any -> any any (msg:"goes on"; \
    content:"x"; sid:14;)
this is no rule
drop udp any any -> any any (msg:"not a"; flowbits:isnotset,a; sid:15;)
`

func written(t *testing.T, content []byte) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "my.rules")
	if err := os.WriteFile(name, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func sids(text string) (out []string) {
	for line := range strings.Lines(text) {
		_, after, _ := strings.Cut(line, "sid:")
		sid, _, _ := strings.Cut(after, ";")
		out = append(out, sid)
	}
	return out
}

func TestSampleRules(t *testing.T) {
	name := written(t, []byte(ruleFile))
	var b bytes.Buffer
	set, err := SampleRules(&b, name, 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	if set.Kind != RulesReal || set.File != "my.rules" || set.Found != 6 || set.Disabled != 2 || set.Other != 1 || set.Rules != 6 || set.Needed != 0 || set.Unset != 1 {
		t.Errorf("%+v", set)
	}
	if want := []string{"10", "11", "12", "13", "14", "15"}; !slices.Equal(sids(b.String()), want) {
		t.Errorf("%v, want %v", sids(b.String()), want)
	}
	if want := fmt.Sprintf("my.rules (sha256 %.12s, all 6)", set.SHA256); set.Label != want || len(set.SHA256) != 64 {
		t.Errorf("%q, want %q", set.Label, want)
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write([]byte(ruleFile))
	_ = z.Close()
	var b2 bytes.Buffer
	again, err := SampleRules(&b2, written(t, packed.Bytes()), 0, 1)
	if err != nil || again.SHA256 == set.SHA256 || b2.String() != b.String() {
		t.Errorf("%+v, %v", again, err)
	}
}

// Of a folder all files *.rules count as one.
func TestSampleRulesOfAFolder(t *testing.T) {
	dir := t.TempDir()
	var b bytes.Buffer
	if _, err := SampleRules(&b, dir, 1, 1); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	for name, text := range map[string]string{
		"b.rules": "alert tcp any any -> any any (sid:2;)", "a.rules": "alert tcp any any -> any any (sid:1;)", "c.txt": "alert tcp any any -> any any (sid:3;)",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	set, err := SampleRules(&b, dir, 0, 1)
	if err != nil || !slices.Equal(sids(b.String()), []string{"1", "2"}) || set.File != dir {
		t.Errorf("%+v, %v: %s", set, err, &b)
	}
	if _, err := SampleRules(&b, dir, 3, 1); !errors.Is(err, ErrTooFewRules) {
		t.Error(err)
	}
}

// Whatever is drawn has the rules that set its flowbits, and equal seeds draw equal rules.
func TestSampleKeepsFlowbits(t *testing.T) {
	name := written(t, []byte(ruleFile))
	drawn := map[string]bool{}
	for n := 1; n <= 6; n++ {
		for seed := range uint64(40) {
			var b, again bytes.Buffer
			set, err := SampleRules(&b, name, n, seed)
			if _, err2 := SampleRules(&again, name, n, seed); err != nil || err2 != nil || b.String() != again.String() {
				t.Fatalf("%v, %v\n%s\n%s", err, err2, &b, &again)
			}
			got := sids(b.String())
			if len(got) != n || set.Rules != n || !slices.IsSorted(got) {
				t.Fatalf("%d of %d rules: %v", set.Rules, n, got)
			}
			has := func(sid string) bool { return slices.Contains(got, sid) }
			if has("11") && !has("10") || has("12") && !has("11") || has("13") != (set.Unset == 1) {
				t.Fatalf("%v, %+v", got, set)
			}
			drawn[b.String()] = true
		}
	}
	if len(drawn) < 12 {
		t.Errorf("%d different samples", len(drawn))
	}
	chain := "alert tcp any any -> any any (flowbits:isset,b; flowbits:set,a; sid:1;)\nalert tcp any any -> any any (flowbits:isset,a; flowbits:set,b; sid:2;)\n"
	var b bytes.Buffer
	if set, err := SampleRules(&b, written(t, []byte(chain)), 1, 1); err != nil || set.Rules != 0 || b.Len() != 0 {
		t.Errorf("%+v, %v", set, err)
	}
}

func TestSampleRulesErrors(t *testing.T) {
	for want, content := range map[string][]byte{
		"has no enabled rule (1 are commented out, 1 lines are no rule)": []byte("#alert tcp any any -> any any (sid:1;)\nhello\n"),
		"is no text": []byte("alert\x00"),
		"unpack ":    {0x1f, 0x8b, 8, 0, 1},
		"line 1: a rule of more than 65536 octets": []byte("alert tcp any any -> any any (msg:\"" + strings.Repeat("x", mostRuleLine) + "\";)"),
	} {
		name := written(t, content)
		if _, err := SampleRules(&bytes.Buffer{}, name, 0, 1); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), name) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	name := written(t, []byte(ruleFile))
	if _, err := SampleRules(&bytes.Buffer{}, name, 7, 1); err == nil || !strings.Contains(err.Error(), "has 6 enabled ones") {
		t.Error(err)
	}
	if _, err := SampleRules(&bytes.Buffer{}, "nothere.rules", 0, 1); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	full := errors.New("full")
	if _, err := SampleRules(refusing{full}, name, 0, 1); !errors.Is(err, full) {
		t.Error(err)
	}
	if _, err := GenerateRules(refusing{full}, 1, 1); !errors.Is(err, full) {
		t.Error(err)
	}
}

type refusing struct{ err error }

func (r refusing) Write([]byte) (int, error) { return 0, r.err }

func TestGenerateRules(t *testing.T) {
	var b, same, other bytes.Buffer
	set, err := GenerateRules(&b, 1000, 3)
	if err != nil || set.Kind != RulesGenerated || set.Label != "generated (1000, seed 3, calibration "+RulesCalibration+")" || set.Rules != 1000 {
		t.Fatalf("%+v, %v", set, err)
	}
	if _, err := GenerateRules(&same, 1000, 3); err != nil || same.String() != b.String() {
		t.Error("the same seed gives other rules", err)
	}
	if _, err := GenerateRules(&other, 1000, 4); err != nil || other.String() == b.String() {
		t.Error("another seed gives the same rules", err)
	}
	seen := map[string]bool{}
	for i, line := range strings.Split(strings.TrimSpace(b.String()), "\n") {
		if want := fmt.Sprintf("sid:%d;", FirstGeneratedSID+i); !strings.Contains(line, want) || !strings.Contains(line, "boxdyno generated") || !ruleLine.MatchString(line) {
			t.Fatalf("%s: want %s", line, want)
		}
		match := line[:strings.Index(line, "sid:")]
		if seen[match] {
			t.Errorf("twice: %s", match)
		}
		seen[match] = true
	}
	if set, err := GenerateRules(&b, 0, 1); err != nil || set.Kind != RulesNone {
		t.Error(set, err)
	}
	if _, err := GenerateRules(&b, MostGenerated+1, 1); err == nil {
		t.Error("too many are made")
	}
}

// Generated rules have the statistics of 18,000 rules of the real set that they are
// calibrated on, few rules as well as many.
func TestGeneratedRulesAreCalibrated(t *testing.T) {
	testutil.Computed(t)
	calibrated := []struct {
		name string
		real float64 // mean of a rule
		off  float64
		of   *regexp.Regexp
	}{
		{"contents", 2.54, 0.15, regexp.MustCompile(`content:`)},
		{"pcre", 0.436, 0.03, regexp.MustCompile(`pcre:`)},
		{"flowbits", 0.068, 0.02, regexp.MustCompile(`flowbits:(set|isset)`)},
		{"fast patterns without case", 0.57, 0.05, regexp.MustCompile(`nocase;`)},
		{"fast patterns", 0.984, 0.01, regexp.MustCompile(`fast_pattern;`)},
		{"expressions without a pattern", 0.0092, 0.004, regexp.MustCompile(`flow:\S+ pcre:|generated ip"; pcre:`)},
		{"http.uri", 0.442, 0.02, regexp.MustCompile(`http\.uri;`)},
		{"http.header", 0.069, 0.01, regexp.MustCompile(`http\.header;`)},
		{"http.user_agent", 0.044, 0.01, regexp.MustCompile(`http\.user_agent;`)},
		{"http.request_body", 0.033, 0.01, regexp.MustCompile(`http\.request_body;`)},
		{"file.data", 0.122, 0.01, regexp.MustCompile(`file\.data;`)},
		{"dns.query", 0.041, 0.01, regexp.MustCompile(`dns\.query;`)},
		{"tls.sni", 0.0104, 0.004, regexp.MustCompile(`tls\.sni;`)},
		{"udp", 0.035, 0.01, regexp.MustCompile(`(?m)^alert udp`)},
	}
	// A pattern that is in the traffic, by intent or by chance, is not all that a rule wants.
	enough := regexp.MustCompile(`pcre:|without|flags:|dsize:\d+; (sid|byte_test)`)
	for _, n := range []int{1000, 10_000, 18_000} {
		var b bytes.Buffer
		if _, err := GenerateRules(&b, n, 5); err != nil {
			t.Fatal(err)
		}
		for _, c := range calibrated {
			if got := float64(len(c.of.FindAllString(b.String(), -1))) / float64(n); math.Abs(got-c.real) > c.off {
				t.Errorf("%d rules: %s %.4f a rule, want %.4f within %v", n, c.name, got, c.real, c.off)
			}
		}
		for line := range strings.Lines(b.String()) {
			most := 0
			for _, m := range contents.FindAllStringSubmatch(line, -1) {
				if !slices.ContainsFunc(ruleShapes, func(s ruleShape) bool { return slices.Contains(s.tokens, m[1]) }) {
					most = max(most, contentLen(m[1]))
				}
			}
			if most < distinct && !enough.MatchString(line) {
				t.Fatalf("ordinary traffic may have all of it: %s", line)
			}
		}
	}
}

var contents = regexp.MustCompile(`content:"([^"]+)"`)

// Of any file what is written are lines of it, no more than asked for.
func FuzzSampleRules(f *testing.F) {
	f.Add([]byte(ruleFile), 3, uint64(1))
	f.Add([]byte("alert a (flowbits:isset,a|b|;flowbits:toggle,a;)\\\n\\"), 0, uint64(1))
	f.Fuzz(func(t *testing.T, data []byte, n int, seed uint64) {
		var set RuleSet
		rules, err := parseRules(data, &set)
		if err != nil || n < 0 || n > set.Found {
			return
		}
		chosen := draw(rules, n, seed, &set)
		if len(chosen) != set.Rules || n > 0 && len(chosen) > n || n == 0 && len(chosen) != set.Found || !slices.IsSorted(chosen) || len(slices.Compact(chosen)) != set.Rules {
			t.Errorf("%v of %d, %+v", chosen, n, set)
		}
	})
}

// A FIFO is no file of rules, in a folder neither; nothing waits for it.
func TestRulesAreFiles(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "x.rules")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for what, read := range map[string]func() error{
		"read":     func() error { _, err := readRules(fifo); return err },
		"a folder": func() error { _, err := readRules(dir); return err },
		"checked":  func() error { return CheckRules(fifo) },
		"readable": func() error { return readableRules(fifo) },
	} {
		ended := make(chan error, 1)
		go func() { ended <- read() }()
		select {
		case err := <-ended:
			if !errors.Is(err, files.ErrNotRegular) {
				t.Errorf("%s: %v", what, err)
			}
		case <-time.After(time.Minute):
			t.Errorf("%s: it waits", what)
		}
	}
}
