// SPDX-License-Identifier: Apache-2.0

package host

import (
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"boxdyno/result"
	"boxdyno/unit"
)

func machine(t *testing.T, name string) fstest.MapFS {
	t.Helper()
	a, err := txtar.ParseFile("testdata/machines/" + name + ".txtar")
	if err != nil {
		t.Fatal(err)
	}
	m := fstest.MapFS{}
	for _, f := range a.Files {
		m[f.Name] = &fstest.MapFile{Data: f.Data[:len(f.Data)-1]} // the archive ends each with a new line
	}
	return m
}

// TestSetup has what the machines of testdata/machines/README say, and nothing of
// what they do not have.
func TestSetup(t *testing.T) {
	pair := func(k, v string) result.Pair { return result.Pair{Key: k, Value: v} }
	for name, want := range map[string][]result.Pair{
		"vm": {pair("microcode", "0x1"), pair("width", "kernel 64 bit, programs 64 bit"), pair("clock claimed", "2.30 GHz"), pair("idle states", "haltpoll: POLL haltpoll idle"),
			pair("huge pages", "0"), pair("swap", "none"), pair("irqbalance", "not running"), pair("time daemon", "none")},
		"pi5": {pair("firmware", "boot loader bd4a5c3e"), pair("device tree", "raspberrypi,5-model-b brcm,bcm2712"), pair("width", "kernel 64 bit, programs 32 bit"),
			pair("scaling driver", "cpufreq-dt"), pair("clock claimed", "1.50 to 2.40 GHz"), pair("idle states", "psci_idle: WFI"), pair("huge pages", "0"),
			pair("swap", "511 MiB on /var/swap"), pair("swap used", "0 MiB"), pair("power supply", "offers 3000 mA"), pair("irqbalance", "not running"), pair("time daemon", "systemd-timesyn")},
		"minipc": {pair("firmware", "American Megatrends International, LLC. 1.26 03/14/2024"), pair("microcode", "0x17"), pair("width", "kernel 64 bit, programs 64 bit"),
			pair("scaling driver", "intel_pstate"), pair("clock claimed", "0.80 GHz"), pair("package throttle events", "10"), pair("idle states", "intel_idle: POLL C1E [C10]"),
			pair("huge pages", "64"), pair("swap", "976 MiB on /dev/nvme0n1p3"), pair("swap used", "51 MiB"), pair("power supply", "AC offline, BAT0 discharging"),
			pair("irqbalance", "running"), pair("time daemon", "chronyd")},
	} {
		if diff := cmp.Diff(want, setup(machine(t, name))); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	if got := setup(fstest.MapFS{}); len(got) != 0 {
		t.Errorf("a machine without files has %v", got)
	}
}

// TestConditions holds the machines and some ports against the table: each of its
// rows is met at least once, and none where nothing is wrong.
func TestConditions(t *testing.T) {
	met := map[string]bool{}
	for name, c := range map[string]struct {
		env  []result.Pair
		use  Use
		want []string
	}{
		"vm":  {env: environment(machine(t, "vm"))},
		"pi5": {env: environment(machine(t, "pi5")), want: []string{"power supply", "width"}},
		"minipc": {env: environment(machine(t, "minipc")),
			want: []string{"governor", "throttle events", "package throttle events", "swap used", "irqbalance", "power supply"}},
		"good port": {env: []result.Pair{{Key: "eth0 speed", Value: "1.00 Gbit/s"}, {Key: "eth0 duplex", Value: "full"}, {Key: "eth0 EEE", Value: "off"},
			{Key: "eth0 pause", Value: "rx off, tx off, autonegotiation on"}, {Key: "throttle flags", Value: "none"}}, use: Use{Latency: true, Load: true, LinkRate: 1e9}},
		"bad port": {env: []result.Pair{{Key: "eth0 speed", Value: "100 Mbit/s"}, {Key: "eth0 duplex", Value: "half"}, {Key: "eth0 EEE", Value: "on"},
			{Key: "eth0 pause", Value: "rx off, tx on, autonegotiation on"}, {Key: "eth0 also", Value: "carries the default route"}}, use: Use{Latency: true, Load: true, LinkRate: 1e9},
			want: []string{"eth0 duplex", "eth0 speed", "eth0 EEE", "eth0 pause", "eth0 also"}},
		"bad port that nobody minds":  {env: []result.Pair{{Key: "eth0 speed", Value: "100 Mbit/s"}, {Key: "eth0 EEE", Value: "on"}, {Key: "eth0 pause", Value: "rx on, tx on, autonegotiation on"}}},
		"throttling Pi":               {env: []result.Pair{{Key: "throttle flags", Value: "throttled now, throttling has occurred"}}, want: []string{"throttle flags"}},
		"sessions first":              {env: []result.Pair{{Key: BySession, Value: "1"}}, use: Use{Beside: true}, want: []string{BySession}},
		"no session first":            {env: []result.Pair{{Key: BySession, Value: "0"}}, use: Use{Beside: true}},
		"sessions first, none beside": {env: []result.Pair{{Key: BySession, Value: "1"}}, use: Use{Latency: true, Load: true}},
		"Pi that was throttled":       {env: []result.Pair{{Key: "throttle flags", Value: "under-voltage has occurred"}}, want: []string{"throttle flags"}},
	} {
		var got []string
		for _, k := range Concerns(c.env, c.use) {
			got = append(got, k.Key)
			met[k.Condition] = true
			if k.Sentence == "" || k.Remedy == "" {
				t.Errorf("%s: %+v says nothing", name, k)
			}
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	for _, c := range Conditions {
		if !met[c.Name] {
			t.Errorf("nobody has seen %q", c.Name)
		}
	}
	k := Concerns([]result.Pair{{Key: "eth7 speed", Value: "100 Mbit/s"}}, Use{LinkRate: unit.BitRate(1e9)})
	if len(k) != 1 || k[0].String() != "port eth7 runs at 100 Mbit/s, slower than the plan's link_rate; if you can: check the cable and both ends (ethtool eth7)" {
		t.Errorf("%v", k)
	}
}

// Older bundles have the keys that there were before, in their order, at the front.
func TestEnvironmentKeepsItsOrder(t *testing.T) {
	env := environment(machine(t, "minipc"))
	if env[0].Key != "governor" || env[1].Key != "throttle events" || env[2].Key != "firmware" {
		t.Errorf("%v", env)
	}
}
