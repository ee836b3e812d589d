// SPDX-License-Identifier: Apache-2.0

package host

import (
	"io/fs"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"
)

// A slowProc takes long to be listed, as the processes of a small board are.
type slowProc struct {
	fstest.MapFS
	looks atomic.Int32
}

func (s *slowProc) ReadDir(name string) ([]fs.DirEntry, error) {
	s.looks.Add(1)
	time.Sleep(20 * time.Millisecond)
	return s.MapFS.ReadDir(name)
}

// Looks at a tree take a small share of a CPU, however long one takes.
func TestSampleRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		proc := &slowProc{MapFS: fstest.MapFS{"proc/1/stat": {}}}
		p := &Process{ended: make(chan struct{}), sampler: &sampler{root: proc, keeper: 1}}
		done := make(chan struct{})
		go func() {
			defer close(done)
			p.sample()
		}()
		time.Sleep(350 * time.Millisecond)
		close(p.ended)
		<-done
		if n := proc.looks.Load(); n != 1 {
			t.Errorf("%d looks, each of 20 ms, in 350 ms", n)
		}
	})
}
