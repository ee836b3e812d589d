// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"golang.org/x/sys/unix"
)

// A dumper asks one namespace for the same list again and again. The libraries make
// a map of every message; this walks through the kernel's answer in place.
type dumper struct {
	fd      int
	request []byte // nlmsghdr and what follows
	buf     []byte
	seq     uint32
}

const (
	dumpPatience = 1 // s
	dumpBuffer   = 32 << 10
	nlmsgHeader  = unix.SizeofNlMsghdr
)

// openDumper opens the socket in the namespace of the calling thread; there it
// stays.
func openDumper(request uint16, body []byte) (*dumper, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open netlink: %w", err)
	}
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: dumpPatience}); err != nil {
		return nil, errors.Join(fmt.Errorf("limit the wait for netlink: %w", err), unix.Close(fd))
	}
	d := &dumper{fd: fd, buf: make([]byte, dumpBuffer)}
	d.request = binary.NativeEndian.AppendUint32(nil, uint32(nlmsgHeader+len(body)))
	d.request = binary.NativeEndian.AppendUint16(d.request, request)
	d.request = binary.NativeEndian.AppendUint16(d.request, unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	d.request = append(d.request, make([]byte, 8)...) // sequence and port
	d.request = append(d.request, body...)
	return d, nil
}

func (d *dumper) Close() error { return unix.Close(d.fd) }

var errInterrupted = errors.New("the list changed while the kernel told it")

// dump asks and gives f each message's body. It asks again where the list changed
// meanwhile; what changes all the time is told as it was.
func (d *dumper) dump(f func(body []byte) error) error {
	for range 5 {
		if err := d.once(f); !errors.Is(err, errInterrupted) {
			return err
		}
	}
	return nil
}

func (d *dumper) once(f func(body []byte) error) error {
	d.seq++
	binary.NativeEndian.PutUint32(d.request[8:], d.seq)
	if _, err := retry(func() (int, error) { return unix.Write(d.fd, d.request) }); err != nil {
		return fmt.Errorf("ask netlink: %w", err)
	}
	interrupted := false
	for {
		n, err := retry(func() (int, error) { return unix.Read(d.fd, d.buf) })
		if err != nil {
			return fmt.Errorf("read netlink's answer: %w", err)
		}
		done, again, err := messages(d.buf[:n], d.seq, f)
		interrupted = interrupted || again
		switch {
		case err != nil:
			return err
		case done && interrupted:
			return errInterrupted
		case done:
			return nil
		}
	}
}

func retry(call func() (int, error)) (n int, err error) {
	for {
		if n, err = call(); err != unix.EINTR { //nolint:errorlint // a system call's own
			return n, err
		}
	}
}

var errShort = errors.New("netlink's answer is cut short")

// messages walks through what one read gave. Answers to earlier questions, which
// were given up, are skipped.
func messages(b []byte, seq uint32, f func(body []byte) error) (done, interrupted bool, err error) {
	for len(b) >= nlmsgHeader {
		size := binary.NativeEndian.Uint32(b)
		if size < nlmsgHeader || uint64(size) > uint64(len(b)) {
			return false, false, errShort
		}
		kind, flags := binary.NativeEndian.Uint16(b[4:]), binary.NativeEndian.Uint16(b[6:])
		body := b[nlmsgHeader:size]
		if binary.NativeEndian.Uint32(b[8:]) == seq {
			interrupted = interrupted || flags&unix.NLM_F_DUMP_INTR != 0
			switch kind {
			case unix.NLMSG_NOOP:
			case unix.NLMSG_DONE, unix.NLMSG_ERROR:
				if len(body) >= 4 {
					if code := int32(binary.NativeEndian.Uint32(body)); code < 0 && code > math.MinInt16 {
						return true, interrupted, fmt.Errorf("netlink answers: %w", unix.Errno(-code))
					}
				}
				return true, interrupted, nil
			default:
				if err := f(body); err != nil {
					return true, interrupted, err
				}
			}
		}
		b = b[min(len(b), int(size+3)&^3):]
	}
	if len(b) > 0 {
		return false, interrupted, errShort
	}
	return false, interrupted, nil
}

// attribute cuts off the first of a list of netlink attributes; ok is false at the
// end and where they are cut short.
func attribute(list *[]byte) (kind uint16, value []byte, ok bool) {
	b := *list
	if len(b) < 4 {
		return 0, nil, false
	}
	size := int(binary.NativeEndian.Uint16(b))
	if size < 4 || size > len(b) {
		return 0, nil, false
	}
	*list = b[min(len(b), (size+3)&^3):]
	return binary.NativeEndian.Uint16(b[2:]) & (1<<14 - 1), b[4:size], true
}
