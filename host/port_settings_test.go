// SPDX-License-Identifier: Apache-2.0

package host

import (
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"boxdyno/internal/ethtool"
	"boxdyno/internal/netns"
	"boxdyno/internal/testutil"
	"boxdyno/result"
)

// A veth has offloads and queues, and no speed, duplex, EEE, pause or rings.
func TestPortSettings(t *testing.T) {
	testutil.Privileged(t)
	testutil.NoLeaks(t)
	ns, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ns.Close() })
	port := Port{Netns: ns.Path(), Name: "a0"}
	within := func(f func() error) {
		t.Helper()
		if err := (&Local{Netns: port.Netns}).View(func(fs.FS) error { return f() }); err != nil {
			t.Fatal(err)
		}
	}
	within(func() error {
		return netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "a0", MTU: 1400}, PeerName: "a1"})
	})
	before, err := port.Settings()
	if err != nil {
		t.Fatal(err)
	}
	if result.Get(before, "a0 MTU") != "1400" || !strings.HasPrefix(result.Get(before, "a0 driver"), "veth") ||
		!strings.Contains(result.Get(before, "a0 offloads"), "tso") || !strings.Contains(result.Get(before, "a0 queues"), "rx 1") {
		t.Errorf("%v", before)
	}
	for _, p := range before {
		for _, no := range []string{"speed", "duplex", "EEE", "pause", "rings", "bus", "firmware", "also"} {
			if strings.HasSuffix(p.Key, " "+no) {
				t.Errorf("a veth has %v", p)
			}
		}
	}
	within(func() error {
		e, err := ethtool.Open()
		if err != nil {
			return err
		}
		defer e.Close()
		return e.SetFeatures("a0", map[string]bool{"tx-tcp-segmentation": false})
	})
	after, err := port.Settings()
	if err != nil {
		t.Fatal(err)
	}
	words := strings.Fields(result.Get(after, "a0 offloads"))
	if slices.Contains(words, "tso") || !slices.Contains(words, "gro") && !slices.Contains(words, "gso") {
		t.Errorf("after tso was switched off: %v", words)
	}
	if _, err := (Port{Netns: port.Netns, Name: "gone"}).Settings(); err == nil || !strings.Contains(err.Error(), "port gone") {
		t.Errorf("a port that is not there: %v", err)
	}
}
