// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"boxdyno/internal/testutil"
)

// The trial that several procedures build upon is carried out once for each of its
// configurations and repeats, whichever point comes first, and not again by a run
// that is resumed.
func TestShared(t *testing.T) {
	testutil.Computed(t)
	rapid.Check(t, func(t *rapid.T) {
		entries := []string{"{use: probe, kind: [a, b], level: [5, 6]}", "{use: base, kind: [a, b]}"}
		if rapid.Bool().Draw(t, "alone") {
			entries = entries[:1]
		}
		plan := fmt.Sprintf("procedures:\n  - %s\nrepeat: 2\nseed: %d\n", strings.Join(entries, "\n  - "), rapid.Uint64().Draw(t, "seed"))
		whole := &fake{shared: true}
		c := whole.catalogue()
		p := resolved(t, c, plan)
		full := &memory{}
		if _, _, err := Run(context.Background(), p, full, Options{Catalogue: c}); err != nil {
			t.Fatal(err)
		}
		count := func(ran []string) (n int) {
			for _, id := range ran {
				if strings.HasPrefix(id, "base/") {
					n++
				}
			}
			return n
		}
		const want = 2 * 2 * 2 // kinds, levels, repeats
		if n := count(whole.ran); n != want {
			t.Fatalf("%d trials were carried out, want %d: %v", n, want, whole.ran)
		}
		done := last(full.appended[:rapid.IntRange(0, len(full.appended)).Draw(t, "cut")])
		kept := 0
		for _, r := range done {
			if r.Procedure == "base" && r.Parent != "" && r.Finished() {
				kept++
			}
		}
		rest := &fake{shared: true}
		header := full.run
		header.Environments = header.Environments[:1]
		if _, _, err := Run(context.Background(), p, &memory{}, Options{Catalogue: rest.catalogue(), Header: header, Done: done, Resume: true}); err != nil {
			t.Fatal(err)
		}
		if n := count(rest.ran); n+kept != want {
			t.Fatalf("%d were kept and %d carried out again of %d", kept, n, want)
		}
	})
}

// What a point builds upon is in the estimate, once, where no point of the plan
// carries it out.
func TestEstimateOfShared(t *testing.T) {
	c := (&fake{shared: true}).catalogue()
	for plan, want := range map[string]Estimate{
		"procedures: [{use: probe, kind: [a, b]}]":                                  {Points: 2, Trials: 2*5 + 2, Time: 2*2*time.Second + 2*time.Second},
		"procedures: [{use: probe, kind: [a, b]}, {use: base, kind: a}]":            {Points: 3, Trials: 2*5 + 2, Time: 2*2*time.Second + 2*time.Second},
		"procedures: [{use: probe, kind: a, preset: [quick, standard]}]\nrepeat: 2": {Points: 4, Trials: 4*5 + 4, Time: 4*2*time.Second + 4*time.Second},
	} {
		points, err := resolved(t, c, plan).Points(c)
		if err != nil {
			t.Fatal(err)
		}
		if e, err := Check(c, points, nil); err != nil || e != want {
			t.Errorf("%s: %+v, %v; want %+v", plan, e, err, want)
		}
	}
}
