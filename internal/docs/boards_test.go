// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"fmt"
	"strings"
	"testing"

	"boxdyno/reference/boards"
	"boxdyno/reference/sizing"
)

// The needs on the page of the catalogue are read, its boards exist, and the program explains
// each key.
func TestBoardsPage(t *testing.T) {
	p := named(t, "docs/boards-catalogue.md")
	for _, k := range boards.Keys {
		if k.Help == "" {
			t.Errorf("nothing explains the key %s", k.Name)
		}
	}
	if want := fmt.Sprintf(" of %d boards match", len(boards.All())); !strings.Contains(p.text, want) {
		t.Errorf("%s does not have %q: print the list again", p.name, want)
	}
	needs := byCode(t, p.name, p.section(t, "Needs"))
	if len(needs) < 5 {
		t.Errorf("%s has %d needs", p.name, len(needs))
	}
	for need := range needs {
		if _, err := boards.ParseNeeds(need); err != nil {
			t.Errorf("%s: %v", p.name, err)
		}
	}
	for _, row := range tables(p.section(t, "What the studies need and conclude")) {
		for _, id := range codes(row[1]) {
			if _, ok := boards.Find(id); !ok {
				t.Errorf("%s: there is no board %s", p.name, id)
			}
		}
	}
}

// The crossovers on the page of sizes are those that come out of the figures.
func TestSizePage(t *testing.T) {
	p := named(t, "docs/size.md")
	rows := 0
	for _, row := range tables(p.section(t, "The studies' claims")) {
		j := sizing.Job{Kind: sizing.HPL}
		if row[0] != "HPL" {
			cipher, direction, ok := strings.Cut(row[0], ", ")
			if !ok {
				continue // of another table
			}
			j = sizing.Job{Kind: sizing.Crypto, Cipher: cipher, Direction: direction}
		}
		rows++
		r, err := sizing.Plan(j, sizing.Published(j), sizing.Options{Boards: []string{"rpi-3-b-plus"}, Against: []string{"nuc-i5-8500t", "desktop-ryzen-2700"}, Draws: 2})
		if err != nil {
			t.Fatal(err)
		}
		for i, against := range []string{"NUC i5-8500T", "MRD Ryzen 7 2700"} {
			found := map[string]string{}
			for _, x := range r.Crossovers {
				if x.Board != "rpi-3-b-plus" || x.Against != against || x.Measure != sizing.PerBox {
					continue
				}
				if found[x.Scaling] = "never"; x.N != nil {
					found[x.Scaling] = fmt.Sprint(x.N.Value)
				}
			}
			if want := found[sizing.Linear] + ", " + found[sizing.Measured]; strings.ReplaceAll(row[2+i], "*", "") != want {
				t.Errorf("%s: %s against the %s: %q, want %q", p.name, row[0], against, row[2+i], want)
			}
		}
	}
	if rows < 10 {
		t.Errorf("%s: %d rows of claims", p.name, rows)
	}
}
