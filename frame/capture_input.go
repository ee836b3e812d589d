// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"context"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// A rawInput is a capture's octets as they are stored, from the start for every
// pass: read again where that can be done, kept in memory where it cannot.
type rawInput struct {
	ctx context.Context // ends reading

	at   io.ReaderAt
	size int64 // of at
	pos  int64

	stream io.Reader // in place of at
	kept   []byte
	keep   int // most octets to keep
	beyond bool

	err error // the first error in reading that is not the end
}

// newRawInput takes files, and readers like bytes.Reader, from where they stand.
func newRawInput(ctx context.Context, r io.Reader, keep int) *rawInput {
	if f, ok := r.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			if at, err := f.Seek(0, io.SeekCurrent); err == nil && at <= info.Size() {
				return &rawInput{ctx: ctx, at: io.NewSectionReader(f, at, info.Size()-at), size: info.Size() - at}
			}
		}
	} else if s, ok := r.(interface {
		io.ReaderAt
		Size() int64
	}); ok {
		return &rawInput{ctx: ctx, at: s, size: s.Size()}
	}
	return &rawInput{ctx: ctx, stream: r, keep: keep}
}

func (in *rawInput) rewind() error {
	if in.beyond {
		return fmt.Errorf("cannot be read twice: it is no file, and longer than the %d octets that are kept of it; store it in a file first", in.keep)
	}
	in.pos = 0
	return nil
}

func (in *rawInput) Read(p []byte) (n int, err error) {
	switch {
	case in.ctx.Err() != nil:
		err = in.ctx.Err()
	case in.at != nil:
		n, err = in.at.ReadAt(p[:min(int64(len(p)), in.size-in.pos)], in.pos)
		if n == 0 && err == nil && len(p) > 0 {
			err = io.EOF
		}
	case in.pos < int64(len(in.kept)):
		n = copy(p, in.kept[in.pos:])
	default:
		if err = in.await(); err != nil {
			break
		}
		n, err = in.stream.Read(p)
		if !in.beyond && len(in.kept)+n <= in.keep {
			in.kept = append(in.kept, p[:n]...)
		} else if n > 0 {
			in.kept, in.beyond = nil, true
		}
	}
	in.pos += int64(n)
	if err != nil && err != io.EOF && in.err == nil {
		in.err = err
	}
	return n, err
}

// await returns once a pipe or terminal has something to read: reading one that has
// nothing could not be ended.
func (in *rawInput) await() error {
	f, ok := in.stream.(*os.File)
	if !ok || in.ctx.Done() == nil {
		return nil
	}
	const look = 100 // ms
	for {
		ready, err := unix.Poll([]unix.PollFd{{Fd: int32(f.Fd()), Events: unix.POLLIN}}, look)
		if ready > 0 || err != nil && err != unix.EINTR { // what is wrong with it, reading says
			return nil
		}
		if err := in.ctx.Err(); err != nil {
			return err
		}
	}
}

// chunkLen holds the largest record of a capture file and, for speed, stays in
// a core's own cache.
const chunkLen = 1 << 19

// chunks reads large pieces and lends out stretches of them.
type chunks struct {
	r        io.Reader
	buf      []byte
	from, to int   // of buf, not consumed yet
	base     int64 // offset of buf[0] in what r yields
	err      error // r's last: io.EOF is the end
}

func (c *chunks) reset(r io.Reader) {
	if c.buf == nil {
		c.buf = make([]byte, chunkLen)
	}
	*c = chunks{r: r, buf: c.buf}
}

// peek lends the next n octets, at most chunkLen, until the next peek or skip;
// fewer where the input ends.
func (c *chunks) peek(n int) []byte {
	if c.to-c.from < n {
		c.more(n)
	}
	return c.buf[c.from:min(c.from+n, c.to)]
}

func (c *chunks) more(n int) {
	c.to = copy(c.buf, c.buf[c.from:c.to])
	c.base += int64(c.from)
	c.from = 0
	for idle := 0; c.to < n && c.err == nil; {
		m, err := c.r.Read(c.buf[c.to:])
		c.to += m
		c.err = err
		if idle++; m > 0 {
			idle = 0
		} else if idle > 100 && err == nil {
			c.err = io.ErrNoProgress
		}
	}
}

// advance consumes n octets that were peeked.
func (c *chunks) advance(n int) { c.from += n }

// skip consumes n octets unseen, and returns how many there were.
func (c *chunks) skip(n int64) (done int64) {
	for done < n {
		part := len(c.peek(int(min(n-done, chunkLen))))
		if part == 0 {
			break
		}
		c.advance(part)
		done += int64(part)
	}
	return done
}

func (c *chunks) offset() int64 { return c.base + int64(c.from) }
