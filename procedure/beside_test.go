// SPDX-License-Identifier: Apache-2.0

package procedure

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"

	"boxdyno/host"
	"boxdyno/internal/testutil"
	"boxdyno/lab"
	"boxdyno/result"
)

func TestBesideForms(t *testing.T) {
	var load SideLoad
	var cpus SideCPUs
	var heat Heat
	for _, c := range []struct {
		v         flag.Value
		text, has string // "": refused
	}{
		{&load, "none", "none"}, {&load, "cpu:1", "cpu:1"}, {&load, "cpu:2@50%", "cpu:2@50%"}, {&load, "cpu:2@50", "cpu:2@50%"}, {&load, "cpu:3@100%", "cpu:3"},
		{&load, "memory:512M", "memory:512M"}, {&load, "memory:2048M", "memory:2G"}, {&load, "disk:/var//tmp/", "disk:/var/tmp"},
		{&load, "", ""}, {&load, "cpu", ""}, {&load, "cpu:0", ""}, {&load, "cpu:5000", ""}, {&load, "cpu:1@", ""}, {&load, "cpu:1@0%", ""}, {&load, "cpu:1@101%", ""},
		{&load, "memory:512", ""}, {&load, "memory:M", ""}, {&load, "memory:1MM", ""}, {&load, "memory:0M", ""}, {&load, "disk:tmp", ""}, {&load, "none:1", ""}, {&load, "gpu:1", ""},
		{&cpus, "auto", "auto"}, {&cpus, "any", "any"}, {&cpus, "0+2-3", "0+2-3"}, {&cpus, "3-2", ""}, {&cpus, "a", ""}, {&cpus, "1+", ""}, {&cpus, "9999", ""},
		{&heat, "0", "0"}, {&heat, "0s", "0"}, {&heat, "10m", "10m"}, {&heat, "600s", "10m"}, {&heat, "90s", "1m30s"}, {&heat, "2h", "2h"}, {&heat, "1h30m", "1h30m"}, {&heat, "steady", "steady"},
		{&heat, "500ms", ""}, {&heat, "25h", ""}, {&heat, "-1m", ""}, {&heat, "hot", ""},
	} {
		before := c.v.String()
		err := c.v.Set(c.text)
		switch {
		case c.has == "" && err == nil:
			t.Errorf("%T takes %q", c.v, c.text)
		case c.has == "" && (c.v.String() != before || !strings.Contains(err.Error(), fmt.Sprintf("%q", c.text))):
			t.Errorf("%T after %q: %s, %v", c.v, c.text, c.v, err)
		case c.has != "" && (err != nil || c.v.String() != c.has):
			t.Errorf("%T makes %q of %q: %v", c.v, c.v, c.text, err)
		}
	}
	if err := cpus.Set("0+2-3+2"); err != nil || !slices.Equal(cpus.list, []int{0, 2, 3}) {
		t.Errorf("0+2-3+2 are the CPUs %v (%v)", cpus.list, err)
	}
}

func TestBesideCheck(t *testing.T) {
	split := &lab.Testbed{Facts: lab.Facts{Topology: "sandbox", Kind: "sandbox", Placement: "split", TesterCPU: 0, DUTCPUs: []int{1}}, DUT: &host.Local{}}
	shared := &lab.Testbed{Facts: lab.Facts{Topology: "sandbox", Kind: "sandbox", Placement: "shared", TesterCPU: 0, DUTCPUs: []int{0}}, DUT: &host.Local{}}
	memory := &lab.Testbed{Facts: lab.Facts{Topology: "mem", Kind: "memory", TesterCPU: -1}}
	box := &lab.Testbed{Facts: lab.Facts{Topology: "wire2", Kind: "real", TesterCPU: -1}}
	set := func(pairs ...string) []result.Pair {
		cfg := []result.Pair{{Key: "service", Value: "route"}}
		for _, p := range pairs {
			k, v, _ := strings.Cut(p, "=")
			cfg = append(cfg, result.Pair{Key: k, Value: v})
		}
		return cfg
	}
	testutil.FakeStress(t) // a stress-ng
	mine, err := host.AllowedCPUs()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		bed  *lab.Testbed
		cfg  []result.Pair
		want string // "": accepted
		on   []int
	}{
		{nil, set("beside=cpu:1"), "", nil},
		{split, set("beside=cpu:1"), "", []int{1}},
		{shared, set("beside=cpu:1"), "", []int{0}},
		{memory, set("beside=cpu:1"), "", nil},
		{memory, set("beside=cpu:1", fmt.Sprintf("beside_cpus=%d", mine[0])), "", mine[:1]},
		{memory, set("beside=cpu:1", fmt.Sprintf("beside_cpus=%d+4000", mine[0])), "use some of", []int{mine[0], 4000}},
		{split, set("beside=cpu:1", "beside_cpus=any"), "tester sends from CPU 0", nil},
		{split, set("beside=cpu:1", "beside_cpus=0-1"), "tester sends from CPU 0", []int{0, 1}},
		{box, set("beside=none", "heat=0"), "", nil},
		{memory, set("beside_cpus=1"), "nothing runs beside", []int{1}},
		{memory, set("beside=memory:900000G"), "are available", nil},
		{memory, set("beside=disk:/does/not/exist"), "no such file", nil},
		{memory, set("beside=disk:/proc/version"), "no folder", nil},
		{memory, set("beside=disk:" + t.TempDir()), "", nil},
	} {
		b, said, err := ParseBeside(c.cfg)
		if err != nil || !said {
			t.Fatal(c.cfg, said, err)
		}
		if err := b.check(c.bed); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, and want %q", c.cfg, err, c.want)
		}
		if c.bed != nil && !slices.Equal(b.CPUs.on(c.bed), c.on) {
			t.Errorf("%v runs on CPUs %v, not %v", c.cfg, b.CPUs.on(c.bed), c.on)
		}
	}
	if _, said, err := ParseBeside(set()); said || err != nil {
		t.Errorf("settings without it: %v, %v", said, err)
	}
	if _, _, err := ParseBeside(set("heat=hot")); err == nil || !strings.Contains(err.Error(), "heat: ") {
		t.Errorf("heat=hot: %v", err)
	}
	t.Setenv("PATH", t.TempDir())
	for _, cfg := range [][]result.Pair{set("beside=cpu:1"), set("heat=10m")} {
		b, _, _ := ParseBeside(cfg)
		var missing *host.Missing
		if err := b.check(memory); !errors.As(err, &missing) {
			t.Errorf("%v without stress-ng: %v", cfg, err)
		}
	}
}
