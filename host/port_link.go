// SPDX-License-Identifier: Apache-2.0

package host

import (
	"cmp"
	"strings"

	"boxdyno/internal/ethtool"
	"boxdyno/internal/netns"
	"boxdyno/unit"
)

// Driver returns a port's driver (kind if it has none), and its speed if the link is a
// real one, else 0: a virtual link has no bus, and its speed is no fact. The caller
// stands in the port's namespace.
func Driver(name, kind string) (driver string, speed unit.BitRate) {
	e, err := ethtool.Open()
	if err != nil {
		return kind, 0
	}
	defer e.Close()
	d, err := e.Driver(name)
	if err != nil {
		return kind, 0
	}
	if d.Bus == "" {
		return d.Name, 0
	}
	l, _ := e.Link(name)
	return d.Name, unit.BitRate(l.Speed) * 1e6
}

// Link describes the port's link: driver, speed (if wanted), duplex, pause, EEE.
func (p Port) Link(driver string, speed bool) string {
	words := []string{p.Name, driver}
	err := netns.Do(p.Netns, func() error {
		e, err := ethtool.Open()
		if err != nil {
			return err
		}
		defer e.Close()
		if l, err := e.Link(p.Name); err == nil && speed {
			words = append(words, (unit.BitRate(l.Speed) * 1e6).String(), cmp.Or(l.Duplex, "unknown")+" duplex")
		}
		if p, err := e.Pause(p.Name); err == nil {
			words = append(words, "pause rx "+onOff(p.RxPause)+" tx "+onOff(p.TxPause))
		} else {
			words = append(words, "pause unknown")
		}
		words = append(words, "EEE "+EEE(p.Name))
		return nil
	})
	if err != nil {
		words = append(words, err.Error())
	}
	return strings.Join(words, ", ")
}
