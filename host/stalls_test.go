// SPDX-License-Identifier: Apache-2.0

package host

import (
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"boxdyno/internal/testutil"
	"boxdyno/unit"
)

// A timer that is late tells a stall, wherever its samples lie in the ring; samples that
// were lost tell none.
func TestStallsOfSamples(t *testing.T) {
	const ms = uint64(time.Millisecond)
	p := uint64(stallPeriod)
	data, tail, head := make([]byte, 64), uint64(40), uint64(40)
	r := &stallRing{}
	put := func(kind uint32, words ...uint64) {
		at := head % uint64(len(data))
		binary.NativeEndian.PutUint32(data[at:], kind)
		binary.NativeEndian.PutUint16(data[at+6:], uint16(8+8*len(words)))
		for i, w := range words {
			binary.NativeEndian.PutUint64(data[(head+8+uint64(8*i))%uint64(len(data)):], w)
		}
		head += uint64(8 + 8*len(words))
		tail = r.take(data, tail, head)
	}
	for _, at := range []uint64{ms, ms + p, ms + 2*p + 100_000, ms + 3*p, 10 * ms, 10*ms + p/2} { // the last is on its grid again
		put(unix.PERF_RECORD_SAMPLE, at)
	}
	put(unix.PERF_RECORD_LOST, 0, 7)
	put(unix.PERF_RECORD_SAMPLE, 100*ms)
	put(unix.PERF_RECORD_SAMPLE, 103*ms)
	if !r.gaps {
		t.Error("samples that were lost are not known")
	}
	for _, kind := range []uint32{unix.PERF_RECORD_THROTTLE, unix.PERF_RECORD_UNTHROTTLE} { // the kernel stopped the timer: no stall
		put(kind, 0, 0, 0)
		put(unix.PERF_RECORD_SAMPLE, 200*ms+uint64(kind)*10*ms)
	}
	want := []Stall{{unit.Instant(ms + 3*p + p/2), unit.Instant(10 * ms)}, {unit.Instant(100*ms + p/2), unit.Instant(103 * ms)}}
	if !slices.Equal(r.seen, want) || tail != head {
		t.Errorf("%v, want %v", r.seen, want)
	}
	sum, longest := StalledIn([][]Stall{nil, want}, unit.Instant(5*ms), unit.Instant(102*ms))
	if sum != 6500*time.Microsecond || longest != 5*time.Millisecond {
		t.Errorf("%v, the longest %v", sum, longest)
	}
}

// The timer of a real CPU comes, and a program that is busy there is no stall of its own.
func TestWatchStalls(t *testing.T) {
	testutil.Privileged(t)
	s, err := WatchStalls(0)
	if err != nil {
		t.Fatal(err)
	}
	const busy = 200 * time.Millisecond
	begin := unit.Now()
	if _, err := timed(busy, speedRounds, count, []int{0}); err != nil {
		t.Fatal(err)
	}
	end := unit.Now()
	time.Sleep(20 * time.Millisecond)
	s.read()
	last := s.rings[0].last
	all, whole, err := s.Stop()
	sum, longest := StalledIn(all, begin, end)
	if err != nil || !whole || len(all) != 1 || last < uint64(begin) || last > uint64(unit.Now()) || sum < longest || time.Duration(end-begin) < busy || sum > busy/2 {
		t.Errorf("%v, %v, the last interrupt at %v of %v to %v: %v", sum, longest, last, begin, end, err)
	}
}
