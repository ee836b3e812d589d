// SPDX-License-Identifier: Apache-2.0

package testutil

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"testing"

	"github.com/vishvananda/netlink"

	"boxdyno/internal/netns"
)

// A Cable is a veth pair in a namespace of its own:
//
//	A ==veth== B
type Cable struct {
	A, B   string
	Queues int  // of each port, each way; 0: as many as the kernel gives
	Silent bool // without IPv6, so that the kernel sends no frames of its own
}

// Make makes it, both ports up, and returns the namespace's path. At the end of the
// test both are gone. It skips the test as Privileged does.
func (c Cable) Make(t testing.TB) (path string) {
	t.Helper()
	Privileged(t)
	ns, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ns.Close() })
	if err := netns.Do(ns.Path(), c.Plug); err != nil {
		t.Fatal(err)
	}
	return ns.Path()
}

// Plug makes the pair, both ports up, in the caller's namespace.
func (c Cable) Plug() error {
	attrs := netlink.NewLinkAttrs() // the peer has as many queues
	attrs.Name, attrs.NumTxQueues, attrs.NumRxQueues = c.A, c.Queues, c.Queues
	if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: c.B}); err != nil {
		return fmt.Errorf("make the veth pair %s and %s: %w", c.A, c.B, err)
	}
	for _, name := range []string{c.A, c.B} {
		if c.Silent {
			err := os.WriteFile("/proc/sys/net/ipv6/conf/"+name+"/disable_ipv6", []byte("1"), 0)
			if err != nil && !errors.Is(err, fs.ErrNotExist) { // a kernel without IPv6
				return err
			}
		}
		l, err := netlink.LinkByName(name)
		if err == nil {
			err = netlink.LinkSetUp(l)
		}
		if err != nil {
			return fmt.Errorf("set up %s: %w", name, err)
		}
	}
	return nil
}

// MTU is that of a link of the network namespace at path, in octets; 0 with a failed test
// where it cannot be asked for.
func MTU(t testing.TB, path, link string) (octets int) {
	t.Helper()
	err := netns.Do(path, func() error {
		l, err := netlink.LinkByName(link)
		if err == nil {
			octets = l.Attrs().MTU
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	return octets
}
