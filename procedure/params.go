// SPDX-License-Identifier: Apache-2.0

package procedure

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"boxdyno/frame"
)

// A choice is a parameter with a closed set of values.
type choice struct {
	value  string
	values []string
}

func (c *choice) String() string { return c.value }

// Values lists what Set takes; help and the plan's schema show it.
func (c *choice) Values() []string { return c.values }

func (c *choice) Set(s string) error {
	if !slices.Contains(c.values, s) {
		return fmt.Errorf("%q is not one of %s", s, strings.Join(c.values, ", "))
	}
	c.value = s
	return nil
}

// A mixFlag is a frame size or the name of a mix.
type mixFlag struct{ frame.Mix }

func (m *mixFlag) String() string { return m.Name }

func (m *mixFlag) Set(s string) error {
	mix, err := frame.ParseMix(s)
	if err == nil {
		m.Mix = mix
	}
	return err
}

// A count is an integer parameter within a range.
type count struct{ value, least, most int }

func (c *count) String() string { return strconv.Itoa(c.value) }

func (c *count) Set(s string) error {
	n, err := strconv.Atoi(s)
	if err != nil || n < c.least || n > c.most {
		return fmt.Errorf("%q is not a whole number from %d to %d", s, c.least, c.most)
	}
	c.value = n
	return nil
}

var (
	ipVersions = []string{"4", "6"}
	presets    = []string{"quick", "standard"}
)

func ipText(ipv6 bool) string {
	if ipv6 {
		return "6"
	}
	return "4"
}

// An effort is how long and how often a preset measures.
type effort struct {
	selfTest  time.Duration
	warmUp    time.Duration
	overload  time.Duration
	overloads int // a visit
	latency   time.Duration
	settle    time.Duration // least wait after traffic
}

func effortOf(preset string) effort {
	if preset == "standard" {
		return effort{selfTest: 10 * time.Second, warmUp: 5 * time.Second, overload: 10 * time.Second, overloads: 2, latency: 20 * time.Second, settle: 2 * time.Second}
	}
	return effort{selfTest: 200 * time.Millisecond, warmUp: 100 * time.Millisecond, overload: 50 * time.Millisecond, overloads: 2, latency: 100 * time.Millisecond}
}
