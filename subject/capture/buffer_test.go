// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"boxdyno/host"
	"boxdyno/internal/testutil"
	"boxdyno/subject"
	"boxdyno/subject/internal/subjecttest"
)

// A buffer that is set holds what comes while its program stands still: all of it
// where it is large, and not where it is small. The program says what it lost.
func TestBuffers(t *testing.T) {
	const n = 10_000
	for _, name := range []string{"tcpdump", "dumpcap", "libpcap", "python-socket", "scapy", "pcapy-ng"} {
		t.Run(name, func(t *testing.T) {
			compiled(t, name)
			small := uint64(64 << 10)
			if name == dumpcap.Name {
				small = dumpcap.step
			}
			for _, size := range []uint64{small, 64 << 20} {
				testutil.NoLeaks(t)
				from, to := subjecttest.Pair(t)
				c := captureOf(t, name)
				c.Buffer = size
				r, err := c.Run(t.Context(), subject.Env{Port: to})
				var missing *host.Missing
				if errors.As(err, &missing) {
					t.Skip(missing)
				} else if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = r.Process.Kill() })
				if err := r.Ready(t.Context()); err != nil {
					t.Fatal(err)
				}
				if err := r.Process.Signal(unix.SIGSTOP); err != nil {
					t.Fatal(err)
				}
				time.Sleep(100 * time.Millisecond) // a signal's way
				subjecttest.Send(t, from, n, 100_000)
				if err := r.Process.Signal(unix.SIGCONT); err != nil {
					t.Fatal(err)
				}
				sent, last := int64(n), int64(-n)
				subjecttest.Eventually(t, "what its buffer held is counted", func() bool {
					if name == "dumpcap" { // which tells its count when frames come
						subjecttest.Send(t, from, 1, 100_000)
						sent++
					}
					time.Sleep(500 * time.Millisecond)
					now, _, _ := r.Progress()
					still := size == small && now > 0 && now-last <= 1
					last = now
					return still || now >= n
				})
				if err := errors.Join(r.Stop(t.Context()), r.Ended()); err != nil {
					t.Fatal(err)
				}
				got := r.Totals()
				if (size == small) != (got.Kernel > 0) || got.Captured+got.Kernel != sent {
					t.Errorf("with a buffer of %d octets it says %+v of %d frames", size, got, sent)
				}
			}
		})
	}
}

// What the kernel holds back when a subject is stopped is counted all the same.
func TestStopWaitsForTheKernel(t *testing.T) {
	const n = 300
	for _, name := range []string{"tcpdump", "dumpcap", "libpcap", "pcapy-ng"} {
		t.Run(name, func(t *testing.T) {
			testutil.NoLeaks(t)
			compiled(t, name)
			from, to := subjecttest.Pair(t)
			r, err := captureOf(t, name).Run(t.Context(), subject.Env{Port: to})
			var missing *host.Missing
			if errors.As(err, &missing) {
				t.Skip(missing)
			} else if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = r.Process.Kill() })
			if err := r.Ready(t.Context()); err != nil {
				t.Fatal(err)
			}
			subjecttest.Send(t, from, n, 100_000)
			if err := errors.Join(r.Stop(t.Context()), r.Ended()); err != nil {
				t.Fatal(err)
			}
			if got := r.Totals(); got.Captured+got.Kernel != n {
				t.Errorf("of %d frames it says %+v", n, got)
			}
		})
	}
}
