// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"context"
	"regexp"
	"slices"
	"strings"

	"boxdyno/result"
)

// A Place is a further meter of a run, and what it sees: boards of a fleet, and parts that
// they share.
type Place struct {
	Of    string   // names with + between them; "all": every board
	Meter []string // a command that prints watts, as Ask.Meter; nil: it is a plug
	Plug  string   // URL of a smart plug
}

var placeText = regexp.MustCompile(`^([A-Za-z0-9][A-Za-z0-9._-]*(?:\+[A-Za-z0-9][A-Za-z0-9._-]*)*)=(.+)$`)

// SplitPlace takes "b1+switch=http://10.0.0.9" apart. of is "" where a meter sees no place
// in particular, as in "http://10.0.0.9".
func SplitPlace(text string) (of, meter string) {
	m := placeText.FindStringSubmatch(text)
	if m == nil {
		return "", text
	}
	return m[1], m[2]
}

// spec opens the meter as a collector of its own.
func (p Place) spec() Spec {
	name := "plug"
	if p.Plug == "" {
		name = "meter"
	}
	return Spec{Name: name + " of " + p.Of, given: true, New: func(ctx context.Context, m *Machine) (Collector, error) {
		alone := *m
		alone.Ask = Ask{Meter: p.Meter, Plug: p.Plug}
		open := newPlug
		if p.Plug == "" {
			open = newMeter
		}
		c, err := open(ctx, &alone)
		if err != nil {
			return nil, err
		}
		switch c := c.(type) {
		case *plug:
			c.at(p.Of)
		case *meter:
			c.at(p.Of)
		}
		return c, nil
	}}
}

// at labels all series with what the meter sees, by which its figures are known, too.
func (h *held) at(of string) {
	for i := range h.series {
		labels := slices.Clone(h.series[i].Labels)
		for k := range labels {
			if labels[k].Key == "meter" {
				labels[k].Value += " of " + strings.ReplaceAll(of, "+", ", ")
			}
		}
		h.series[i].Labels = append(labels, result.Pair{Key: "of", Value: of})
	}
}
