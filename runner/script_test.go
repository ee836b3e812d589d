// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"errors"
	"testing"

	"boxdyno/procedure"
)

// A procedure goes on where it paused, and one that is stopped there ends in order.
func TestScript(t *testing.T) {
	failure := errors.New("failed")
	at, ended := 0, 0
	run := func(pause func(procedure.Outcome) bool) (procedure.Outcome, error) {
		defer func() { ended++ }()
		for at = 1; at < 3; at++ {
			if o := (procedure.Outcome{Reason: "paused"}); !pause(o) {
				return o, nil
			}
		}
		return procedure.Outcome{Reason: "over"}, failure
	}
	s := perform(run)
	for want := 1; want <= 2; want++ {
		if o, paused, err := s.next(); !paused || err != nil || o.Reason != "paused" || at != want || ended != 0 {
			t.Errorf("part %d: %+v, paused %v, %v, at %d", want, o, paused, err, at)
		}
	}
	if o, paused, err := s.next(); paused || !errors.Is(err, failure) || o.Reason != "over" || ended != 1 {
		t.Errorf("the end: %+v, paused %v, %v", o, paused, err)
	}
	s.stop()
	s = perform(run)
	if _, paused, _ := s.next(); !paused {
		t.Fatal("it did not pause")
	}
	s.stop()
	s.stop()
	if at != 1 || ended != 2 {
		t.Errorf("stopped at %d, ended %d times", at, ended)
	}
	perform(run).stop()
	if ended != 2 {
		t.Error("one that was not begun was carried out")
	}
}
