// SPDX-License-Identifier: Apache-2.0

package subject

import (
	"errors"
	"strings"
	"testing"

	"boxdyno/host"
	"boxdyno/internal/testutil"
	"boxdyno/result"
)

// A program of /usr/sbin runs, which an ordinary user's PATH lacks.
func TestGateFindsPrograms(t *testing.T) {
	testutil.NoLeaks(t)
	t.Setenv("PATH", t.TempDir())
	if err := host.Has("chroot"); err != nil { // of coreutils
		t.Skip(err)
	}
	var said string
	w, err := Command{Name: "chroot", Argv: []string{"chroot", "--version"}, Read: func(w Worked) ([]result.Value, error) {
		said = w.Stdout
		return nil, nil
	}}.Start(t.Context(), Env{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := w.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	if err := errors.Join(w.Ready(t.Context()), w.Begin()); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Wait(t.Context()); err != nil || !strings.Contains(said, "chroot") {
		t.Errorf("it said %q, %v", said, err)
	}
}
