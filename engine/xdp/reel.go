// SPDX-License-Identifier: Apache-2.0

package xdp

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"sync/atomic"
	"unsafe"

	"boxdyno/engine/internal/bpf"
	"boxdyno/frame"
	"boxdyno/unit"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// A reel is a source's frames in the memory of bpf/replay.c, filled by the source
// itself through mmap: a whole pass, or a ring of windows that are filled anew
// once they were sent.
//
//	Source.Fill     -> window i: a value of map blob, a range of map entries -> turn: to send
//	bpf/replay.c    -> sends the window's frames, one by one -> turn: to fill
type reel struct {
	source frame.Source
	shape  frame.Shape
	limit  uint64 // passes; 0: no limit

	maps    map[string]*ebpf.Map
	mapped  [][]byte
	turns   []replayWindow // shared with the program
	windows []frame.Window
	first   []int // each window's first entry
	value   int   // octets of a value of map blob

	whole  bool // the windows hold a pass
	next   int  // window to be filled next
	ended  uint64
	failed error // the source's end

	// Of the frames so far:
	frames, octets uint64 // with FCS
	at             uint64 // Entry.At of the last one; the pass's largest
	last           uint64 // Entry.At of the last one
	gap            uint64 // the longest between two of a pass, ns
	burst          int    // most frames with one At
	abreast        int    // frames with the last one's
	least, longest int
	signed         bool

	speed float64 // Load.Speed, which later windows are checked against

	program *Program
	kind    replayKind
}

// Turns of bpf/replay.c.
const (
	turnFill = iota
	turnSend
	turnOver
)

// longestGap is what the schedule of ../internal/bpf/pace.h can look ahead (2^62 of its 2^64),
// ns.
const longestGap = 1 << 46

// holds says whether the schedule can wait as long as the longest gap so far.
func (r *reel) holds(speed float64) error {
	r.speed = speed
	if asked := float64(r.gap) / speed; speed > 0 && asked > longestGap {
		return fmt.Errorf("transmit: two frames of the source are %.0f h apart (multiplier %v), and backend xdp waits %.0f h at most: use a higher multiplier, or backend packet",
			asked/3.6e12, speed, float64(longestGap)/3.6e12)
	}
	return nil
}

const (
	entryLen   = int(unsafe.Sizeof(frame.Entry{}))
	maxReel    = 64      // windows
	ringSize   = 4       // windows of a ring
	ringFrame  = 128     // octets of its mean frame, at least
	mostMemory = 2 << 30 // octets of a pass that is kept as a whole
)

// A reelRoom is how much memory a reel may take, in octets.
type reelRoom struct {
	whole uint64 // a pass that is kept as a whole
	value int    // a window of it
	ring  int    // a window of a ring
}

// newReel makes windows for a source whose longest frame is known to fit, and
// fills them. limit is how many passes are wanted.
func newReel(ctx context.Context, source frame.Source, limit uint64, room reelRoom) (made *reel, err error) {
	r := &reel{source: source, shape: source.Shape(), limit: limit, maps: map[string]*ebpf.Map{}, least: math.MaxInt}
	defer func() {
		if err != nil {
			r.close()
		}
	}()
	s := r.shape
	n, blob, entries := ringSize, room.ring, ringSize*max(room.ring/ringFrame, 1)
	known := s.Frames > 0 && s.Octets > 0 && s.Frames < room.whole/uint64(entryLen) && s.Octets+s.Frames*uint64(entryLen) <= room.whole
	if known {
		octets := int(s.Octets) + int(s.Octets)/64 // Shape says about how many
		n = (octets + room.value - 1) / room.value
		blob, entries = octets/n+s.Longest, int(s.Frames)+1 // so that the source finds its end
	}
	all, err := r.allocate(n, blob, entries)
	if err != nil {
		return nil, err
	}
	filled := 0
	for i := range n {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		w := &r.windows[i]
		r.first[i], w.Entries = filled, all[filled:]
		if !known {
			r.first[i] = i * entries / n
			w.Entries = all[r.first[i] : (i+1)*entries/n]
		}
		if !r.fill(i) {
			break
		}
		r.next = i + 1
		filled += w.Len()
		if known {
			w.Entries = w.Entries[:w.Len()]
		}
		if r.ended > 0 || r.failed != nil || known && filled == len(all) {
			break
		}
	}
	if r.frames == 0 {
		return nil, r.failed
	}
	r.whole = r.ended > 0 && r.failed == nil
	if known || r.whole {
		r.windows, r.turns = r.windows[:r.next], r.turns[:r.next]
	}
	r.next %= len(r.windows)
	return r, nil
}

// allocate makes the maps and maps them: n windows of so many octets, and the
// entries of all.
func (r *reel) allocate(n, octets, entries int) ([]frame.Entry, error) {
	page := os.Getpagesize()
	r.value = (octets + r.shape.Longest + page - 1) &^ (page - 1)
	lists := 0
	for _, d := range r.shape.Draws {
		lists += len(d.List)
	}
	spec, err := loadReplay()
	if err != nil {
		return nil, fmt.Errorf("read the replay's program: %w", err)
	}
	r.sizes(spec, n, entries, lists)
	memory := map[string][]byte{}
	for name, m := range spec.Maps {
		if m.Flags&unix.BPF_F_MMAPABLE == 0 || name == ".bss" || name == ".data" {
			continue
		}
		made, err := ebpf.NewMap(m)
		if err != nil {
			return nil, bpf.Refused(fmt.Sprintf("make the replay's %s of %d MiB", name, int(m.ValueSize)*int(m.MaxEntries)>>20), err)
		}
		r.maps[name] = made
		length := (int(m.ValueSize+7)&^7*int(m.MaxEntries) + page - 1) &^ (page - 1)
		b, err := unix.Mmap(made.FD(), 0, length, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil {
			return nil, fmt.Errorf("map the replay's %s into memory: %w", name, err)
		}
		memory[name] = b
		r.mapped = append(r.mapped, b)
	}
	r.turns = unsafe.Slice((*replayWindow)(unsafe.Pointer(&memory[replayMapWindows][0])), n)
	r.windows, r.first = make([]frame.Window, n), make([]int, n)
	for i := range r.windows {
		// So that the program can copy Longest octets from wherever a frame begins.
		at := i * r.value
		r.windows[i].Blob = memory[replayMapBlob][at : at+r.value-r.shape.Longest]
	}
	values := unsafe.Slice((*uint64)(unsafe.Pointer(&memory[replayMapLists][0])), lists)
	for _, d := range r.shape.Draws {
		for _, v := range d.List {
			values[0], values = uint64(v), values[1:]
		}
	}
	return unsafe.Slice((*frame.Entry)(unsafe.Pointer(&memory[replayMapEntries][0])), entries), nil
}

// sizes gives the maps of a program their sizes.
func (r *reel) sizes(spec *ebpf.CollectionSpec, windows, entries, lists int) {
	spec.Maps[replayMapWindows].MaxEntries = maxReel
	spec.Maps[replayMapBlob].MaxEntries = uint32(windows)
	spec.Maps[replayMapBlob].ValueSize = uint32(r.value)
	spec.Maps[replayMapEntries].MaxEntries = uint32(entries)
	spec.Maps[replayMapLists].MaxEntries = uint32(max(lists, 1))
}

// fill has the source fill window i and hands it to the program. It says whether
// there was anything; if not, or if this was the last, failed says why.
func (r *reel) fill(i int) bool {
	w := &r.windows[i]
	w.Reset()
	err := r.source.Fill(w)
	ends := errors.Is(err, io.EOF)
	switch {
	case err != nil && !ends:
		r.failed = fmt.Errorf("transmit: read the source: %w", err)
	case w.Len() == 0 && !ends:
		r.failed = errors.New("transmit: the source put no frame into an empty window")
	case r.frames == 0 && w.Len() == 0:
		r.failed = errors.New("transmit: the source has no frames")
		return false
	}
	for j := range w.Entries[:w.Len()] {
		e := &w.Entries[j]
		n := int(e.Len)
		if n < ethHeader || n > r.shape.Longest || int(e.Off)*8 > len(w.Blob)-n {
			r.failed = fmt.Errorf("transmit: the source's frame %d has %d octets, and frames have %d to its longest, %d", r.frames, n, ethHeader, r.shape.Longest)
			return false
		}
		r.least, r.longest = min(r.least, n), max(r.longest, n)
		r.signed = r.signed || e.Sig != 0
		r.at = max(r.at, e.At)
		if r.abreast++; e.At != r.last {
			r.abreast = 1
		}
		r.burst = max(r.burst, r.abreast)
		if e.At > r.last {
			r.gap = max(r.gap, e.At-r.last)
		}
		r.last = e.At
		r.frames++
		r.octets += uint64(n) + unit.FCS
	}
	if err := r.holds(r.speed); err != nil {
		r.failed = err
		return false
	}
	if w.Len() == 0 && !ends {
		return false
	}
	t := &r.turns[i]
	t.First, t.Count, t.Ends = uint32(r.first[i]), uint32(w.Len()), 0
	if ends {
		t.Ends = 1
		r.ended++
	}
	atomic.StoreUint32(&t.Turn, turnSend)
	return true
}

// tend fills the windows that were sent, or says that no more will come.
func (r *reel) tend() {
	for atomic.LoadUint32(&r.turns[r.next].Turn) == turnFill {
		if r.failed != nil || r.limit > 0 && r.ended == r.limit || !r.fill(r.next) {
			atomic.StoreUint32(&r.turns[r.next].Turn, turnOver)
			return
		}
		r.next = (r.next + 1) % len(r.windows)
	}
}

func (r *reel) close() error {
	var errs []error
	if r.program != nil {
		r.program.Coll.Close()
	}
	for _, b := range r.mapped {
		errs = append(errs, unix.Munmap(b))
	}
	for _, m := range r.maps {
		errs = append(errs, m.Close())
	}
	return errors.Join(errs...)
}

// roomFor is the room that this machine has: a quarter of the memory available for
// a whole pass.
func roomFor() (reelRoom, error) {
	room := reelRoom{value: 64 << 20, ring: 16 << 20}
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return room, fmt.Errorf("find out how much memory is available: %w", err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var kib uint64
		if n, _ := fmt.Sscanf(lines.Text(), "MemAvailable: %d kB", &kib); n == 1 {
			room.whole = min(kib<<10/4, mostMemory)
			return room, nil
		}
	}
	return room, errors.New("find out how much memory is available: /proc/meminfo has no MemAvailable")
}
