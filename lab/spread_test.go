// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"

	"boxdyno/internal/netns"
	"boxdyno/internal/testutil"
	"boxdyno/result"
)

func TestMoreCPUs(t *testing.T) {
	eight := machine("0", "1", "2", "3", "4", "5", "6", "7")
	for _, c := range []struct {
		name string
		at   place
		cpus []int
		sys  fs.FS
		want []int
	}{
		{"two: none is left", place{split, 0, 1, false}, []int{0, 1}, machine("0", "1"), nil},
		{"four", place{split, 2, 3, false}, []int{0, 1, 2, 3}, machine("0", "1", "2", "3"), []int{0, 1}},
		{"not the tester's core", place{split, 1, 3, false}, []int{0, 1, 2, 3}, machine("0-1", "0-1", "2-3", "2-3"), []int{2}},
		{"only those allowed", place{split, 5, 7, false}, []int{1, 5, 7}, eight, []int{1}},
		{"shared: none", place{shared, 3, 3, false}, []int{0, 1, 2, 3}, eight, nil},
	} {
		if got := moreCPUs(c.at, c.cpus, c.sys); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	if got := result.Get(spreadSettings(place{split, 2, 3, false}, []int{0, 1}), "dut_cpus_all"); got != "3,0,1" {
		t.Errorf("the record has %q", got)
	}
}

func TestCPUMask(t *testing.T) {
	for want, cpus := range map[string][]int{
		"00000000": nil, "00000001": {0}, "0000000a": {1, 3}, "00000001,00000000": {32}, "80000000,00000000,00000001": {95, 0},
	} {
		if got := cpuMask(cpus); got != want {
			t.Errorf("%v: %s, want %s", cpus, got, want)
		}
	}
}

// A service that asks for all CPUs has flows handed to them at both ports, and the next one
// that does not has them back.
func TestSpread(t *testing.T) {
	testutil.Privileged(t)
	dut, err := newSpace("dut", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer dut.close()
	tester, err := newSpace("tester", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tester.close()
	for _, sd := range sides {
		if err := cable(end{tester, sd.tester, sd.testerMAC}, end{dut, sd.dut, sd.dutMAC}, 1500); err != nil {
			t.Fatal(err)
		}
	}
	v := &services{dut: dut, cpu: 0, more: []int{1}, senders: []int{1}}
	for _, c := range []struct {
		all     bool
		senders int // beside the first
		want    uint64
	}{{false, 0, 0}, {true, 0, 3}, {true, 0, 3}, {true, 1, 1}, {false, 1, 0}} {
		if err := v.spread(Service{AllCPUs: c.all, Senders: c.senders}); err != nil {
			t.Fatal(err)
		}
		for _, sd := range sides {
			err := netns.DoSys(dut.Netns, func(sys *os.Root) error {
				b, err := sys.ReadFile("class/net/" + sd.dut + "/queues/rx-0/rps_cpus")
				digits := strings.TrimLeft(strings.ReplaceAll(strings.TrimSpace(string(b)), ",", ""), "0")
				if want := map[uint64]string{0: "", 1: "1", 3: "3"}[c.want]; digits != want {
					t.Errorf("all %v: %s has %q, want %q", c.all, sd.dut, b, want)
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := dut.spread("none", []int{0}); err == nil {
		t.Error("a port that is not there is spread")
	}
}
