// SPDX-License-Identifier: Apache-2.0

package xsk

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"boxdyno/internal/netns"
	"boxdyno/internal/testutil"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// veth calls f in a namespace with the veth pair a and b, both up.
func veth(t *testing.T, f func(a, b int) error) {
	t.Helper()
	testutil.Privileged(t)
	testutil.NoLeaks(t)
	if err := netns.Do(testutil.Cable{A: "a", B: "b"}.Make(t), func() error {
		var index []int
		for _, name := range []string{"a", "b"} {
			l, err := netlink.LinkByName(name)
			if err != nil {
				return err
			}
			index = append(index, l.Attrs().Index)
		}
		return f(index[0], index[1])
	}); err != nil {
		t.Fatal(err)
	}
}

func config(index int) Config {
	return Config{Index: index, Receive: 64, Send: 64, Sends: 64}
}

// What is put on TX leaves by the port, octet by octet, and its memory comes back.
func TestSend(t *testing.T) {
	veth(t, func(a, b int) error {
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		const protocol = 0x88b5
		if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: protocol>>8 | protocol&0xff<<8, Ifindex: b}); err != nil {
			return err
		}
		if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 5}); err != nil {
			return err
		}
		s, err := Open(config(a))
		if err != nil {
			return err
		}
		defer s.Close()
		for i := range 200 { // more than the ring has
			frame := bytes.Repeat([]byte{byte(i)}, 60+i)
			copy(frame[12:], []byte{protocol >> 8, protocol & 0xff})
			at := uint64(64+i%64) * Chunk
			copy(s.UMEM[at:], frame)
			if !s.TX.Put(Desc{Addr: at, Len: uint32(len(frame))}) {
				t.Fatal("TX is full")
			}
			s.TX.Publish()
			if err := s.Kick(); err != nil {
				return err
			}
			buf := make([]byte, 4096)
			n, _, err := unix.Recvfrom(fd, buf, 0)
			if err != nil {
				return err
			}
			if !bytes.Equal(buf[:n], frame) {
				t.Fatalf("frame %d arrived as %x", i, buf[:n])
			}
			if back, ok := s.Completion.Take(); !ok || back != at {
				t.Fatalf("frame %d: memory %d came back, %v, want %d", i, back, ok, at)
			}
			s.Completion.Release()
		}
		st, err := s.Statistics()
		if st.Tx_invalid_descs != 0 {
			t.Errorf("%+v", st)
		}
		// An entry without length is skipped.
		s.TX.Put(Desc{Addr: 64 * Chunk})
		s.TX.Publish()
		if err := s.Kick(); err != nil {
			return err
		}
		if after, _ := s.Statistics(); after.Tx_invalid_descs != 1 || s.TX.Taken() != s.TX.Next() {
			t.Errorf("%+v, taken %d of %d", after, s.TX.Taken(), s.TX.Next())
		}
		return err
	})
}

func TestOpenRefuses(t *testing.T) {
	veth(t, func(a, _ int) error {
		s, err := Open(config(a))
		if err != nil {
			return err
		}
		if _, err := Open(config(a)); !errors.Is(err, unix.EBUSY) {
			t.Errorf("a second socket on a queue: %v", err)
		}
		if err := s.Close(); err != nil {
			return err
		}
		far := config(a)
		far.Queue = 99
		if _, err := Open(far); !errors.Is(err, unix.EINVAL) {
			t.Errorf("queue 99: %v", err)
		}
		if _, err := Open(config(9999)); !errors.Is(err, unix.ENODEV) {
			t.Errorf("no port: %v", err)
		}
		zero := config(a)
		zero.ZeroCopy = true
		if _, err := Open(zero); !errors.Is(err, unix.EOPNOTSUPP) {
			t.Errorf("zero-copy on a veth: %v", err)
		}
		busy := config(a)
		busy.BusyPoll = 20 * time.Microsecond
		s, err = Open(busy) // copy mode takes the option
		if err != nil {
			return err
		}
		defer s.Close()
		for option, want := range map[int]int{unix.SO_PREFER_BUSY_POLL: 1, unix.SO_BUSY_POLL: 20, unix.SO_BUSY_POLL_BUDGET: 64} {
			// The budget can be set only.
			if got, err := unix.GetsockoptInt(s.FD(), unix.SOL_SOCKET, option); err == nil && got != want {
				t.Errorf("option %d is %d, want %d", option, got, want)
			}
		}
		return nil
	})
}

// A port that goes away ends the socket, and says so.
func TestPortGone(t *testing.T) {
	veth(t, func(a, _ int) error {
		s, err := Open(config(a))
		if err != nil {
			return err
		}
		defer s.Close()
		l, err := netlink.LinkByIndex(a)
		if err != nil {
			return err
		}
		if err := netlink.LinkDel(l); err != nil {
			return err
		}
		if err := s.Kick(); err != unix.ENXIO {
			t.Errorf("kick: %v", err)
		}
		if err := s.Err(); err != unix.ENETDOWN {
			t.Errorf("pending: %v", err)
		}
		return nil
	})
}
