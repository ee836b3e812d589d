// SPDX-License-Identifier: Apache-2.0

package report

import (
	"testing"

	"boxdyno/result"
)

// A share that is a bound says so, as every other figure does.
func TestShareThatIsABound(t *testing.T) {
	for want, f := range map[string]Figure{
		"2.0 %":    {Value: 0.02},
		">= 2.0 %": {Value: 0.02, Bound: result.AtLeast},
		"<= 0.0 %": {Bound: result.AtMost},
		"< 0.1 %":  {Value: 1e-5, Bound: result.AtMost},
	} {
		if got := (Column{Share: true}).cell(&f).Text; got != want {
			t.Errorf("%+v: %q, want %q", f, got, want)
		}
	}
}
