// SPDX-License-Identifier: Apache-2.0

package grid

import (
	"testing"
)

func TestLetters(t *testing.T) {
	for n, want := range map[int]string{0: "a", 25: "z", 26: "aa", 53: "bb"} {
		if got := letters(n); got != want {
			t.Errorf("%d is %s, want %s", n, got, want)
		}
	}
}
