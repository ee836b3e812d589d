// SPDX-License-Identifier: Apache-2.0

package testutil

import (
	"os"
	"testing"
	"time"
)

// spy is a test that records what the helper says to it.
type spy struct {
	testing.TB
	cleanup func()
	failed  bool
	skipped bool
}

func (s *spy) Helper()               {}
func (s *spy) Cleanup(f func())      { s.cleanup = f }
func (s *spy) Errorf(string, ...any) { s.failed = true }
func (s *spy) Fatalf(string, ...any) { s.failed = true }
func (s *spy) Skipf(string, ...any)  { s.skipped = true }

func TestNoLeaksSeesALeak(t *testing.T) {
	s := &spy{TB: t}
	noLeaks(s, time.Second)
	f, err := os.Open("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	s.cleanup()
	if !s.failed {
		t.Error("an open file was not seen")
	}
	s.failed = false
	f.Close()
	s.cleanup()
	if s.failed {
		t.Error("a leak was seen where none is")
	}
}

func TestPrivilegedDecides(t *testing.T) { Privileged(t) }

// Frames that are lost are excused by what kept the machine from its CPUs, and by nothing else.
func TestSkipNeedsABusyMachine(t *testing.T) {
	now := WatchCPUs()
	for _, c := range []struct {
		began CPUWatch
		skips bool
	}{
		{CPUWatch{now.waited + time.Hour, now.stolen + time.Hour, true}, false},
		{CPUWatch{now.waited - 10*time.Millisecond, now.stolen + time.Hour, true}, true},
		{CPUWatch{now.waited + time.Hour, now.stolen - 10*time.Millisecond, true}, true},
		{CPUWatch{}, true},
	} {
		s := &spy{TB: t}
		c.began.Skipf(s, "lost")
		if want := c.skips || !now.known; s.skipped != want || s.failed == want {
			t.Errorf("%+v, and now %+v: skipped %v, failed %v", c.began, now, s.skipped, s.failed)
		}
	}
}
