// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"boxdyno/host"
	"boxdyno/ledger"
)

const generated = "## Drivers\n"

// counterTable is the dictionary's table as docs/counters.md has it: each driver's
// drops. "boxdyno list counters" prints the rest.
func counterTable() string {
	var b strings.Builder
	b.WriteString(generated + "\n| driver | frames were lost, or dropped by policy, where these grow |\n|---|---|\n")
	for _, d := range ledger.Drivers() {
		var drops []string
		for _, c := range d.Counters {
			if c.Use == "drop" {
				drops = append(drops, "`"+c.Counter+"`")
			}
		}
		fmt.Fprintf(&b, "| %s | %s |\n", strings.Join(d.Names, ", "), strings.Join(drops, ", "))
	}
	return b.String()
}

// TestCounters compares docs/counters.md with the dictionary, from which its table
// is made. A failure writes the page as it should be beside it.
func TestCounters(t *testing.T) {
	file := filepath.Join(root(t), "docs/counters.md")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	head, got, ok := strings.Cut(string(text), generated)
	if want := counterTable(); !ok || generated+got != want {
		if err := os.WriteFile(file+".got", []byte(head+want), 0o666); err != nil {
			t.Error(err)
		}
		t.Errorf("docs/counters.md is not what the dictionary says: look at docs/counters.md.got, and move it there")
	}
}

// The conditions stand on their page, with their sentences.
func TestConditions(t *testing.T) {
	p := named(t, "docs/preflight.md")
	rows := tables(p.section(t, "What is bad in itself"))
	var want [][]string
	plain := strings.NewReplacer("$1", "PORT", "$2", "...")
	for _, c := range host.Conditions {
		want = append(want, []string{c.Name, plain.Replace(c.Sentence), plain.Replace(c.Remedy)})
	}
	for i, w := range want {
		if i >= len(rows) || fmt.Sprint(rows[i]) != fmt.Sprint(w) {
			t.Errorf("%s: row %d should be | %s |", p.name, i+1, strings.Join(w, " | "))
		}
	}
	if len(rows) != len(want) {
		t.Errorf("%s has %d rows of conditions, and the code %d", p.name, len(rows), len(want))
	}
}
