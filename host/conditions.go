// SPDX-License-Identifier: Apache-2.0

package host

import (
	"strconv"
	"strings"

	"boxdyno/result"
	"boxdyno/unit"
)

// A Use is what a run wants of a machine, for conditions that are bad for some
// runs only. The zero value is nothing in particular.
type Use struct {
	Latency  bool         // delays are measured
	Load     bool         // frames are offered, as RFC 2544 has it
	LinkRate unit.BitRate // at which a port must run; 0: nobody said
	Beside   bool         // other programs may work meanwhile
}

// A Condition is a state of a machine that is bad for measuring, by a pair of its
// environment.
type Condition struct {
	Name     string // for doctor, in a few words
	Key      string // of the pair; " speed" is that of every port
	Bad      func(value string, u Use) bool
	Sentence string // $1 is the port, $2 the value
	Remedy   string // $1 is the port; after "if you can:"
}

func is(words ...string) func(string, Use) bool {
	return func(v string, _ Use) bool {
		for _, w := range words {
			if strings.Contains(v, w) {
				return true
			}
		}
		return false
	}
}

func some(v string, _ Use) bool { n, _ := strconv.Atoi(strings.TrimSuffix(v, " MiB")); return n > 0 }

// Conditions are looked for before a run and after it.
var Conditions = []Condition{
	{"full duplex", " duplex", is("half"),
		"port $1 runs at half duplex: frames collide", "let both ends negotiate (ethtool -s $1 autoneg on)"},
	{"link speed", " speed", func(v string, u Use) bool { r, err := unit.ParseBitRate(v); return err == nil && r < u.LinkRate },
		"port $1 runs at $2, slower than the plan's link_rate", "check the cable and both ends (ethtool $1)"},
	{"energy-efficient Ethernet", " EEE", func(v string, u Use) bool { return v == "on" && u.Latency },
		"port $1 lets its link sleep between frames (EEE), which adds to every delay", "ethtool --set-eee $1 eee off"},
	{"pause frames", " pause", func(v string, u Use) bool {
		return u.Load && (strings.Contains(v, "rx on") || strings.Contains(v, "tx on"))
	},
		"port $1 obeys or sends pause frames ($2): the box can slow the tester down", "ethtool -A $1 autoneg off rx off tx off"},
	{"port for the test alone", " also", func(v string, _ Use) bool { return v != "" },
		"port $1 is not the test's alone: it $2", "measure over another port"},
	{"governor", "governor", is("powersave"),
		"the governor is $2: clocks may stay low, or follow the load late", "cpupower frequency-set -g performance"},
	{"never throttled (x86)", "throttle events", some,
		"CPUs slowed down for heat $2 times since boot", "improve its cooling, and measure from a cold start"},
	{"package never throttled (x86)", "package throttle events", some,
		"the processor slowed down for heat or power $2 times since boot", "check its cooling and power limits, and measure from a cold start"},
	{"never throttled (Raspberry Pi)", "throttle flags", is("now", "occurred"),
		"the firmware says: $2", "use a stronger supply and a fan, and reboot"},
	{"swap not in use", "swap used", some,
		"$2 of swap are in use: memory is short, and pages that come back stall programs", "free memory, then swapoff -a"},
	{"interrupts stay where they are", "irqbalance", func(v string, _ Use) bool { return v == "running" },
		"irqbalance runs: it may move interrupts during a trial", "systemctl stop irqbalance"},
	{"the sender before other programs", BySession, func(v string, u Use) bool { return v == "1" && u.Beside },
		"CPU time goes to sessions first: beside other programs the sender's nice -20 counts only in its own session", "sysctl kernel.sched_autogroup_enabled=0, for programs started afterwards"},
	{"power supply", "power supply", is("discharging", "offline"),
		"the machine may run from its battery ($2), which limits its clocks", "connect the mains"},
	{"supply of a Raspberry Pi 5", "power supply", func(v string, _ Use) bool {
		_, rest, ok := strings.Cut(v, "offers ")
		n, err := strconv.Atoi(strings.TrimSuffix(rest, " mA"))
		return ok && err == nil && n < 5000
	},
		"the power supply $2, and the board wants 5000 mA: its voltage may fall under load", "use a supply of 5 V and 5 A"},
	{"one width", "width", is("kernel 64 bit, programs 32 bit"),
		"the kernel has 64 bit and the programs have 32: they are slower than the board allows", "install the distribution's 64-bit edition"},
}

// A Concern is a condition that holds.
type Concern struct {
	Condition string // its Name
	Key       string // of the pair: "eth0 speed"
	Sentence  string
	Remedy    string
}

func (c Concern) String() string { return c.Sentence + "; if you can: " + c.Remedy }

// Concerns are the conditions that an environment meets, in the table's order.
func Concerns(env []result.Pair, u Use) (out []Concern) {
	for _, c := range Conditions {
		for _, p := range env {
			port, ok := p.Key, p.Key == c.Key
			if strings.HasPrefix(c.Key, " ") {
				port, ok = strings.CutSuffix(p.Key, c.Key)
			}
			if !ok || !c.Bad(p.Value, u) {
				continue
			}
			fill := strings.NewReplacer("$1", port, "$2", p.Value)
			out = append(out, Concern{c.Name, p.Key, fill.Replace(c.Sentence), fill.Replace(c.Remedy)})
		}
	}
	return out
}

// Seen is what an environment says of what a condition asks for: "eth0 full, eth1
// full", or the value alone; "" where it says nothing.
func (c Condition) Seen(env []result.Pair) string {
	var words []string
	for _, p := range env {
		if port, ok := strings.CutSuffix(p.Key, c.Key); ok && strings.HasPrefix(c.Key, " ") {
			words = append(words, port+" "+p.Value)
		} else if p.Key == c.Key {
			words = append(words, p.Value)
		}
	}
	return strings.Join(words, ", ")
}
