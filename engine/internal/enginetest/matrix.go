// SPDX-License-Identifier: Apache-2.0

package enginetest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"boxdyno/engine"
	"boxdyno/frame"
	"boxdyno/host"
	"boxdyno/internal/netns"
	"boxdyno/unit"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// The matrix: every kind of source by every backend. What arrives is what was
// drawn, octet for octet, or the backend says by name why it is not sent.

// A Bed is a transmitter, and what arrives from it: the next frame, nil
// where none comes any more (wait) or is there.
type Bed struct {
	Tx   engine.Transmitter
	Next func(wait bool) []byte
}

// OnWire sends by b from a port, and hears at its peer, where meter has a program.
func OnWire(sends, meter engine.Backend) func(testing.TB) *Bed {
	return func(t testing.TB) *Bed {
		from, to := Quiet(t)
		if meter != nil { // with no stream armed, which leaves frames to the stack
			m, err := meter.OpenMeter(context.Background(), to)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { m.Close() })
		}
		tx, err := sends.OpenTransmitter(context.Background(), []host.Port{from}, -1)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { tx.Close() })
		hear := eavesdrop(t, to)
		return &Bed{tx, func(wait bool) []byte {
			if wait {
				return hear(0)
			}
			return hear(unix.MSG_DONTWAIT)
		}}
	}
}

// A FrameLog is a hash.Hash that keeps what a Digest gives it.
type FrameLog struct{ bytes.Buffer }

// Sum implements hash.Hash.
func (*FrameLog) Sum(b []byte) []byte { return b }

// Size implements hash.Hash.
func (*FrameLog) Size() int { return 0 }

// BlockSize implements hash.Hash.
func (*FrameLog) BlockSize() int { return 1 }

// Frame is the next frame; nil: none.
func (l *FrameLog) Frame() []byte {
	length := l.Next(4)
	if len(length) < 4 {
		return nil
	}
	return bytes.Clone(l.Next(int(binary.BigEndian.Uint32(length))))
}

// LongFrames is what becomes of frames that are longer than the port's MTU allows.
type LongFrames int

const (
	refusedByName LongFrames = iota // all of the load, before any is sent
	Counted                         // they alone, in Refused
	Carried                         // there is no MTU
)

// Matrix sends every kind by a backend. long says what becomes of frames of so many
// octets; all others are refused by name.
func Matrix(t *testing.T, open func(testing.TB) *Bed, long map[int]LongFrames) {
	bed := open(t)
	for i, k := range SourceKinds(t) {
		t.Run(k.name, func(t *testing.T) {
			if k.Long != 0 && long[k.Long] != Carried {
				bed.refuses(t, k, long[k.Long] == Counted)
				return
			}
			bed.carries(t, k, i%2 == 0)
		})
	}
}

// carries sends a kind and compares what arrives with what is drawn.
func (bed *Bed) carries(t *testing.T, k SourceKind, byOctets bool) {
	const id = 6
	s, l := engine.Stream{ID: id}, k.load
	switch {
	case l.Speed != 0:
	case byOctets && k.Spec == nil:
		l.Bits = 60e6
	default:
		l.Rate = 20e3
	}
	var draw func() ([]byte, func(buf []byte, at unit.Instant), int)
	if k.Spec != nil {
		s.Frames = *k.Spec
		draw = drawSpec(t, *k.Spec, id)
	} else {
		twin := NewTwinFeed(t, k, id)
		draw = func() ([]byte, func([]byte, unit.Instant), int) {
			buf, e := twin.Next(t)
			return buf, func(buf []byte, at unit.Instant) { frame.Stamp(buf, e, at) }, int(e.Sig)
		}
		src, err := k.open()
		if err != nil {
			t.Fatal(err)
		}
		defer src.Close()
		s.Source = src
	}
	begin := unit.Now()
	reps, err := bed.Tx.Transmit(context.Background(), l, s)
	if err != nil {
		t.Fatal(err)
	}
	r := reps[0]
	n, octets, late := uint64(0), uint64(0), uint64(0)
	for n < r.Accepted {
		got := bed.Next(true)
		if got == nil {
			break
		}
		want, stamp, signature := draw()
		if signature != 0 && len(got) == len(want) {
			at := unit.Instant(binary.BigEndian.Uint64(got[signature+10:]))
			left := at &^ math.MinInt64
			if left != at {
				late++
			}
			if left != 0 && left < min(begin, r.First) || left > max(unit.Now(), r.Last) {
				t.Fatalf("frame %d has time %d, sent from %d to %d", n, at, r.First, r.Last)
			}
			stamp(want, at)
		}
		if !bytes.Equal(got, want) {
			t.Fatalf("frame %d is\n% x, want\n% x", n, got, want)
		}
		octets += uint64(len(got) + unit.FCS)
		n++
	}
	intended := l.Count
	if l.Passes > 0 {
		intended = l.Passes * 30
	}
	if n != intended || r.Accepted != n || r.Intended != n || r.Octets != octets || l.Passes > 0 && r.Passes != l.Passes || r.Refused+r.NotSent != 0 {
		t.Errorf("%d frames of %d octets arrived; %+v", n, octets, r)
	}
	if late > r.Late || k.Spec != nil && late != r.Late {
		t.Errorf("%d frames are marked as late, and %d were", late, r.Late)
	}
	if extra := bed.Next(false); extra != nil {
		t.Errorf("another frame arrived: % x", extra)
	}
}

// refuses wants an error that names what is too long and nothing sent, or only
// the frame refused that is.
func (bed *Bed) refuses(t *testing.T, k SourceKind, alone bool) {
	src, err := k.open()
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	reps, err := bed.Tx.Transmit(context.Background(), k.load, engine.Stream{ID: 6, Source: src})
	var long *engine.TooLongError
	switch {
	case alone:
		if err != nil || reps[0].Accepted != 2 || reps[0].Refused != 1 || len(bed.Next(true)) != 60 || len(bed.Next(true)) != 60 {
			t.Errorf("frames of %d octets: %v, %+v", k.Long, err, reps)
		}
	case err == nil || !errors.As(err, &long) && !strings.Contains(err.Error(), "too long"):
		t.Errorf("frames of %d octets: %v, %+v", k.Long, err, reps)
	}
	if f := bed.Next(false); f != nil {
		t.Errorf("% x was sent", f)
	}
}

// drawSpec is what a spec's stream is to send, frame by frame.
func drawSpec(t testing.TB, spec frame.Spec, id uint16) func() ([]byte, func([]byte, unit.Instant), int) {
	b, err := frame.NewBuilder(spec, id)
	if err != nil {
		t.Fatal(err)
	}
	k := uint64(0)
	return func() ([]byte, func([]byte, unit.Instant), int) {
		buf := make([]byte, frame.MaxSize)
		n := b.Build(k, buf)
		k++
		return slices.Clip(buf[:n]), b.Stamp, b.Layout.Signature
	}
}

// eavesdrop hears whole frames, VLAN tags included, that arrive at a port.
func eavesdrop(t testing.TB, p host.Port) (next func(flags int) []byte) {
	t.Helper()
	const all = uint16(unix.ETH_P_ALL)>>8 | uint16(unix.ETH_P_ALL&0xff)<<8
	fd := -1
	if err := netns.Do(p.Netns, func() (err error) {
		l, err := netlink.LinkByName(p.Name)
		if err != nil {
			return err
		}
		if fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err != nil {
			return err
		}
		return errors.Join(
			unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_AUXDATA, 1),
			unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1),
			unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 16<<20),
			unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 5}),
			unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: l.Attrs().Index}),
		)
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return func(flags int) []byte {
		buf, control := make([]byte, 4096), make([]byte, 128)
		n, nc, _, _, err := unix.Recvmsg(fd, buf, control, flags)
		if err != nil {
			return nil // nothing more
		}
		buf = buf[:n]
		messages, err := unix.ParseSocketControlMessage(control[:nc])
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range messages {
			const validTag = 1 << 4 // TP_STATUS_VLAN_VALID
			if m.Header.Type == unix.PACKET_AUXDATA && binary.NativeEndian.Uint32(m.Data)&validTag != 0 {
				tag := binary.BigEndian.AppendUint16(nil, binary.NativeEndian.Uint16(m.Data[18:]))
				tag = binary.BigEndian.AppendUint16(tag, binary.NativeEndian.Uint16(m.Data[16:]))
				buf = slices.Insert(buf, 12, tag...)
			}
		}
		return buf
	}
}
