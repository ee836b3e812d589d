// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"iter"

	"boxdyno/procedure"
)

// A script is a procedure under way that stands still where it pauses. It needs no
// goroutine beside the runner's: either of them waits for the other.
type script struct {
	part func() (procedure.Outcome, bool)
	end  procedure.Outcome
	err  error
	// stop ends the procedure: its pause returns false. It may be called more than once.
	stop func()
}

// perform is run as a script. Nothing of it is carried out before next is called.
func perform(run func(pause func(procedure.Outcome) bool) (procedure.Outcome, error)) *script {
	s := &script{}
	s.part, s.stop = iter.Pull(func(yield func(procedure.Outcome) bool) { s.end, s.err = run(yield) })
	return s
}

// next goes on to the next pause, or to the end.
func (s *script) next() (o procedure.Outcome, paused bool, err error) {
	if o, paused := s.part(); paused {
		return o, true, nil
	}
	return s.end, false, s.err
}
