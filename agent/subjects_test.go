// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"flag"
	"path/filepath"
	"testing"

	"boxdyno/host"
	"boxdyno/result"
	"boxdyno/subject"
)

// A slow subject has started once its caller is gone.
type slow struct{ gone, stopped func() }

func (*slow) Flags(*flag.FlagSet)                      {}
func (*slow) Check(context.Context, *host.Local) error { return nil }
func (*slow) Ready(context.Context) error              { return nil }
func (*slow) Usage() (u result.Usage, err error)       { return u, nil }
func (s *slow) Stop(context.Context) error             { s.stopped(); return nil }
func (s *slow) Start(context.Context, subject.Env) (subject.Running, error) {
	s.gone()
	return s, nil
}

// A subject whose number nobody hears is ended at once.
func TestSubjectOfACallerThatIsGone(t *testing.T) {
	ctx, gone := context.WithCancel(t.Context())
	stops := 0
	specs := subject.Specs{{Name: "slow", New: func() subject.Subject { return &slow{gone, func() { stops++ }} }}}
	s := newSession(t.Context(), filepath.Join(t.TempDir(), "agent"), "test", specs)
	if _, err := s.startSubject(ctx, SubjectArgs{Name: "slow"}); !errors.Is(err, context.Canceled) || stops != 1 || len(s.subjects) != 0 {
		t.Errorf("%v, stopped %d times, %d subjects", err, stops, len(s.subjects))
	}
	if err := s.end(); err != nil || stops != 1 {
		t.Errorf("%v, stopped %d times", err, stops)
	}
}
