// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"boxdyno/engine"
	"boxdyno/engine/roll"
	"boxdyno/frame"
	"boxdyno/host"
	"boxdyno/ledger"
	"boxdyno/link"
	"boxdyno/unit"
)

// The methods of a box that tells the frames of a capture apart, at its port:
//
//	tester: marks, as a file --> roll.open: the program of engine/roll, in the driver or behind it
//	        roll.arm         --> it forgets what came
//	        roll.read        --> counts that have changed, strange marks, totals
const (
	RollOpen  Ask[RollArgs, int]    = "roll.open"
	RollArm   Ask[int, None]        = "roll.arm"
	RollRead  Ask[int, RollReading] = "roll.read" // a stream of RollPart
	RollClose Ask[int, None]        = "roll.close"
)

func rollMethods() []Method {
	return []Method{
		method(RollOpen, "has a port count the frames of a capture apart, and keeps them from the stack, until the connection ends", (*Session).openRoll),
		method(RollArm, "forgets what the port has counted", (*Session).armRoll),
		streaming(RollRead, "sends what the port has counted", (*Session).readRoll),
		method(RollClose, "takes the port as it was", (*Session).closeRoll),
	}
}

// RollArgs are a port, and the marks of the frames that it counts.
type RollArgs struct {
	Port  string         `json:"port"`
	Same  frame.Sameness `json:"same"`
	Marks string         `json:"marks"` // SHA-256 of a file that was sent: MarkSize octets a mark
}

// MarkSize is how many octets a mark has in files and parts: its head, then its body, little-endian.
const MarkSize = 16

// A RollPart is some of what has come since roll.arm.
type RollPart struct {
	// Seen are pairs of varints: how far an entry is from the one before, and how often it has
	// come. The first one counts from -1. What has not changed since the last reading is left out.
	Seen    []byte `json:"seen,omitempty"`
	Strange []byte `json:"strange,omitempty"` // marks of no entry, each with its count in 8 octets more
}

// A RollReading is what parts do not say. Instants are of this machine.
type RollReading struct {
	Foreign       uint64       `json:"foreign"` // frames of no entry
	ForeignOctets uint64       `json:"foreign_octets"`
	More          uint64       `json:"more,omitempty"` // of them, those whose marks were not kept
	First         unit.Instant `json:"first,omitempty"`
	Last          unit.Instant `json:"last,omitempty"`
	Stamps        string       `json:"stamps"`
}

// mostPart is more than a part has, octets before they are written as text.
const mostPart = 48 << 10

// A calling is a port whose frames are called, by one call at a time.
type calling struct {
	mu      sync.Mutex
	port    string
	native  bool // in the driver
	meter   engine.Meter
	told    []uint64 // counts that the tester knows
	release func() error
	closed  bool
}

func (c *calling) close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	c.closed = true
	return errors.Join(c.meter.Close(), c.release())
}

func (s *Session) openRoll(ctx context.Context, a RollArgs) (int, error) {
	if err := full(s, s.rolls); err != nil {
		return 0, err
	}
	if use, err := (host.Port{Name: a.Port}).Needed(); err != nil {
		return 0, err
	} else if use.Own {
		return 0, fmt.Errorf("count the frames of a capture on %s: the port %s", a.Port, use.Why)
	}
	path, err := s.sent(a.Marks)
	if err != nil {
		return 0, err
	}
	marks, err := readMarks(path)
	if err != nil {
		return 0, err
	}
	c := &calling{port: a.Port, told: make([]uint64, len(marks))}
	if c.release, err = listenOn(ctx, &host.Local{Label: Label}, a.Port, true); err != nil {
		return 0, err
	}
	r := &frame.Roll{Same: a.Same, Marks: marks}
	p := host.Port{Host: Label, Name: a.Port}
	if c.meter, err = roll.Open(p, r, true); err == nil {
		c.native = true
	} else if c.meter, err = roll.Open(p, r, false); err != nil { // behind the driver: any port
		return 0, errors.Join(fmt.Errorf("count the frames of a capture on %s: %w", a.Port, err), c.release())
	}
	return keep(s, s.rolls, c, (*calling).close), nil
}

// readMarks reads a file of marks.
func readMarks(path string) ([]frame.Mark, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if n := info.Size(); n == 0 || n%MarkSize != 0 || n > MarkSize*frame.MostRoll {
		return nil, fmt.Errorf("read the marks of a capture: %d octets are none of 1 to %d marks", n, frame.MostRoll)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	marks := make([]frame.Mark, len(data)/MarkSize)
	for i := range marks {
		b := data[i*MarkSize:]
		marks[i] = frame.Mark{Head: binary.LittleEndian.Uint64(b), Body: binary.LittleEndian.Uint64(b[8:])}
	}
	return marks, nil
}

// roll is one that is open, held until done.
func (s *Session) roll(id int) (c *calling, done func(), err error) {
	if c, err = find(s, s.rolls, id); err != nil {
		return nil, nil, err
	}
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil, nil, errNotOpen
	}
	return c, c.mu.Unlock, nil
}

func (s *Session) armRoll(ctx context.Context, id int) (None, error) {
	c, done, err := s.roll(id)
	if err != nil {
		return None{}, err
	}
	defer done()
	clear(c.told)
	return None{}, c.meter.Arm(ctx, false)
}

func (s *Session) readRoll(ctx context.Context, req *link.Request, id int) (r RollReading, err error) {
	c, done, err := s.roll(id)
	if err != nil {
		return r, err
	}
	defer done()
	rep, err := c.meter.Read(ctx)
	if err != nil {
		return r, err
	}
	var part RollPart
	send := func() error {
		err := req.Send(ctx, part)
		part = RollPart{}
		return err
	}
	last := -1
	for i, n := range rep.Roll.Seen {
		if n == c.told[i] {
			continue
		}
		part.Seen = binary.AppendUvarint(binary.AppendUvarint(part.Seen, uint64(i-last)), n)
		last, c.told[i] = i, n
		if len(part.Seen) >= mostPart {
			if err := send(); err != nil {
				return r, err
			}
			last = -1
		}
	}
	word := binary.LittleEndian.AppendUint64
	for m, n := range rep.Roll.Strange {
		part.Strange = word(word(word(part.Strange, m.Head), m.Body), n)
		if len(part.Seen)+len(part.Strange) >= mostPart {
			if err := send(); err != nil {
				return r, err
			}
		}
	}
	if len(part.Seen)+len(part.Strange) > 0 {
		if err := send(); err != nil {
			return r, err
		}
	}
	return RollReading{rep.Foreign, rep.ForeignOctets, rep.Roll.More, rep.First, rep.Last, rep.Stamps}, nil
}

func (s *Session) closeRoll(_ context.Context, id int) (None, error) {
	c, err := take(s, s.rolls, id)
	if err != nil {
		return None{}, err
	}
	return None{}, c.close()
}

// called takes out of a reading what programs of rolls took off their ports: a driver may
// count that as dropped, and it has arrived.
func (s *Session) called(r *ledger.Reading) error {
	s.mu.Lock()
	var all []*calling
	for _, c := range s.rolls {
		all = append(all, c)
	}
	s.mu.Unlock()
	for _, c := range all {
		c.mu.Lock()
		closed := c.closed
		taken, err := uint64(0), error(nil)
		if t, ok := c.meter.(interface{ Taken() (uint64, error) }); ok && !closed {
			taken, err = t.Taken()
		}
		c.mu.Unlock()
		if err != nil {
			return err
		}
		if !closed && c.native {
			r.LessXDP(Label, c.port, taken)
		}
	}
	return nil
}

// OpenRoll opens a meter of r's frames on a port of the box: see engine.Backend.OpenRoll.
// Its instants are of this machine's clock.
func (m Machine) OpenRoll(ctx context.Context, port string, r *frame.Roll) (engine.Meter, error) {
	data := make([]byte, 0, MarkSize*len(r.Marks))
	for _, mark := range r.Marks {
		data = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(data, mark.Head), mark.Body)
	}
	path, err := Put(ctx, m.Conn, bytes.NewReader(data))
	if err != nil {
		return nil, m.lost(err)
	}
	id, err := RollOpen.Call(ctx, m.Conn, RollArgs{Port: port, Same: r.Same, Marks: filepath.Base(path)})
	if err != nil {
		return nil, m.lost(err)
	}
	return &farRoll{on: m, id: id, seen: make([]uint64, len(r.Marks))}, nil
}

// A farRoll is a roll's meter on a box.
type farRoll struct {
	on   Machine
	id   int
	seen []uint64 // as the box has said so far
	off  time.Duration
}

// ClockError is how far off the instants of the last reading may be at most.
func (f *farRoll) ClockError() time.Duration { return f.off }

// Arm implements engine.Meter.
func (f *farRoll) Arm(ctx context.Context, _ bool, streams ...uint16) error {
	if len(streams) > 0 {
		return errors.New("arm the replay's meter: it counts no streams")
	}
	clear(f.seen)
	_, err := RollArm.Call(ctx, f.on.Conn, f.id)
	return f.on.lost(err)
}

// Read implements engine.Meter.
func (f *farRoll) Read(ctx context.Context) (rep engine.MeterReport, err error) {
	clock, err := f.on.Conn.Clock(ctx, clockReadings)
	if err != nil {
		return rep, f.on.lost(err)
	}
	came := &frame.Arrivals{Strange: map[frame.Mark]uint64{}}
	var r RollReading
	err = f.on.Conn.Stream(ctx, string(RollRead), f.id, &r, func(item json.RawMessage) error {
		var part RollPart
		if err := json.Unmarshal(item, &part); err != nil {
			return fmt.Errorf("%s answered %s with what cannot be read: %w", f.on.Conn.Name, RollRead, err)
		}
		return f.take(part, came)
	})
	if err != nil {
		return rep, f.on.lost(err)
	}
	came.Seen, came.More = slices.Clone(f.seen), r.More
	rep = engine.MeterReport{Foreign: r.Foreign, ForeignOctets: r.ForeignOctets, Roll: came,
		Stamps: link.Cut(r.Stamps, 200) + ", of the box's clock"}
	if f.off = clock.Error; r.Last > 0 {
		rep.First, rep.Last = clock.Here(r.First), clock.Here(r.Last)
	}
	return rep, nil
}

var errPart = errors.New("the box counts frames that are on no roll")

// take adds a part; the box decides what is in it.
func (f *farRoll) take(p RollPart, came *frame.Arrivals) error {
	at := -1
	for b := p.Seen; len(b) > 0; {
		step, n := binary.Uvarint(b)
		if n <= 0 || step == 0 || step > uint64(len(f.seen)-1-at) {
			return errPart
		}
		count, m := binary.Uvarint(b[n:])
		if m <= 0 {
			return errPart
		}
		at += int(step)
		f.seen[at] = count
		b = b[n+m:]
	}
	const size = MarkSize + 8
	if len(p.Strange)%size != 0 || len(came.Strange)+len(p.Strange)/size > frame.MostStrange {
		return errPart
	}
	for b := p.Strange; len(b) > 0; b = b[size:] {
		came.Strange[frame.Mark{Head: binary.LittleEndian.Uint64(b), Body: binary.LittleEndian.Uint64(b[8:])}] += binary.LittleEndian.Uint64(b[MarkSize:])
	}
	return nil
}

// Close implements engine.Meter.
func (f *farRoll) Close() error {
	if f.on.Conn.Err() != nil {
		return nil // it ended with the connection
	}
	ctx, cancel := context.WithTimeout(context.Background(), answerPatience)
	defer cancel()
	_, err := RollClose.Call(ctx, f.on.Conn, f.id)
	return f.on.lost(err)
}
