// SPDX-License-Identifier: Apache-2.0

package ids

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"boxdyno/internal/guard"
	"boxdyno/unit"
)

// Suricata's command socket says once a second what its packet sockets received and
// dropped. Threads add up what they decoded every three seconds only, but a thread that
// sleeps has nothing left in its ring:
//
//	received - dropped = decoded, where every thread was seen asleep afterwards

const (
	controlPause   = 250 * time.Millisecond
	controlAge     = 1200 * time.Millisecond // above the second after which threads read their sockets' counters
	controlMost    = 64 << 10                // octets of an answer
	controlUnfit   = 3                       // unfit answers in a row after which no more are awaited
	socketPathMost = 107                     // octets that unix(7) has room for

	// asleepLooks in a row, asleepPause apart, show that it sleeps. They last longer than
	// a block that is not full may wait in the ring.
	asleepLooks = 3
	asleepPause = 20 * time.Millisecond
)

// controlPatience is how long an answer may take. Tests have more of it.
var controlPatience = 2 * time.Second

// A control is a connection to the command socket.
type control struct {
	conn net.Conn
	in   *bufio.Reader
}

func newControl(conn net.Conn) *control {
	return &control{conn: conn, in: bufio.NewReaderSize(conn, controlMost)}
}

var (
	// errSilent is that no answer came: a program under load may have no time for one.
	errSilent = errors.New("its command socket does not answer")
	// errRefused is an answer that says no.
	errRefused = errors.New("its command socket refuses")
	// errUnfit is an answer that the next may put right: a program under load may have had
	// time for half of it, or its counters moved between the one and the other.
	errUnfit = errors.New("its command socket answered")
)

// ask sends a command and reads the message of its answer, within controlPatience. Errors
// are errSilent, errRefused, errUnfit, or say what else is wrong with the answer.
func (c *control) ask(command, message any) error {
	text, err := json.Marshal(command)
	if err != nil {
		return err
	}
	if err := c.conn.SetDeadline(time.Now().Add(controlPatience)); err != nil {
		return fmt.Errorf("%w: %w", errSilent, err)
	}
	if _, err := c.conn.Write(append(text, '\n')); err != nil {
		return fmt.Errorf("%w: %w", errSilent, err)
	}
	line, err := c.in.ReadSlice('\n')
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return fmt.Errorf("its command socket answered with more than %d KiB", controlMost>>10)
	case err != nil && len(line) > 0:
		return fmt.Errorf("%w by half: %.80q (%w)", errUnfit, line, err)
	case err != nil:
		return fmt.Errorf("%w: %w", errSilent, err)
	}
	var answer struct {
		Return  string
		Message json.RawMessage
	}
	if err := json.Unmarshal(line, &answer); err != nil || answer.Return == "" {
		return fmt.Errorf("its command socket answered what is no answer: %.80q", line)
	}
	if answer.Return != "OK" {
		return fmt.Errorf("%w: %.80q", errRefused, line)
	}
	if message == nil {
		return nil
	}
	if err := json.Unmarshal(answer.Message, message); err != nil {
		return fmt.Errorf("its command socket answered what is no count: %.80q", line)
	}
	return nil
}

// taken is how many frames its packet sockets on a port received and did not drop.
func (c *control) taken(port string) (int64, error) {
	var m struct{ Pkts, Drop *uint64 }
	type arguments struct {
		Iface string `json:"iface"`
	}
	err := c.ask(struct {
		Command   string    `json:"command"`
		Arguments arguments `json:"arguments"`
	}{"iface-stat", arguments{port}}, &m)
	if err != nil {
		return 0, err
	}
	if m.Pkts == nil || m.Drop == nil {
		return 0, errors.New("its command socket answered without a count of frames")
	}
	if *m.Pkts > math.MaxInt64 || *m.Drop > *m.Pkts {
		return 0, fmt.Errorf("%w that it received %d frames and dropped %d of them", errUnfit, *m.Pkts, *m.Drop)
	}
	return int64(*m.Pkts - *m.Drop), nil
}

// controlPath is the command socket of a Suricata that works in dir; "": the path would be
// too long.
func controlPath(dir string) string {
	name := filepath.Join(dir, "control")
	if len(name) > socketPathMost {
		return ""
	}
	return name
}

// begin starts follow, where there is a command socket.
func (s *Sensing) begin() {
	ctx, enough := context.WithCancel(context.Background())
	s.enough, s.followed = enough, make(chan struct{})
	if s.control == "" {
		close(s.followed)
		return
	}
	guard.Go(func() { s.follow(ctx) })
}

// Stop implements Running.
func (s *Sensing) Stop(ctx context.Context) error {
	s.enough()
	<-s.followed
	return s.Capturing.Stop(ctx)
}

// follow asks the command socket until the program ends, or is to.
func (s *Sensing) follow(ctx context.Context) {
	defer close(s.followed)
	t := time.NewTicker(controlPause)
	defer t.Stop()
	for !s.Listens() {
		if !s.await(ctx, t.C) {
			return
		}
	}
	s.talk(ctx, t.C)
}

// await waits for next; false: nobody is to be asked any more.
func (s *Sensing) await(ctx context.Context, next <-chan time.Time) bool {
	select {
	case <-s.Process.Done():
		return false
	case <-ctx.Done():
		return false
	case <-next:
		return true
	}
}

// talk converses, anew where a conversation broke off.
func (s *Sensing) talk(ctx context.Context, next <-chan time.Time) {
	for unfit := 0; s.await(ctx, next); {
		counted, err := s.converse(ctx, next)
		if counted {
			unfit = 0
		}
		switch {
		case ctx.Err() != nil || errors.Is(err, errRefused): // eve.json tells it, more slowly
			return
		case errors.Is(err, errSilent):
			continue
		case errors.Is(err, errUnfit):
			if unfit++; unfit < controlUnfit {
				continue
			}
		}
		s.Fault(fmt.Errorf("%s: %w", s.Name, err))
		return
	}
}

// converse asks until something goes wrong; counted says that an answer had a count.
func (s *Sensing) converse(ctx context.Context, next <-chan time.Time) (counted bool, err error) {
	conn, err := (&net.Dialer{Timeout: controlPatience}).DialContext(ctx, "unix", s.control)
	if err != nil {
		return false, fmt.Errorf("%w: %w", errSilent, err)
	}
	defer conn.Close()
	defer guard.AfterDone(ctx, func() { _ = conn.Close() })()
	c := newControl(conn)
	if err := c.ask(map[string]string{"version": "0.2"}, nil); err != nil {
		return false, err
	}
	var last int64
	var since, before unit.Instant // that last is told; of the question before
	for ; ctx.Err() == nil; <-next {
		now := unit.Now()
		n, err := c.taken(s.port)
		if err != nil {
			return counted, err
		}
		counted = true
		if n != last {
			last, since = n, before
		}
		before = now
		if n == 0 || !s.idle() {
			continue
		}
		at := now - unit.Instant(controlAge)
		if s.sockets == 1 { // of several, others' counts may be older than the one that changed
			at = max(at, since)
		}
		s.decoded(n, at)
	}
	return counted, ctx.Err()
}

// decoded notes that all n frames were decoded that its sockets had taken at an instant.
func (s *Sensing) decoded(n int64, at unit.Instant) {
	s.SawFirst(at)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken, s.takenAt = n, at
}

// WorkedOff says whether it has decoded all that its sockets had taken at an instant.
func (s *Sensing) WorkedOff(at unit.Instant) bool { return s.WorkedOffAt() >= at }

// WorkedOffAt is the latest such instant; 0: none is known.
func (s *Sensing) WorkedOffAt() unit.Instant {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.takenAt
}

// Progress implements subject.Progresser.
func (s *Sensing) Progress() (counted int64, at unit.Instant, ok bool) {
	counted, at, ok = s.Capturing.Progress()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken > 0 && s.taken >= counted && s.takenAt > at {
		return s.taken, s.takenAt, true
	}
	return counted, at, ok
}

// sleeps watches for a moment whether all threads that handle frames sleep. A thread that
// waits for a CPU does not.
func (s *Sensing) sleeps() bool {
	for range asleepLooks {
		time.Sleep(asleepPause)
		if !asleep(os.DirFS("/"), s.Process.PID) {
			return false
		}
	}
	return true
}

// asleep looks at the threads of a Suricata.
func asleep(root fs.FS, pid int) bool {
	dir := path.Join("proc", strconv.Itoa(pid), "task")
	tasks, err := fs.ReadDir(root, dir)
	if err != nil {
		return false
	}
	found := false
	for _, task := range tasks {
		f, err := root.Open(path.Join(dir, task.Name(), "stat"))
		if err != nil {
			continue // it has ended
		}
		text, err := io.ReadAll(io.LimitReader(f, 4096))
		f.Close()
		if err != nil {
			continue
		}
		begin, end := strings.IndexByte(string(text), '('), strings.LastIndexByte(string(text), ')')
		if begin < 0 || end < begin || end+2 >= len(text) {
			continue
		}
		if name := string(text[begin+1 : end]); !strings.HasPrefix(name, "W#") && !strings.HasPrefix(name, "RX#") {
			continue
		}
		if text[end+2] != 'S' {
			return false
		}
		found = true
	}
	return found
}
