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

// counterTables are the dictionary's tables as docs/counters.md has them.
func counterTables() string {
	var b strings.Builder
	b.WriteString(generated)
	for _, d := range ledger.Drivers() {
		fmt.Fprintf(&b, "\n### %s\n\n", strings.Join(d.Names, ", "))
		if d.Note != "" {
			fmt.Fprintf(&b, "%s\n\n", d.Note)
		}
		b.WriteString("| counter | is | place | name, or counted by | but |\n|---|---|---|---|---|\n")
		for _, c := range d.Counters {
			place, name := string(c.Place), c.Name
			if name != "" && place == "" {
				place = "the port's"
			}
			if c.In != "" {
				name = "`" + strings.ReplaceAll(c.In, ", ", "`, `") + "`"
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", c.Counter, c.Use, place, name, c.Why)
		}
		fmt.Fprintf(&b, "\nRead from %s.\n", d.Source)
	}
	return b.String()
}

// TestCounters compares docs/counters.md with the dictionary, from which its tables
// are made. A failure writes the page as it should be beside it.
func TestCounters(t *testing.T) {
	file := filepath.Join(root(t), "docs/counters.md")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	head, got, ok := strings.Cut(string(text), generated)
	if want := counterTables(); !ok || generated+got != want {
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
