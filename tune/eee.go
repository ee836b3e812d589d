// SPDX-License-Identifier: Apache-2.0

package tune

import (
	"context"

	"boxdyno/host"
	"boxdyno/internal/ethtool"
)

// eee is IEEE 802.3az, Energy-Efficient Ethernet (ethtool --show-eee): the link
// sleeps between frames, and wakes late.
var eee = Spec{
	Name: "eee", Doc: "whether the link may sleep between frames, which saves power and adds latency", Values: "on, off",
	Scope: PerPort, Check: oneOf("on", "off"),
	Read: func(_ context.Context, at Site) (string, error) {
		e, err := getEEE(at)
		return [...]string{"off", "on"}[min(e.Enabled, 1)], err
	},
	Write: func(_ context.Context, at Site, value string) error {
		e, err := getEEE(at)
		if err != nil {
			return err
		}
		e.Enabled = map[string]uint32{"off": 0, "on": 1}[value]
		return at.tool(func(s *ethtool.Socket) error { return s.SetEEE(at.Port, e) })
	},
	Export: func(port, value string) ([]Exported, error) {
		return command("ethtool --set-eee " + port + " eee " + value), nil
	},
}

func getEEE(at Site) (e ethtool.EEE, err error) {
	err = at.tool(func(s *ethtool.Socket) (err error) {
		e, err = s.EEE(at.Port)
		return err
	})
	if err == nil && e.Supported == 0 {
		err = host.ErrNotSupported // a driver that answers and has no mode of it
	}
	return e, err
}
