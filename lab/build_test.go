// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"regexp"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"boxdyno/host"
)

func TestFlags(t *testing.T) {
	for _, c := range []struct {
		args []string
		ok   bool
		want sandbox
	}{
		{nil, true, sandbox{mtu: 1500, plant: Plant{LossSeed: 1, Fault: "none"}}},
		{[]string{"-placement=shared", "-mtu=1280", "-link_rate=1Gbps"}, true, sandbox{"shared", 1280, 1e9, Plant{LossSeed: 1, Fault: "none"}}},
		{[]string{"-dut.policer=187k", "-dut.policer_burst=50", "-dut.shaper=100Mbps", "-dut.shaper_queue=9000", "-dut.loss=burst:10/100000", "-dut.loss_seed=7", "-dut.fault=rp-filter"}, true,
			sandbox{mtu: 1500, plant: Plant{Policer: 187e3, PolicerBurst: 50, Shaper: 100e6, ShaperQueue: 9000, Loss: LossPattern{Period: 100_000, Run: 10}, LossSeed: 7, Fault: "rp-filter"}}},
		{[]string{"-dut.policer=0.5"}, false, sandbox{}},
		{[]string{"-dut.policer=1G"}, false, sandbox{}},
		{[]string{"-dut.policer_burst=-1"}, false, sandbox{}},
		{[]string{"-dut.shaper=1"}, false, sandbox{}},
		{[]string{"-dut.loss=every:0"}, false, sandbox{}},
		{[]string{"-placement=both"}, false, sandbox{}},
		{[]string{"-placement="}, false, sandbox{}},
		{[]string{"-mtu=1279"}, false, sandbox{}},
		{[]string{"-mtu=3395"}, false, sandbox{}},
		{[]string{"-mtu=x"}, false, sandbox{}},
		{[]string{"-link_rate=0"}, false, sandbox{}},
	} {
		s := newSandbox().(*sandbox)
		fs := flag.NewFlagSet("sandbox", flag.ContinueOnError)
		fs.SetOutput(io.Discard)
		s.Flags(fs)
		err := fs.Parse(c.args)
		if (err == nil) != c.ok || c.ok && *s != c.want {
			t.Errorf("%v: got %+v, %v", c.args, *s, err)
		}
	}
}

func TestPermit(t *testing.T) {
	var missing *host.Missing
	for _, e := range []error{unix.EPERM, unix.EACCES} {
		if err := host.Permit("build", fmt.Errorf("make: %w", e)); !errors.As(err, &missing) {
			t.Errorf("%v became %v, want a *host.Missing", e, err)
		}
	}
	other := errors.New("other")
	if err := host.Permit("build", other); err != other {
		t.Errorf("an other error became %v", err)
	}
	nft := &host.Missing{What: "the program nft"}
	if err := host.Permit("build", errors.Join(nft, unix.EPERM)); !errors.As(err, &missing) || missing != nft {
		t.Errorf("a *host.Missing became %v", err)
	}
}

func TestCleanup(t *testing.T) {
	var c cleanup
	var order []int
	failed := errors.New("failed")
	for i := range 3 {
		c.add(func() error {
			order = append(order, i)
			if i == 1 {
				return failed
			}
			return nil
		})
	}
	if err := c.close(); !errors.Is(err, failed) || !slices.Equal(order, []int{2, 1, 0}) {
		t.Errorf("got order %v, %v", order, err)
	}
	if err := c.close(); err != nil || len(order) != 3 {
		t.Errorf("closed twice: %v, %v", order, err)
	}
}

func TestServicesAreThose(t *testing.T) {
	var kinds []string
	for _, s := range allServices {
		kinds = append(kinds, s.kind)
	}
	if !slices.Equal(kinds, append(slices.Clone(Services), Listening)) {
		t.Errorf("Services says %v and the table has %v", Services, kinds)
	}
}

// Every parameter whose words are run is known: those that a stranger wrote are refused.
func TestCommandsAreKnown(t *testing.T) {
	run := regexp.MustCompile(`ssh|command|program`)
	var found []string
	for _, s := range All {
		fs := flag.NewFlagSet(s.Name, flag.ContinueOnError)
		s.New().Flags(fs)
		fs.VisitAll(func(f *flag.Flag) {
			if run.MatchString(f.Name) && !slices.Contains(found, f.Name) {
				found = append(found, f.Name)
			}
		})
	}
	slices.Sort(found)
	if want := slices.Sorted(slices.Values(Commands)); !slices.Equal(found, want) {
		t.Errorf("topologies run the words of %v, and Commands are %v", found, want)
	}
}
