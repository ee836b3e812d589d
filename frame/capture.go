// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"boxdyno/internal/files"
)

// A Capture is a source that replays a capture file: pcap or pcapng, as it is or packed with
// gzip or zstd. A packet is copied twice, once into a chunk of half a MiB and once into the
// window; nothing else holds it. Entries are of one class, "capture", and flagged Rewrite
// where both addresses are global unicast ones: broadcasts, multicast and link-local traffic
// are the same in every pass.
type Capture struct {
	name   string
	o      CaptureOptions
	in     *rawInput
	closer io.Closer
	pack   packing
	gzip   *gzip.Reader
	zstd   *zstd.Decoder
	file   captureFile
	shape  Shape

	running bool // in the middle of a pass
	ready   bool // next is made, and not in a window yet
	next    plannedFrame
	clock   captureClock
	account captureAccount // of the first pass
	closed  bool           // account is complete
	again   captureAccount // of later passes, which say nothing new
	frames  uint64         // of this pass
	err     error          // that ended the source
}

// CaptureOptions are how a capture is replayed. The zero value replays every
// packet as it was captured.
type CaptureOptions struct {
	// Longest is the longest frame that can be sent, 60 to 65,535 octets without
	// FCS; 0: 65,535. One with an 802.1Q tag may have the tag's 4 octets more.
	Longest    int
	LongFrames LongFrames
	// Limit is how many packets of the file are taken; 0: all.
	Limit   uint64
	Rewrite Rewriter
	// Keep is how many octets of an input that cannot be rewound, such as a pipe,
	// are held in memory for further passes; 0: 64 MiB.
	Keep int
	// Context ends reading, also from a pipe that has nothing to read; nil: nothing
	// does.
	Context context.Context
}

// LongFrames is what becomes of packets that are longer than
// CaptureOptions.Longest.
type LongFrames uint8

const (
	Refuse LongFrames = iota // they are left out
	Cut                      // only their first octets are sent; their IP headers stay
)

const (
	defaultKeep = 64 << 20
	// countUpTo is the longest file that is read once before it is replayed, so
	// that its Shape is known. It takes about 0.2 s/GB where the file is cached.
	countUpTo = 4 << 30
	// maxZstdWindow is what zstd itself unpacks without being asked for more.
	maxZstdWindow = 128 << 20
)

type packing uint8

const (
	unpacked packing = iota
	packedGzip
	packedZstd
)

// A plannedFrame is a packet that will be a frame: made octets of head, then
// body, then zeros up to n.
type plannedFrame struct {
	head [ethLen]byte
	made int
	body []byte
	n    int
	at   uint64
}

// OpenCapture opens the capture file at path; "-" is standard input. A file that
// is broken somewhere replays up to there, and Notes say so; it is an error only
// if no packet can be replayed at all. A file that is not packed is read through
// once, so that its Shape is exact and its Notes are complete from the start.
func OpenCapture(path string, o CaptureOptions) (*Capture, error) {
	if path == "-" {
		return OpenCaptureReader(os.Stdin, "standard input", o)
	}
	f, err := files.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open capture: %w", err)
	}
	c, err := OpenCaptureReader(f, path, o)
	if err != nil {
		f.Close()
		return nil, err
	}
	c.closer = f
	return c, nil
}

// OpenCaptureReader is OpenCapture for octets from anywhere; name stands in
// errors and notes. r stays the caller's to close. Where r is a file or has
// ReadAt and Size, it is not kept in memory for further passes.
func OpenCaptureReader(r io.Reader, name string, o CaptureOptions) (*Capture, error) {
	if o.Longest == 0 {
		o.Longest = math.MaxUint16
	}
	if o.Longest < minBuffer || o.Longest > math.MaxUint16 {
		return nil, fmt.Errorf("longest frame %d: want %d to %d octets without FCS", o.Longest, minBuffer, math.MaxUint16)
	}
	if o.Keep == 0 {
		o.Keep = defaultKeep
	}
	if o.Context == nil {
		o.Context = context.Background()
	}
	if err := o.Rewrite.Check(); err != nil {
		return nil, err
	}
	c := &Capture{name: name, o: o, in: newRawInput(o.Context, r, max(o.Keep, chunkLen))}
	if err := c.start(); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func (c *Capture) start() error {
	var magic [4]byte
	n, err := io.ReadFull(c.in, magic[:])
	if n == 0 && err == io.EOF {
		return fmt.Errorf("%s is empty", c.name)
	}
	if c.in.err != nil {
		return c.readError()
	}
	switch m := binary.LittleEndian.Uint32(magic[:]); {
	case m&0xffff == 0x8b1f:
		c.pack = packedGzip
	case m == 0xfd2fb528 || m&^0xf == 0x184d2a50: // a frame, or one to be skipped before it
		c.pack = packedZstd
	}
	c.shape = Shape{Longest: min(c.o.Longest+tagLen, math.MaxUint16), Timed: true, Classes: []string{"capture"}}
	if err := c.begin(); err != nil {
		return err
	}
	if c.in.at == nil || c.pack != unpacked || c.in.size > countUpTo {
		return nil
	}
	for {
		switch err := c.plan(); err {
		case nil:
		case io.EOF:
			if err := c.finish(); err != nil {
				return err
			}
			a := &c.account
			c.shape.Frames, c.shape.Octets, c.shape.Longest, c.shape.Timed = a.frames, a.octets, a.longest, a.timed
			return nil
		default:
			return err
		}
	}
}

// begin starts a pass.
func (c *Capture) begin() error {
	if err := c.in.rewind(); err != nil {
		return fmt.Errorf("%s %w", c.name, err)
	}
	r, err := c.unpack()
	if err == nil {
		err = c.file.open(r)
	}
	if err != nil {
		if c.in.err != nil {
			return c.readError()
		}
		if b := (*broken)(nil); errors.As(err, &b) {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		return fmt.Errorf("%s %w", c.name, err)
	}
	c.running, c.clock, c.frames = true, captureClock{}, 0
	return nil
}

// unpack is the input as a capture file.
func (c *Capture) unpack() (r io.Reader, err error) {
	switch c.pack {
	case packedGzip:
		if c.gzip == nil {
			c.gzip, err = gzip.NewReader(c.in)
		} else {
			err = c.gzip.Reset(c.in)
		}
		r = c.gzip
	case packedZstd:
		if c.zstd == nil {
			c.zstd, err = zstd.NewReader(c.in, zstd.WithDecoderMaxWindow(maxZstdWindow), zstd.WithDecoderLowmem(true), zstd.WithDecoderConcurrency(1))
		} else {
			err = c.zstd.Reset(c.in)
		}
		r = c.zstd
	default:
		return c.in, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot be unpacked: %w", err)
	}
	return r, nil
}

func (c *Capture) readError() error { return fmt.Errorf("read %s: %w", c.name, c.in.err) }

// plan reads on to the next packet that will be a frame. At the end of the pass
// it returns io.EOF, and where the file is broken, too; another error ends the
// source.
func (c *Capture) plan() error {
	a := &c.account
	if c.closed {
		a = &c.again
	}
	for {
		if c.o.Limit > 0 && c.file.number == c.o.Limit {
			return io.EOF
		}
		var p packet
		switch err := c.file.next(&p); {
		case err == nil:
		case err == io.EOF:
			return err
		case c.in.err != nil:
			return c.readError()
		default:
			a.broken = err.Error()
			return io.EOF
		}
		a.packets++
		if c.admit(&p, a) {
			return nil
		}
	}
}

// admit plans the frame of a packet, or enters into a why there is none.
func (c *Capture) admit(p *packet, a *captureAccount) bool {
	f := &c.next
	var why refusal
	f.made, f.body, why = ethernet(p, &f.head)
	number := c.file.number
	if why != taken {
		a.refuse(why, p, number)
		return false
	}
	n := f.made + len(f.body)
	long := f.made + p.wire - (len(p.data) - len(f.body)) // what it was on the wire
	longest := c.o.Longest
	if f.tagged() {
		longest = min(longest+tagLen, math.MaxUint16)
	}
	switch {
	case n > longest && c.o.LongFrames == Refuse:
		a.refused.add(number, n)
		return false
	case n > longest:
		a.cut.add(number, n)
		f.body = f.body[:longest-f.made]
		n = longest
	case long > n:
		a.partial.add(number, n)
	}
	if n < minBuffer {
		a.padded.add(number, n)
		n = minBuffer
	}
	if f.made > 0 {
		a.made.add(number, n)
	}
	if !p.timed {
		a.untimed.add(number, n)
	}
	f.n = n
	f.at = c.clock.at(p, number, a)
	c.frames++
	a.frames++
	a.octets += uint64(n+7) &^ 7
	a.longest = max(a.longest, n)
	a.timed = a.timed || p.timed
	return true
}

// tagged says whether the frame has an 802.1Q tag first.
func (f *plannedFrame) tagged() bool {
	if f.made > 0 {
		return f.head[12] == 0x81 && f.head[13] == 0
	}
	return f.body[12] == 0x81 && f.body[13] == 0
}

// A captureClock turns times of packets into Entry.At.
type captureClock struct {
	first, last int64
	started     bool
}

func (k *captureClock) at(p *packet, number uint64, a *captureAccount) uint64 {
	switch {
	case !p.timed:
	case !k.started:
		k.started, k.first, k.last = true, p.time, p.time
	case p.time < k.last:
		a.backwards.add(number, 0)
	default:
		k.last = p.time
	}
	return uint64(k.last - k.first)
}

// finish ends a pass.
func (c *Capture) finish() error {
	a := &c.account
	if c.closed {
		a = &c.again
	}
	c.running, c.closed = false, true
	if c.frames == 0 {
		return a.nothing(c.name, c.o.Longest)
	}
	return nil
}

// Shape is exact for files that are not packed and have at most 4 GiB; for others
// Frames and Octets are 0, and Longest is what CaptureOptions allow.
func (c *Capture) Shape() Shape { return c.shape }

// Fill implements Source. An error that is not io.EOF names the file.
func (c *Capture) Fill(w *Window) error {
	if c.err != nil {
		return c.err
	}
	err := c.fill(w)
	if err != nil && err != io.EOF {
		c.err = err
	}
	return err
}

func (c *Capture) fill(w *Window) error {
	if !c.running {
		if err := c.begin(); err != nil {
			return err
		}
	}
	for {
		if !c.ready {
			if err := c.plan(); err == io.EOF {
				if err := c.finish(); err != nil {
					return err
				}
				c.account.sent = true
				return io.EOF
			} else if err != nil {
				return err
			}
		}
		e, b := w.Next(c.next.n)
		if c.ready = e == nil; c.ready {
			if w.Len() == 0 {
				return fmt.Errorf("%s: a frame of %d octets does not fit into an empty window of %d, in chunks of %d", c.name, c.next.n, len(w.Blob), w.Chunk)
			}
			return nil
		}
		f := &c.next
		n := copy(b, f.head[:f.made])
		n += copy(b[n:], f.body)
		clear(b[n:])
		e.At = f.at
		fixed := c.o.Rewrite.apply(e, b, locate(e, b))
		if !c.account.sent {
			c.account.fixed[fixed]++
		}
	}
}

// Notes implements Source. They speak of the first pass, or of what was read of
// it yet.
func (c *Capture) Notes() []string { return c.account.notes(c.name, c.o) }

// Close releases the file; a reader that was given stays open.
func (c *Capture) Close() error {
	if c.zstd != nil {
		c.zstd.Close()
		c.zstd = nil
	}
	c.err = fmt.Errorf("%s: the capture is closed", c.name)
	c.in.kept = nil
	if c.closer == nil {
		return nil
	}
	f := c.closer
	c.closer = nil
	return f.Close()
}

var _ Source = (*Capture)(nil)
