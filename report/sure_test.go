// SPDX-License-Identifier: Apache-2.0

package report

import (
	"slices"
	"strings"
	"testing"

	"boxdyno/result"
)

// A lower bound and an upper one mean the opposite, and a row may have both.
func TestSureOfBounds(t *testing.T) {
	const (
		lower = "a lower bound (>=): the tester could not load the box further, and it may do more."
		open  = "a lower bound (>=) because no load above it is confirmed to be too much: the limit may be higher."
		upper = "an upper bound (<=): the arrivals were not steady when the longest overload ended, and the box may do less."
	)
	row := Row{Bound: result.AtLeast, ForwardingBound: result.AtMost}
	for _, x := range []struct {
		rows []Row
		want []string
	}{
		{[]Row{{Bound: result.AtLeast}, {}}, []string{"1 row has " + lower}},
		{[]Row{{ForwardingBound: result.AtMost}, {DropBound: result.AtMost}}, []string{"2 rows have " + upper}},
		{[]Row{row}, []string{"1 row has " + lower, "1 row has " + upper}},
		{[]Row{{Bound: result.AtLeast, found: tableRow{figures: map[string]*Figure{throughput: {Bound: result.AtLeast, Open: true}}}}, {Bound: result.AtLeast}}, []string{"1 row has " + lower, "1 row has " + open}},
		{[]Row{{}}, nil},
	} {
		said := slices.DeleteFunc(sure(Document{Rows: x.rows}, nil), func(s string) bool { return !strings.Contains(s, "bound") })
		if !slices.Equal(said, x.want) {
			t.Errorf("%q, want %q", said, x.want)
		}
	}
}
