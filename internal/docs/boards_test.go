// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"slices"
	"strings"
	"testing"

	"boxdyno/reference/boards"
)

// The page of the catalogue has a row for each key, with its unit, and its needs are read.
func TestBoardsPage(t *testing.T) {
	p := named(t, "docs/boards-catalogue.md")
	rows := byCode(t, p.name, p.section(t, "What is known"))
	for _, k := range boards.Keys {
		if row := rows[k.Name]; row == nil || !strings.Contains(row[1], k.Unit) {
			t.Errorf("%s has no row for %s with the unit %q", p.name, k.Name, k.Unit)
		}
	}
	for name := range rows {
		if !slices.ContainsFunc(boards.Keys, func(k boards.Key) bool { return k.Name == name }) {
			t.Errorf("%s: there is no key %s", p.name, name)
		}
	}
	for need := range byCode(t, p.name, p.section(t, "Needs")) {
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
