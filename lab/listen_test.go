// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"net"
	"testing"

	"github.com/cilium/ebpf/link"

	"boxdyno/internal/netns"
	"boxdyno/internal/testutil"
)

// While somebody listens the port has room for an XDP program of theirs, and its receive
// thread stays; afterwards the lab's program is back.
func TestListen(t *testing.T) {
	testutil.Privileged(t)
	tb, err := newSandbox().Build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tb.Close()
	threads, err := napiThreads("lan")
	if err != nil {
		t.Fatal(err)
	}
	programs, err := loadPrograms(Plant{})
	if err != nil {
		t.Fatal(err)
	}
	defer programs.Close()
	room := func() bool {
		var l link.Link
		err := netns.Do(tb.DUT.Netns, func() error {
			i, err := net.InterfaceByName("lan")
			if err != nil {
				return err
			}
			l, err = link.AttachXDP(link.XDPOptions{Program: programs.Pass, Interface: i.Index, Flags: link.XDPDriverMode})
			return err
		})
		if err == nil {
			err = l.Close()
		}
		return err == nil
	}
	for _, kind := range []string{"route", Listening, Listening, "drop-xdp", Listening, "route"} {
		if err := tb.Serve(t.Context(), Service{Kind: kind, Flows: 1}); err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		if got := room(); got != (kind == Listening) {
			t.Errorf("service %s: the port has room for an XDP program: %v", kind, got)
		}
		now, err := napiThreads("lan")
		if err != nil {
			t.Fatal(err)
		}
		for _, tid := range tb.Threads {
			if threads[tid] && !now[tid] {
				t.Errorf("service %s: the receive thread %d is gone", kind, tid)
			}
		}
	}
}
