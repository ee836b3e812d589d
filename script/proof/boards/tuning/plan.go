// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"

	"boxdyno/result"
	"boxdyno/tune"
)

// A step is one line of a recipe and what shall become of it.
type step struct {
	knob, value string
	got         string // what is read back; "": value
	problem     string // part of what is said about it; "": nothing
}

func (s step) want() string {
	if s.got != "" {
		return s.got
	}
	return s.value
}

// A plan is for one driver: turned is what it has, odd what it rounds or refuses.
type plan struct{ turned, odd []step }

// What every NIC here takes.
var everyNIC = []step{
	{knob: "gro", value: "off"},
	{knob: "gso", value: "off"},
	{knob: "txqueuelen", value: "500"},
	{knob: "rps", value: "2"},
	{knob: "irq-affinity", value: "1"},
}

// By Debian's Linux 6.1, drivers/net, on QEMU's models; what is odd is the drivers'
// own: e1000e has rings of multiples of 8 descriptors and interrupts at least 4 us
// apart, virtio rings of powers of two.
var plans = map[string]plan{
	"e1000e": {
		turned: append([]step{
			{knob: "rings", value: "rx=512 tx=1024"},
			{knob: "coalesce", value: "rx-usecs=300"},
			{knob: "pause", value: "autoneg=off rx=off tx=off"},
			{knob: "tso", value: "off"},
			{knob: "rx-checksum", value: "off"},
			{knob: "rx-vlan", value: "off"},
			{knob: "rx-hash", value: "off"},
			{knob: "mtu", value: "4000"},
		}, everyNIC...),
		odd: []step{
			{knob: "rings", value: "rx=100", got: "rx=104 tx=256", problem: "the driver made rx=104 tx=256 of rx=100 tx=256"},
			{knob: "rings", value: "rx=9999", got: "rx=256 tx=256", problem: "at most 4096"},
			{knob: "coalesce", value: "rx-usecs=5", got: "rx-usecs=3", problem: "invalid argument"},
			{knob: "channels", value: "combined=2", problem: "not supported"},
			{knob: "eee", value: "off", problem: "not supported"},
		},
	},
	"virtio_net": {
		turned: append([]step{
			{knob: "rings", value: "rx=128 tx=64"},
			{knob: "channels", value: "combined=1"},
			{knob: "tso", value: "off"},
			{knob: "mtu", value: "1400"},
		}, everyNIC...),
		odd: []step{
			{knob: "rings", value: "rx=100", got: "rx=256 tx=256", problem: "cannot allocate memory"},
			{knob: "rings", value: "rx=9999", got: "rx=256 tx=256", problem: "at most 256"},
			{knob: "coalesce", value: "rx-usecs=50", got: "rx-frames=1 tx-frames=1", problem: "not supported"},
			{knob: "pause", value: "rx=off", problem: "not supported"},
			{knob: "rx-vlan-filter", value: "off", got: "on", problem: "it is fixed at on"},
		},
	},
	"vmxnet3": {
		turned: append([]step{
			{knob: "rings", value: "rx=512 tx=1024", got: "rx=512 tx=1024 rx-jumbo=512"},
			{knob: "tso", value: "off"},
			{knob: "mtu", value: "3000"},
		}, everyNIC...),
		odd: []step{
			{knob: "rings", value: "rx=100", got: "rx=128 tx=512 rx-jumbo=512", problem: "the driver made"},
		},
	},
	"igb": {
		turned: append([]step{
			{knob: "rings", value: "rx=512 tx=1024"},
			{knob: "channels", value: "combined=1"},
			{knob: "coalesce", value: "rx-usecs=300"},
			{knob: "pause", value: "autoneg=off rx=off tx=off"},
			{knob: "tso", value: "off"},
			{knob: "mtu", value: "4000"},
		}, everyNIC...),
		odd: []step{
			{knob: "rings", value: "rx=9999", problem: "at most 4096"},
		},
	},
}

// answers says which steps did not become what they should; settings are those of steps.
func answers(steps []step, settings []result.Setting) (problems []string) {
	for i, s := range steps {
		got := settings[i]
		switch {
		case s.problem == "" && got.Problem != "":
			problems = append(problems, fmt.Sprintf("%s %s: %s", s.knob, s.value, got.Problem))
		case s.problem == "" && got.Before == got.Got:
			problems = append(problems, fmt.Sprintf("%s was %s already: this proves nothing", s.knob, got.Got))
		case !strings.Contains(got.Problem, s.problem):
			problems = append(problems, fmt.Sprintf("%s %s: it says %q, and should say %q", s.knob, s.value, got.Problem, s.problem))
		case got.Got != s.want() && (s.problem == "" || s.got != ""):
			problems = append(problems, fmt.Sprintf("%s %s: it reads %q, and should read %q", s.knob, s.value, got.Got, s.want()))
		}
	}
	return problems
}

// stands says what tune status does not list as applied by hand and unchanged.
func stands(steps []step, standing []tune.Standing) (problems []string) {
	if len(standing) != len(steps) {
		problems = append(problems, fmt.Sprintf("%d settings stand, and %d were applied", len(standing), len(steps)))
	}
	for i, s := range standing[:min(len(standing), len(steps))] {
		if s.Knob != steps[i].knob || s.State != "held" || s.Now != steps[i].want() || s.Problem != "" {
			problems = append(problems, fmt.Sprintf("%s is %s at %s: %s", s.Knob, s.State, s.Now, s.Problem))
		}
	}
	return problems
}
