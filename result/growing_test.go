// SPDX-License-Identifier: Apache-2.0

package result

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"boxdyno/unit"
)

// Cut at any octet, telemetry is read up to the last whole member, and the rest of it once
// that is there: together the same as at once.
func TestTelemetryTail(t *testing.T) {
	b, err := Create(t.TempDir(), Run{Schema: Schema, ID: "x"})
	if err != nil {
		t.Fatal(err)
	}
	head, _ := json.Marshal(TelemetryHead{Schema: Schema, Rate: 10, Series: []Series{{Name: "a", Unit: "1"}, {Name: "b", Unit: "1"}}})
	lines := append(head, '\n')
	var want []float64
	for i := range 40 {
		lines = AppendBatch(lines, Batch{At: unit.Instant(i) * 1e8, First: 1, Values: []float64{float64(i)}})
		want = append(want, float64(i))
		if i%10 == 9 {
			if err := b.Sample(lines); err != nil {
				t.Fatal(err)
			}
			lines = nil
		}
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(b.Dir, TelemetryFile)
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	part := filepath.Join(t.TempDir(), "part")
	for cut := 0; cut <= len(whole); cut += 3 {
		var tail TelemetryTail
		var got []float64
		for _, n := range []int{cut, len(whole)} {
			if err := os.WriteFile(part, whole[:n], 0o600); err != nil {
				t.Fatal(err)
			}
			f, err := os.Open(part)
			if err != nil {
				t.Fatal(err)
			}
			for more := true; more && err == nil; {
				more, err = tail.Read(f, 1<<20, func(h TelemetryHead, b Batch) {
					if len(h.Series) != 2 || b.First != 1 {
						t.Fatalf("head %v, batch %v", h, b)
					}
					got = append(got, b.Values...)
				})
			}
			if f.Close(); err != nil {
				t.Fatal(err)
			}
			if n < len(whole) && len(got)%10 != 0 {
				t.Fatalf("of %d octets there are %d values", n, len(got))
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("cut at %d: %v", cut, got)
		}
	}
}

// What SIGKILL left of a line of the log is gone before the next one.
func TestLog(t *testing.T) {
	dir := t.TempDir()
	b, err := Create(dir, Run{Schema: Schema, ID: "x"})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Log(LogLine{Kind: LogNote, Text: "one"}); err != nil {
		t.Fatal(err)
	}
	b.Close()
	name := filepath.Join(dir, LogFile)
	f, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	f.WriteString(`{"at":"20`)
	f.Close()
	if b, _, _, err = Resume(nil, dir); err != nil {
		t.Fatal(err)
	}
	if err := b.Log(LogLine{Kind: LogEnd, Share: 1}); err != nil {
		t.Fatal(err)
	}
	b.Close()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	if len(lines) != 2 {
		t.Fatalf("%q", lines)
	}
	for i, want := range []LogKind{LogNote, LogEnd} {
		var l LogLine
		if err := json.Unmarshal([]byte(lines[i]), &l); err != nil || l.Kind != want {
			t.Errorf("%v %v", l, err)
		}
	}
}
