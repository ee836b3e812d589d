// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"io/fs"
	"slices"
	"strings"
	"testing"

	"boxdyno/host"
	"boxdyno/internal/ethtool"
	"boxdyno/internal/testutil"
	"boxdyno/lab"
	"boxdyno/result"
)

// TestChangedPort switches an offload of a testbed's port off while a run lasts, as
// ethtool -K does: a warning says so.
func TestChangedPort(t *testing.T) {
	testutil.Privileged(t)
	i := slices.IndexFunc(lab.All, func(s lab.Spec) bool { return s.Name == "loop" })
	bed, err := lab.All[i].New().Build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { bed.Close() })
	f := &fake{}
	c := f.catalogue()
	x := &execution{o: Options{Catalogue: c, Notify: func(Event) {}}, bed: bed, plan: resolved(t, c, twoByTwo)}
	x.header()
	port := bed.Ports[0].Port
	key := port.Name + " offloads"
	was := result.Get(x.run.Environments[0], key)
	if was == "" || result.Get(x.run.Environments[0], port.Name+" driver") == "" {
		t.Fatalf("the record has nothing of port %s: %v", port.Name, x.run.Environments[0])
	}
	warned := func() []string {
		return slices.DeleteFunc(slices.Clone(x.run.Warnings), func(w string) bool { return !strings.Contains(w, port.Name+" ") })
	}
	before := len(warned())
	err = (&host.Local{Netns: port.Netns}).View(func(fs.FS) error {
		e, err := ethtool.Open()
		if err != nil {
			return err
		}
		defer e.Close()
		features, err := e.Features(port.Name)
		if err != nil {
			return err
		}
		return e.SetFeatures(port.Name, map[string]bool{"tx-scatter-gather": !features["tx-scatter-gather"].Active})
	})
	if err != nil {
		t.Fatal(err)
	}
	x.after()
	now := warned()
	if len(now) != before+1 || !strings.HasPrefix(now[before], "while the run lasted "+key+` changed from "`+was+`" to "`) {
		t.Errorf("want one more warning, of %s: %q", key, now)
	}
	if got := result.Get(x.run.Environments[1], key); got == was || got == "" {
		t.Errorf("%s is %q after the change", key, got)
	}
}

// A busy machine that deals CPU time by session is warned of with the remedy: without it the
// sender's precedence is little worth.
func TestNotIdle(t *testing.T) {
	for by, remedy := range map[string]bool{"1": true, "0": false, "": false} {
		text := notIdle("before", 0.5, []result.Pair{{Key: host.BySession, Value: by}})
		if !strings.Contains(text, "before the run: its CPUs were 50.0 % busy") || strings.Contains(text, "sched_autogroup_enabled=0") != remedy {
			t.Errorf("by session %q: %s", by, text)
		}
	}
}

// What is bad is said once, and after the run only what was not so before.
func TestConcernsAreSaidOnce(t *testing.T) {
	x := &execution{o: Options{Notify: func(Event) {}, Catalogue: (&fake{}).catalogue()}, bed: &lab.Testbed{Facts: lab.Facts{Kind: "real"}}}
	calm := []result.Pair{{Key: "governor", Value: "powersave"}}
	x.concerns(calm, "")
	x.concerns(append(calm, result.Pair{Key: "throttle events", Value: "3"}), "after the run: ")
	if w := x.run.Warnings; len(w) != 2 || !strings.HasPrefix(w[0], "the governor is powersave") || !strings.HasPrefix(w[1], "after the run: CPUs slowed down for heat 3 times") {
		t.Errorf("%q", w)
	}
	x = &execution{o: x.o, bed: &lab.Testbed{Facts: lab.Facts{Kind: "memory"}}}
	if x.concerns(calm, ""); len(x.run.Warnings) != 0 {
		t.Errorf("nothing is measured in memory: %q", x.run.Warnings)
	}
}

// Values that move by themselves are no changes of a setting.
func TestDriftIsNoChange(t *testing.T) {
	before := []result.Pair{{Key: "clock measured", Value: "2.40 GHz"}, {Key: "swap used", Value: "0 MiB"}, {Key: "irqbalance", Value: "not running"}}
	after := []result.Pair{{Key: "clock measured", Value: "1.50 GHz"}, {Key: "swap used", Value: "9 MiB"}, {Key: "irqbalance", Value: "running"}}
	if c := changes(before, after); len(c) != 1 || c[0] != `irqbalance changed from "not running" to "running"` {
		t.Errorf("%q", c)
	}
}

// What a plan asks of a machine follows from its procedures and its link.
func TestUse(t *testing.T) {
	p := Plan{Procedures: []Entry{{Use: "latency"}}}
	x := &execution{o: Options{Catalogue: Plugins()}, plan: p, bed: &lab.Testbed{Facts: lab.Facts{Ports: []lab.Port{{Link: 1e9}}}}}
	if u := x.use(); !u.Latency || !u.Load || u.LinkRate != 1e9 {
		t.Errorf("latency: %+v", u)
	}
	x.plan.Procedures[0].Use = "self-test"
	if u := x.use(); u.Latency || !u.Load {
		t.Errorf("self-test: %+v", u)
	}
}

// Doctor shows the conditions that a machine can answer, each once or for each port
// that meets it, with the remedy.
func TestDiagnoseSettings(t *testing.T) {
	ds := diagnoseSettings([]result.Pair{{Key: "governor", Value: "performance"}, {Key: "eth0 EEE", Value: "on"}, {Key: "eth1 EEE", Value: "on"}, {Key: "eth2 EEE", Value: "off"}})
	var got []string
	for _, d := range ds {
		got = append(got, string(d.Answer)+" "+d.Name+": "+d.Detail)
	}
	if len(got) != 3 || !strings.Contains(got[0], "ethtool --set-eee eth0 eee off") || !strings.HasPrefix(got[1], "no energy-efficient Ethernet: port eth1") ||
		got[2] != "ok governor: performance" {
		t.Errorf("%q", got)
	}
}
