// SPDX-License-Identifier: Apache-2.0

package cables

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"

	"boxdyno/internal/netns"
	"boxdyno/internal/testutil"
)

func ports(names ...string) (all []Port) {
	for _, n := range names {
		name, why, _ := strings.Cut(n, ":")
		all = append(all, Port{Name: name, Used: why, Carrier: true})
	}
	return all
}

func TestMatch(t *testing.T) {
	from := func(side Side, pairs ...string) (all []Heard) { // "port<from"
		for _, p := range pairs {
			port, from, _ := strings.Cut(p, "<")
			all = append(all, Heard{port, side, from})
		}
		return all
	}
	for _, c := range []struct {
		name            string
		here, there     []Port
		atHere, atThere []Heard
		cables, faults  string
	}{
		{"one cable", ports("e0"), ports("i0"), from(Box, "e0<i0"), from(Tester, "i0<e0"), "e0=i0", ""},
		{"two, crossed", ports("e0", "e1"), ports("i0", "i1"), from(Box, "e0<i1", "e1<i0"), from(Tester, "i1<e0", "i0<e1"), "e0=i1 e1=i0", ""},
		{"one way there", ports("e0"), ports("i0"), nil, from(Tester, "i0<e0"), "", "one-way cable: frames from e0 of this machine reach i0 of box, and none come back"},
		{"one way back", ports("e0"), ports("i0"), from(Box, "e0<i0"), nil, "", "one-way cable: frames from i0 of box reach e0 of this machine, and none go back"},
		{"to a used port", ports("e0"), ports("i0:carries the default route"), nil, from(Tester, "i0<e0"), "", "cable not used: e0 of this machine is wired to i0 of box, which carries the default route|not tried"},
		{"a switch", ports("e0", "e1"), ports("i0"), from(Box, "e0<i0", "e1<i0"), from(Tester, "i0<e0", "i0<e1"), "", "no cable: e0 of this machine and i0 of box|no cable: e1"},
		{"a loop", ports("e0", "e1"), nil, from(Tester, "e0<e1", "e1<e0"), nil, "", "loop: e0 and e1 of this machine are wired"},
		{"elsewhere", ports("e0"), []Port{{Name: "i0"}}, nil, nil, "", "other end unknown: e0 of this machine|no link: i0 of box"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := Match("box", c.here, c.there, c.atHere, c.atThere)
			var got []string
			for _, x := range f.Cables {
				got = append(got, x.String())
			}
			if strings.Join(got, " ") != c.cables {
				t.Errorf("cables %v, want %s", got, c.cables)
			}
			for want := range strings.SplitSeq(c.faults, "|") {
				if want != "" && !strings.Contains(strings.Join(f.Faults, "\n"), want) {
					t.Errorf("%q does not say %q", f.Faults, want)
				}
			}
			if c.faults == "" && len(f.Faults) > 0 {
				t.Errorf("%q", f.Faults)
			}
		})
	}
}

func TestChanged(t *testing.T) {
	known := []Cable{{"e0", "i0"}, {"e1", "i1"}}
	for _, c := range []struct {
		now  []Cable
		want []string
	}{
		{known, nil},
		{[]Cable{{"e0", "i1"}, {"e1", "i0"}}, []string{"swapped: cable e0=i0", "swapped: cable e1=i1"}},
		{[]Cable{{"e0", "i0"}}, []string{"missing: cable e1=i1"}},
		{[]Cable{{"e0", "i0"}, {"e1", "i2"}}, []string{"moved: cable e1=i1 was known, and now there is e1=i2"}},
	} {
		got := Changed(known, c.now)
		if !slices.EqualFunc(got, c.want, strings.HasPrefix) {
			t.Errorf("%v: %q, want %q", c.now, got, c.want)
		}
	}
}

// A mark of another search, or another program, is none.
func TestParse(t *testing.T) {
	s, other := &Search{nonce: "abc", side: Box}, &Search{nonce: "abd"}
	b := s.mark(Port{Name: "eth0"})
	if side, port, ok := s.parse(b); !ok || side != Box || port != "eth0" || len(b) != 60 {
		t.Errorf("%s, %s, %v", side, port, ok)
	}
	if _, _, ok := other.parse(b); ok {
		t.Error("a mark of another search is taken")
	}
	for n := range 40 { // cut off anywhere
		if _, _, ok := s.parse(b[:n]); ok {
			t.Errorf("%d octets are taken for a mark", n)
		}
	}
}

// Two namespaces, three cables: one with an address for benchmarks, one with somebody's,
// and one that is down. All is as it was afterwards.
func TestSearch(t *testing.T) {
	testutil.Privileged(t)
	testutil.NoLeaks(t)
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	var ns [2]*netns.Namespace
	for i := range ns {
		var err error
		if ns[i], err = netns.New(); err != nil {
			t.Fatal(err)
		}
		defer ns[i].Close()
	}
	err := netns.Do(ns[0].Path(), func() error {
		for _, n := range []string{"0", "1", "2"} {
			attrs := netlink.NewLinkAttrs()
			attrs.Name = "e" + n
			if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "i" + n, PeerNamespace: netlink.NsFd(ns[1].Fd())}); err != nil {
				return err
			}
		}
		for name, cidr := range map[string]string{"e0": "198.18.0.7/24", "e1": "192.168.7.1/24"} {
			l, err := netlink.LinkByName(name)
			if err != nil {
				return err
			}
			a, err := netlink.ParseAddr(cidr)
			if err != nil {
				return err
			}
			if err := netlink.AddrAdd(l, a); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	state := func() (all []Port) {
		for _, n := range ns {
			p, err := Ports(n.Path())
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, p...)
		}
		return all
	}
	before := state()
	here, err := Open(t.Context(), ns[0].Path(), "nonce", Tester)
	if err != nil {
		t.Fatal(err)
	}
	defer here.Close()
	there, err := Open(t.Context(), ns[1].Path(), "nonce", Box)
	if err != nil {
		t.Fatal(err)
	}
	defer there.Close()
	var found Found
	for begin := time.Now(); len(found.Cables) < 2 && time.Since(begin) < time.Minute; time.Sleep(20 * time.Millisecond) {
		p, err := here.Ports()
		if err != nil {
			t.Fatal(err)
		}
		q, err := there.Ports()
		if err != nil {
			t.Fatal(err)
		}
		if err := here.Send(); err != nil {
			t.Fatal(err)
		}
		if err := there.Send(); err != nil {
			t.Fatal(err)
		}
		found = Match("box", p, q, here.Heard(), there.Heard())
	}
	if d := cmp.Diff([]Cable{{"e0", "i0"}, {"e2", "i2"}}, found.Cables); d != "" {
		t.Error(d)
	}
	if said := strings.Join(found.Faults, "\n"); !strings.Contains(said, "e1 of this machine has the address 192.168.7.1/24") {
		t.Error(said)
	}
	if err := here.Close(); err != nil {
		t.Error(err)
	}
	if err := there.Close(); err != nil {
		t.Error(err)
	}
	if d := cmp.Diff(before, state(), cmp.AllowUnexported(Port{})); d != "" {
		t.Error(d)
	}
}
