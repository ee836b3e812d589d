// SPDX-License-Identifier: Apache-2.0

package ethtool

import (
	"errors"
	"maps"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"boxdyno/internal/netns"
	"boxdyno/internal/testutil"
)

func open(t *testing.T) *Socket {
	t.Helper()
	s, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// cable is a socket beside a veth pair, a and b, of two queues each way.
func cable(t *testing.T) (s *Socket) {
	t.Helper()
	path := testutil.Cable{A: "a", B: "b", Queues: 2, Silent: true}.Make(t)
	if err := netns.Do(path, func() (err error) { s, err = Open(); return err }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

//go:noinline
func deep(n int, f func()) (used byte) {
	var room [64]byte
	if n == 0 {
		f()
	} else {
		used = deep(n-1, f)
	}
	return used + room[n%len(room)]
}

// The answer comes to where it is read, at whatever depth the stack must grow or a garbage
// collection move it. A library for this failed at one depth in thirty, and had the kernel
// write to freed memory there.
func TestAnswersAtEveryDepth(t *testing.T) {
	s := open(t)
	want, err := s.Features("lo")
	if err != nil || len(want) < 30 {
		t.Fatalf("%d features, %v", len(want), err)
	}
	for n := range 600 {
		done := make(chan struct{})
		go func() { // its stack is small
			defer close(done)
			deep(n, func() {
				if got, err := s.Features("lo"); err != nil || !maps.Equal(got, want) {
					t.Errorf("depth %d: %d features, want %d (%v)", n, len(got), len(want), err)
				}
			})
		}()
		<-done
	}
}

func TestFeatures(t *testing.T) {
	s := cable(t)
	const gro, csum, fixed = "rx-gro", "tx-checksum-ip-generic", "netns-local"
	for _, on := range []bool{true, false, true} {
		if err := s.SetFeatures("a", map[string]bool{gro: on, csum: !on}); err != nil {
			t.Fatal(err)
		}
		f, err := s.Features("a")
		if err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]bool{gro: on, csum: !on} {
			if got := f[name]; got != (Feature{Available: true, Requested: want, Active: want}) {
				t.Errorf("%s is %+v, want it %v", name, got, want)
			}
		}
		if f, ok := f[fixed]; ok && f.Available && !f.NeverChanged {
			t.Errorf("%s is %+v", fixed, f)
		}
	}
	if err := s.SetFeatures("a", map[string]bool{gro: false, "no-such": true}); err == nil {
		t.Error("a feature that there is not was switched on")
	}
	if f, _ := s.Features("a"); !f[gro].Active {
		t.Error("half of what cannot be done was done")
	}
}

func TestSettings(t *testing.T) {
	s := cable(t)
	c, err := s.Channels("a")
	if err != nil || c.RxCount != 2 || c.TxCount != 2 || c.MaxRx != 2 || c.MaxTx != 2 || c.CombinedCount != 0 {
		t.Fatalf("%+v, %v", c, err)
	}
	c.RxCount, c.TxCount = 1, 2
	if err := s.SetChannels("a", c); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Channels("a"); err != nil || got != c {
		t.Errorf("%+v, %v, want %+v", got, err, c)
	}
	c.RxCount = 3
	if err := s.SetChannels("a", c); !errors.Is(err, unix.EINVAL) {
		t.Errorf("more queues than there are: %v", err)
	}
	if d, err := s.Driver("a"); err != nil || d.Name != "veth" || d.Bus != "" {
		t.Errorf("%+v, %v", d, err)
	}
	if l, err := s.Link("a"); err != nil || l != (Link{10_000, "full"}) { // as drivers/net/veth.c claims
		t.Errorf("%+v, %v", l, err)
	}
	if mac, err := s.PermanentAddress("a"); err != nil || mac != nil {
		t.Errorf("%v, %v", mac, err)
	}
	stats, err := s.Stats("a")
	if _, ok := stats["peer_ifindex"]; err != nil || !ok {
		t.Errorf("%v, %v", stats, err)
	}
	if _, err := s.EEE("a"); !errors.Is(err, unix.EOPNOTSUPP) {
		t.Errorf("energy-efficient Ethernet of a veth: %v", err)
	}
	if err := s.SetPause("a", Pause{}); !errors.Is(err, unix.EOPNOTSUPP) {
		t.Errorf("pause of a veth: %v", err)
	}
}

func TestNoPort(t *testing.T) {
	s := open(t)
	for _, port := range []string{"", "no-such-port", "a-name-longer-than-any"} {
		if _, err := s.Features(port); !errors.Is(err, unix.ENODEV) {
			t.Errorf("%q: %v", port, err)
		}
		if _, err := s.Ring(port); !errors.Is(err, unix.ENODEV) {
			t.Errorf("%q: %v", port, err)
		}
	}
}

// Sizes are those of include/uapi/linux/ethtool.h, less the command.
func TestSizes(t *testing.T) {
	for name, c := range map[string][2]uintptr{
		"ethtool_ringparam":  {unsafe.Sizeof(Ring{}), 36 - 4},
		"ethtool_channels":   {unsafe.Sizeof(Channels{}), 36 - 4},
		"ethtool_pauseparam": {unsafe.Sizeof(Pause{}), 16 - 4},
		"ethtool_coalesce":   {unsafe.Sizeof(Coalesce{}), 92 - 4},
		"ethtool_eee":        {unsafe.Sizeof(EEE{}), 40 - 4},
	} {
		if c[0] != c[1] {
			t.Errorf("%s: %d octets, want %d", name, c[0], c[1])
		}
	}
}
