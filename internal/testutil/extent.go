// SPDX-License-Identifier: Apache-2.0

package testutil

import (
	"os"
	"testing"
)

// Full says whether tests go to their full extent, as script/prove --tests asks for.
func Full() bool { return os.Getenv("BOXDYNO_FULL") == "1" }

// Cases is how many of n drawn cases a test goes through: all with BOXDYNO_FULL=1,
// else a fifth, and at least one.
func Cases(n int) int {
	if Full() {
		return n
	}
	return max(1, n/5)
}

// Computed skips a test that computes for long, with the race detector, which makes it
// ten times slower and sees the same code in shorter tests. script/test runs what is
// skipped there once more, without the detector.
func Computed(t testing.TB) {
	t.Helper()
	Unraced(t, "computes for long")
}

// Unraced skips a test that cannot run with the race detector, and says why.
func Unraced(t testing.TB, why string) {
	t.Helper()
	if race {
		t.Skip(why + ": runs without the race detector")
	}
}

// Long skips a test that takes long for what it adds to shorter ones, but with
// BOXDYNO_FULL=1.
func Long(t testing.TB) {
	t.Helper()
	if !Full() {
		t.Skip("takes long: runs in script/prove --tests")
	}
}
