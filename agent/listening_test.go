// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"testing"

	"github.com/vishvananda/netlink"

	"boxdyno/host"
	"boxdyno/internal/ethtool"
	"boxdyno/internal/netns"
	"boxdyno/internal/testutil"
	"boxdyno/subject"
	"boxdyno/subject/ids"
)

// portState is how often a port was made promiscuous, and whether it merges frames.
func portState(t *testing.T, ns, port string) (promiscuous int, merges bool) {
	t.Helper()
	err := netns.Do(ns, func() error {
		l, err := netlink.LinkByName(port)
		if err != nil {
			return err
		}
		e, err := ethtool.Open()
		if err != nil {
			return err
		}
		defer e.Close()
		features, err := e.Features(port)
		promiscuous, merges = l.Attrs().Promisc, features["rx-gro"].Active
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return promiscuous, merges
}

// A port takes frames for other stations while a subject listens, and keeps those of TCP
// apart for one that counts them.
func TestPortOfASubject(t *testing.T) {
	testutil.Privileged(t)
	testutil.NoLeaks(t)
	ns, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	err = netns.Do(ns.Path(), func() error {
		attrs := netlink.NewLinkAttrs()
		attrs.Name = "card"
		if err := netlink.LinkAdd(&netlink.Tuntap{LinkAttrs: attrs, Mode: netlink.TUNTAP_MODE_TAP}); err != nil {
			return err
		}
		attrs.Name = "cable"
		if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "end"}); err != nil {
			return err
		}
		e, err := ethtool.Open()
		if err != nil {
			return err
		}
		defer e.Close()
		return e.SetFeatures("cable", map[string]bool{"rx-gro": true})
	})
	if err != nil {
		t.Fatal(err)
	}
	udp := ids.NewSuricata()
	udp.Filter = "udp"
	for _, c := range []struct {
		port   string
		sub    subject.Subject
		merges bool
	}{
		{"card", captures(t, "af_packet").Subject, true},
		{"card", udp, true},
		{"card", ids.NewSuricata(), false},
		{"cable", ids.NewSuricata(), true},
	} {
		release, err := listenOn(context.Background(), &host.Local{Netns: ns.Path()}, c.port, apartFor(c.sub))
		if err != nil {
			t.Fatal(err)
		}
		if n, merges := portState(t, ns.Path(), c.port); n != 1 || merges != c.merges {
			t.Errorf("%s of %T: promiscuous %d times, merges frames: %v", c.port, c.sub, n, merges)
		}
		if err := release(); err != nil {
			t.Error(err)
		}
		if n, merges := portState(t, ns.Path(), c.port); n != 0 || !merges {
			t.Errorf("%s afterwards: promiscuous %d times, merges frames: %v", c.port, n, merges)
		}
	}
	if _, err := listenOn(context.Background(), &host.Local{Netns: ns.Path()}, "none9", false); err == nil {
		t.Error("a port that is not there is listened to")
	}
}
