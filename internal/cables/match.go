// SPDX-License-Identifier: Apache-2.0

package cables

import (
	"fmt"
	"slices"
	"strings"
)

// A Cable is a port of the tester and the box's at the other end.
type Cable struct {
	Here  string `json:"here"`
	There string `json:"there"`
}

func (c Cable) String() string { return c.Here + "=" + c.There }

// Found is what a search found.
type Found struct {
	Cables []Cable  `json:"cables"` // each hears the other, and no third port does
	Here   []Port   `json:"here"`
	There  []Port   `json:"there"`
	Faults []string `json:"faults"` // sentences: one-way cables, switches, ports without a link
}

// Match pairs ports. here and there are those of tester and box; each side's marks are as
// that side heard them. box is the box's name, for sentences.
func Match(box string, here, there []Port, atHere, atThere []Heard) Found {
	out := Found{Cables: []Cable{}, Here: here, There: there, Faults: []string{}}
	fault := func(format string, args ...any) { out.Faults = append(out.Faults, fmt.Sprintf(format, args...)) }
	const us = "this machine"
	ends := map[Cable][2]bool{} // mark went there, came back
	for _, h := range atThere {
		if h.Side == Tester {
			ends[Cable{h.From, h.Port}] = [2]bool{true, ends[Cable{h.From, h.Port}][1]}
		}
	}
	for _, h := range atHere {
		if h.Side == Box {
			ends[Cable{h.Port, h.From}] = [2]bool{ends[Cable{h.Port, h.From}][0], true}
		}
	}
	var all []Cable
	for c := range ends {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b Cable) int { return strings.Compare(a.String(), b.String()) })
	wired := map[string]int{}
	for _, c := range all {
		wired["here "+c.Here]++
		wired["there "+c.There]++
	}
	reason := func(ports []Port, name string) string {
		for _, p := range ports {
			if p.Name == name {
				return p.Used
			}
		}
		return ""
	}
	for _, c := range all {
		both := ends[c] == [2]bool{true, true}
		switch {
		case wired["here "+c.Here] > 1 || wired["there "+c.There] > 1:
			fault("no cable: %s of %s and %s of %s hear each other by a switch, which joins further ports", c.Here, us, c.There, box)
		case both:
			out.Cables = append(out.Cables, c)
		case reason(here, c.Here) != "":
			fault("cable not used: %s of %s is wired to %s of %s, which %s", c.There, box, c.Here, us, reason(here, c.Here))
		case reason(there, c.There) != "":
			fault("cable not used: %s of %s is wired to %s of %s, which %s", c.Here, us, c.There, box, reason(there, c.There))
		case ends[c][0]:
			fault("one-way cable: frames from %s of %s reach %s of %s, and none come back", c.Here, us, c.There, box)
		default:
			fault("one-way cable: frames from %s of %s reach %s of %s, and none go back", c.There, box, c.Here, us)
		}
	}
	for _, side := range []struct {
		key, name string
		ports     []Port
		heard     []Heard
		own       Side
	}{{"here ", us, here, atHere, Tester}, {"there ", box, there, atThere, Box}} {
		for _, p := range side.ports {
			loop := slices.IndexFunc(side.heard, func(h Heard) bool { return h.Side == side.own && h.Port == p.Name })
			switch {
			case p.Used != "":
				fault("not tried: %s of %s %s", p.Name, side.name, p.Used)
			case loop >= 0:
				if from := side.heard[loop].From; from < p.Name || !hears(side.heard, side.own, from, p.Name) {
					fault("loop: %s and %s of %s are wired to each other", from, p.Name, side.name)
				}
			case !p.Carrier:
				fault("no link: %s of %s; check that its cable is in, and that the other end is switched on", p.Name, side.name)
			case wired[side.key+p.Name] == 0:
				fault("other end unknown: %s of %s has a link, and no mark of the other machine comes in", p.Name, side.name)
			}
		}
	}
	return out
}

func hears(all []Heard, side Side, port, from string) bool {
	return slices.Contains(all, Heard{Port: port, Side: side, From: from})
}

// Changed says in sentences how the cables differ from those that were known.
func Changed(known, now []Cable) (out []string) {
	for _, k := range known {
		if slices.Contains(now, k) {
			continue
		}
		i := slices.IndexFunc(now, func(c Cable) bool { return c.Here == k.Here || c.There == k.There })
		if i < 0 {
			out = append(out, fmt.Sprintf("missing: cable %v was known, and no mark goes over it", k))
			continue
		}
		j := slices.IndexFunc(now, func(c Cable) bool { return c.Here == k.Here })
		l := slices.IndexFunc(now, func(c Cable) bool { return c.There == k.There })
		if j >= 0 && l >= 0 {
			out = append(out, fmt.Sprintf("swapped: cable %v was known, and now there are %v and %v", k, now[j], now[l]))
		} else {
			out = append(out, fmt.Sprintf("moved: cable %v was known, and now there is %v", k, now[i]))
		}
	}
	return out
}
