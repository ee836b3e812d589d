// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"math/rand/v2"
	"testing"

	"boxdyno/report"
)

// The cases of a comparison fail where Slower names them.
func TestComparisonCases(t *testing.T) {
	for _, c := range []struct {
		factor, least float64
		fails         bool
	}{{0.9, 0, true}, {0.9, 0.2, false}, {1, 0, false}} {
		got, err := report.Compare("x", inTurn(rand.New(rand.NewPCG(1, 1)), 8, c.factor, 0.01), nil)
		if err != nil {
			t.Fatal(err)
		}
		failed := 0
		cases := got.Cases(c.least)
		for _, one := range cases {
			if one.Failure != "" {
				failed++
			}
		}
		if want := len(got.Slower(c.least)); failed != want || (failed > 0) != c.fails || len(cases) == 0 {
			t.Errorf("%+v: %d of %d cases failed, Slower names %d", c, failed, len(cases), want)
		}
	}
}
