// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"boxdyno/host"
	"boxdyno/result"
	"boxdyno/subject/internal/program"
	"boxdyno/unit"
)

// A Capturing is a Capture that runs. It is a Counter, a Progresser and an Ender.
type Capturing struct {
	Dir string // of its temporary files, until its end

	tool    *Tool
	Name    string
	index   int // of the port
	Process *host.Process
	begun   unit.Instant
	room    uint64 // octets that it may write to Dir
	Log     program.Log
	tails   []*tail
	watched chan struct{} // closed once nobody watches it any more

	mu      sync.Mutex
	startup Startup
	ready   bool         // it has said that it listens
	counted int64        // frames; -1: not said yet, as are those below
	at      unit.Instant // when it had counted that, by its own clock, or else when it said so
	epoch   unit.Instant // when its own clock was 0, by the line that came soonest; 0: not known yet
	kernel  int64        // dropped by the kernel, its buffer being full
	own     int64        // dropped by the program itself
	port    int64        // dropped by the port
	waiting int64        // not handed over by the kernel, when counted was said
	memory  uint64       // the most that its tree had when it was looked at; 0: not looked yet
	wrong   error        // what it must not have done
	sockets *socketRead  // nil: the program's packet sockets were not read in its place
	stopped bool         // it was told to end
	forced  bool         // and did not obey
}

// NewCapturing is one of which nothing is known yet, and that nobody has started.
func NewCapturing(name string, t *Tool) *Capturing {
	r := &Capturing{tool: t, Name: name, counted: -1, kernel: -1, own: -1, port: -1, waiting: -1, watched: make(chan struct{})}
	r.ready = t != nil && t.silent
	return r
}

// A socketRead is what the kernel said at a program's packet sockets.
type socketRead struct {
	taken int64 // frames that it handed or would have handed to the program; -1: some of them were read by the program before
	drops int64 // its buffer being full, those that the program read before not among them
}

// A Startup is what it took until a capture worked, since its start; 0: not yet.
type Startup struct {
	Process time.Duration // the program ran
	Socket  time.Duration // its packet socket listened
	Sign    time.Duration // it said so
	First   time.Duration // it said that it had counted a frame
}

// Totals are what a capture itself says of frames, since its start; -1: it does not
// say. What it says at its end alone is known once it was stopped.
type Totals struct {
	Captured int64 // of those that matched its filter
	Kernel   int64 // dropped by the kernel, because its buffer was full; with those of ReadSockets
	Own      int64 // dropped by the program itself
	Port     int64 // dropped by the port, as libpcap counts: the ledger has them at the port, too
}

const (
	AskPause = 100 * time.Millisecond
	// memoryAsks is after how many asks the tree's memory is looked at, too.
	memoryAsks = 5
	ReadyPause = 20 * time.Millisecond
)

// Ready waits until a packet socket of the tree listens to the port and the program
// says that it captures. Its error is one sentence.
func (r *Capturing) Ready(ctx context.Context) error {
	late := time.NewTimer(program.ReadyPatience)
	defer late.Stop()
	t := time.NewTicker(ReadyPause)
	defer t.Stop()
	socket := r.tool.Unseen
	for {
		if !socket && len(packetSockets(hostRoot, r.Process.PIDs(), r.index)) > 0 {
			socket = true
			r.mu.Lock()
			r.startup.Socket = since(r.begun)
			r.mu.Unlock()
		}
		r.mu.Lock()
		ready := r.ready || r.counted > 0
		r.mu.Unlock()
		if err := r.Ended(); err != nil {
			return err
		}
		if socket && ready {
			return nil
		}
		lacks := "it does not say that it captures"
		if !socket {
			lacks = "no packet socket of it listens"
		}
		select {
		case <-r.Process.Done():
		case <-t.C:
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %s%s (%w)", r.Name, lacks, r.lastWords(), ctx.Err())
		case <-late.C:
			return fmt.Errorf("%s was not ready within %v: %s%s", r.Name, program.ReadyPatience, lacks, r.lastWords())
		}
	}
}

// lastWords are the last line that it said to people: ": it said ...".
func (r *Capturing) lastWords() string {
	if line := program.LastLine(r.Log.String()); line != "" {
		return fmt.Sprintf("; it said %q", line)
	}
	return ""
}

// Progress implements Progresser.
func (r *Capturing) Progress() (counted int64, at unit.Instant, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return max(r.counted, 0), r.at, r.counted >= 0
}

// Startup is what it took until it worked.
func (r *Capturing) Startup() Startup {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.startup
}

// Totals are final once it was stopped.
func (r *Capturing) Totals() Totals {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := Totals{Captured: r.counted, Kernel: r.kernel, Own: r.own, Port: r.port}
	if r.sockets != nil {
		t.Kernel = max(t.Kernel, 0) + r.sockets.drops
	}
	return t
}

// Untold says that the program does not tell what was dropped.
func (r *Capturing) Untold() bool { return r.tool.untold }

// ReadSockets has the kernel say at the program's packet sockets what it took and dropped,
// for a program that will not: the kernel forgets what it has said, so that the program
// reads less later. It is called once, while the program runs. Privileges and kernel are
// those of pidfd_getfd(2).
func (r *Capturing) ReadSockets() error {
	var read socketRead
	for _, s := range packetSockets(hostRoot, r.Process.PIDs(), r.index) {
		taken, drops, err := s.statistics()
		if err != nil {
			return err
		}
		read.taken, read.drops = read.taken+taken-drops, read.drops+drops // taken are those dropped, too
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.kernel >= 0 || read.taken+read.drops == 0 {
		read.taken = -1
	}
	r.sockets = &read
	return nil
}

// Count implements Counter: what the kernel and the program dropped. Frames that the
// port dropped are the ledger's own terms, and are in Totals alone.
func (r *Capturing) Count(context.Context) ([]result.Term, error) {
	r.mu.Lock()
	told := r.sockets != nil // by the kernel, whether or not the program was killed
	r.mu.Unlock()
	if err := r.Ended(); err != nil && !told {
		return nil, err
	}
	t := Totals.known(r.Totals())
	terms := []result.Term{
		{Place: result.Socket, Host: "dut", Name: "capture buffer full", From: r.Name + " dropped by kernel", N: t.Kernel},
		{Place: result.SubjectAt, Host: "dut", Name: "dropped by the subject", From: r.Name + " dropped by itself", N: t.Own},
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.sockets != nil {
		terms[0].From = "PACKET_STATISTICS of " + r.Name + "'s sockets"
		if left := r.sockets.taken - t.Captured - t.Own; left > 0 {
			terms = append(terms, result.Term{Place: result.SubjectAt, Host: "dut", Name: "not counted of what its socket took", From: terms[0].From + ", less its count", N: left})
		}
	}
	return terms, nil
}

// known is t with 0 for what nobody says.
func (t Totals) known() Totals {
	return Totals{max(t.Captured, 0), max(t.Kernel, 0), max(t.Own, 0), max(t.Port, 0)}
}

// Dropped is how many frames it has said so far that it dropped itself; ok is false where it has
// not said.
func (r *Capturing) Dropped() (n int64, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return max(r.own, 0), r.own >= 0
}

// Behind says whether what it counts while it runs is one frame behind: the last frame
// is then in its Totals alone.
func (r *Capturing) Behind() bool { return r.tool.behind }

// Redirected says that XDP redirects frames to its sockets: those that had no room there
// failed in the port's driver as well (ledger.ReceiveFailed).
func (r *Capturing) Redirected() bool { return r.tool.redirected }

// Ends says that frames which it counts end in its XDP program (ledger.XDPDrop).
func (r *Capturing) Ends() bool { return r.tool.ends }

// Rare is how long it may not tell a new count though it counts; 0: it tells ten times a
// second, or whenever libpcap hands over a block.
func (r *Capturing) Rare() time.Duration { return r.tool.Rare }

// Prompt says that frames are in its count within some tenths of a second.
func (r *Capturing) Prompt() bool { return r.tool.prompt }

// Usage implements Running. A control group's memory has files in it that others read
// as well, so the tree's own is looked at instead.
func (r *Capturing) Usage() (result.Usage, error) {
	u, err := r.Process.Usage()
	u.Subject = r.Name
	r.mu.Lock()
	memory := r.memory
	r.mu.Unlock()
	if memory == 0 {
		memory = r.lookAtMemory()
	}
	if err == nil && memory > 0 {
		sources := slices.DeleteFunc(strings.Split(u.Source, ", "), func(s string) bool { return strings.HasPrefix(s, "memory") })
		u.PeakMemory, u.Source = memory, strings.Join(append(sources, memorySource), ", ")
	}
	return u, err
}

const memorySource = "memory: largest sum of Pss (RSS where that may not be read)"

// lookAtMemory returns the most that the tree has had so far.
func (r *Capturing) lookAtMemory() uint64 {
	now := r.Process.Resident()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.memory = max(r.memory, now)
	return r.memory
}

// Main is host.Process.Main of the program itself.
func (r *Capturing) Main() (cpu time.Duration, peak uint64, ok bool) { return r.Process.Main() }

// Done is closed once it and all its children are gone.
func (r *Capturing) Done() <-chan struct{} { return r.Process.Done() }

// settle waits for what the kernel holds back until a block of its ring is full or
// old: a program that ends does not count it.
func (r *Capturing) settle(ctx context.Context) {
	begun := unit.Now()
	late := time.NewTimer(r.tool.Lag)
	defer late.Stop()
	t := time.NewTicker(ReadyPause)
	defer t.Stop()
	for {
		r.mu.Lock()
		done := !r.ready || r.waiting == 0 && r.at > begun
		r.mu.Unlock()
		if done {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-r.Process.Done():
			return
		case <-late.C:
			return
		case <-t.C:
		}
	}
}

// Stop implements Running. A program that does not end within 5 s of being asked, an IDS
// within 25 s, is killed: Ended then says so, because its last counts are not known.
func (r *Capturing) Stop(ctx context.Context) error {
	wrong := r.Ended()
	r.mu.Lock()
	first := !r.stopped
	r.mu.Unlock()
	if first && wrong == nil {
		r.settle(ctx)
		wrong = r.Ended()
	}
	r.mu.Lock()
	r.stopped = true
	r.mu.Unlock()
	begun, grace := time.Now(), cmp.Or(r.tool.Grace, program.StopGrace)
	err := r.Process.Stop(ctx, grace)
	<-r.watched
	r.mu.Lock()
	defer r.mu.Unlock()
	if first && wrong == nil && (time.Since(begun) >= grace || ctx.Err() != nil) {
		r.forced = true
	}
	if r.wrong == nil {
		r.wrong = wrong
	}
	return err
}

// Ended implements Ender.
func (r *Capturing) Ended() error {
	r.mu.Lock()
	wrong, stopped, forced := r.wrong, r.stopped, r.forced
	r.mu.Unlock()
	switch {
	case wrong != nil:
		return wrong
	case forced:
		return fmt.Errorf("%s did not end when it was told to and was killed: its last counts are not known", r.Name)
	case stopped:
		return nil
	}
	select {
	case <-r.Process.Done():
	default:
		return nil
	}
	err := r.Process.Wait(context.Background()) // it has ended
	if err := program.Failed(r.Process, err, r.Name, program.LastLine(r.Log.String()), 0); err != nil {
		return err
	}
	return fmt.Errorf("%s ended by itself, without an error%s", r.Name, r.lastWords())
}

// watch asks for counts, looks at memory, and ends what fills the disk or prints garbage.
func (r *Capturing) watch() {
	defer close(r.watched)
	defer r.endTails()
	t := time.NewTicker(AskPause)
	defer t.Stop()
	for n := 0; ; n++ {
		select {
		case <-r.Process.Done():
			return
		case <-t.C:
		}
		r.readTails()
		r.mu.Lock()
		ready, wrong := r.ready, r.wrong
		r.mu.Unlock()
		if ready && r.tool.poke != 0 {
			_ = r.Process.Signal(r.tool.poke) // it may have ended
		}
		if n%memoryAsks == memoryAsks-1 {
			r.lookAtMemory()
		}
		if size := sizeOf(r.Dir); wrong == nil && size > r.room {
			wrong = fmt.Errorf("%s was ended: its temporary files had %sB, and half of what was free is the most", r.Name, unit.SI(float64(size)))
			r.Fault(wrong)
		}
		if wrong != nil {
			_ = r.Process.Kill() // Stop says what is left of it
			return
		}
	}
}

// Listens says whether it has said that it captures.
func (r *Capturing) Listens() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ready
}

// SawFirst notes that it had counted a frame at an instant, where nothing told so before.
func (r *Capturing) SawFirst(at unit.Instant) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.startup.First == 0 {
		r.startup.First = time.Duration(at - r.begun)
	}
}

// Fault keeps the first thing that went wrong.
func (r *Capturing) Fault(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.wrong == nil {
		r.wrong = err
	}
}

// roomOf is half of what is free on the file system of dir.
func roomOf(dir string) uint64 {
	free, err := host.Free(dir)
	if err != nil {
		return 1 << 30
	}
	return free / 2
}

// sizeOf is the octets of the files in dir.
func sizeOf(dir string) (size uint64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // gone meanwhile
		}
		if info, err := d.Info(); err == nil && info.Mode().IsRegular() {
			size += uint64(info.Size())
		}
		return nil
	})
	return size
}

// listener is what a stream of the program is written to.
func (r *Capturing) listener(p Parser) io.Writer {
	if p == nil {
		return &r.Log
	}
	return &program.Lines{Take: func(line string) { r.Take(p(line), line) }}
}

// Take adds what a line said; what tells no count is for people.
func (r *Capturing) Take(s Told, line string) {
	now := unit.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.clock > 0 { // a program under load may come to print late, and its lines are read late
		if zero := now - unit.Instant(s.clock); r.epoch == 0 || zero < r.epoch {
			r.epoch = zero
		}
		now = r.epoch + unit.Instant(s.clock)
	}
	if s.Garbage {
		if r.wrong == nil {
			r.wrong = fmt.Errorf("%s printed what is no count: %.80q", r.Name, line)
		}
		return
	}
	if s.Ready && !r.ready {
		r.ready, r.startup.Sign = true, time.Duration(now-r.begun)
	}
	if s.more > 0 || s.more == 0 && r.counted < 0 {
		s.Counted = max(r.counted, 0) + s.more
	}
	if s.Counted >= 0 {
		if s.Counted > 0 && r.startup.First == 0 {
			r.startup.First = time.Duration(now - r.begun)
		}
		r.counted, r.at = max(r.counted, s.Counted), now
	} else if s.more == 0 {
		r.at = now
	}
	if s.waiting >= 0 {
		r.waiting = s.waiting
	}
	r.kernel, r.own, r.port = max(r.kernel, s.Kernel), max(r.own, s.Own), max(r.port, s.port)
	if s == Nothing { // a quiet line is not
		fmt.Fprintln(&r.Log, line)
	}
}
