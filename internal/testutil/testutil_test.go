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
}

func (s *spy) Helper()               {}
func (s *spy) Cleanup(f func())      { s.cleanup = f }
func (s *spy) Errorf(string, ...any) { s.failed = true }

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
