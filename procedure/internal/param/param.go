// SPDX-License-Identifier: Apache-2.0

// Package param holds the kinds of parameters that procedures share. Each is a flag.Value.
package param

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"boxdyno/frame"
)

// A Choice is a parameter with a closed set of values.
type Choice struct {
	Value string
	Of    []string
}

// NewChoice returns a choice of the values with its default.
func NewChoice(value string, of []string) Choice { return Choice{value, of} }

func (c *Choice) String() string { return c.Value }

// Values lists what Set takes; help and the plan's schema show it.
func (c *Choice) Values() []string { return c.Of }

// Set implements flag.Value.
func (c *Choice) Set(s string) error {
	if !slices.Contains(c.Of, s) {
		return fmt.Errorf("%q is not one of %s", s, strings.Join(c.Of, ", "))
	}
	c.Value = s
	return nil
}

// A FrameMix is a frame size or the name of a mix.
type FrameMix struct{ frame.Mix }

// FrameMixUsage says what a FrameMix takes.
const FrameMixUsage = "`octets` with FCS, imix (64, 594 and 1518 as 7:4:1), a mix such as 64:7+594:4, or sweep:64-1518:64; at most 64 sizes"

func (m *FrameMix) String() string { return m.Name }

// Set implements flag.Value.
func (m *FrameMix) Set(s string) error {
	mix, err := frame.ParseMix(s)
	if err == nil {
		m.Mix = mix
	}
	return err
}

// A Count is an integer parameter within a range.
type Count struct{ Value, least, most int }

// NewCount returns a count with its default, and the least and the most that Set takes.
func NewCount(value, least, most int) Count { return Count{value, least, most} }

func (c *Count) String() string { return strconv.Itoa(c.Value) }

// Set implements flag.Value.
func (c *Count) Set(s string) error {
	n, err := strconv.Atoi(s)
	if err != nil || n < c.least || n > c.most {
		return fmt.Errorf("%q is not a whole number from %d to %d", s, c.least, c.most)
	}
	c.Value = n
	return nil
}

// A Word is a parameter of free text made of some letters.
type Word struct{ Value, letters string }

// Letters are those of most words.
const Letters = "abcdefghijklmnopqrstuvwxyz0123456789-"

// NewWord returns a word with its default, made of Letters and more.
func NewWord(value, more string) Word { return Word{value, Letters + more} }

func (w *Word) String() string { return w.Value }

// Set implements flag.Value.
func (w *Word) Set(s string) error {
	if s == "" || strings.Trim(s, w.letters) != "" {
		return fmt.Errorf("%q is not made of small letters, digits and hyphens", s)
	}
	w.Value = s
	return nil
}

// MostCPUs is how many CPUs a parameter may ask for.
const MostCPUs = 4096

// Presets are the values of the parameter preset.
func Presets() []string { return []string{"quick", "standard"} }

// NewPreset returns the parameter preset.
func NewPreset() Choice { return NewChoice("quick", Presets()) }

// Rounds is how often a preset measures what a program does.
func Rounds(preset string) int {
	if preset == "standard" {
		return 10
	}
	return 3
}
