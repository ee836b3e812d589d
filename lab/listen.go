// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"fmt"

	"boxdyno/internal/ethtool"
	"boxdyno/internal/netns"
)

// Listening is a service beside Services: the DUT routes, and its lan port is as a
// network card's for a program that captures there, which may bring an XDP program of
// its own. The lab's program is gone (unless it plants a limit); GRO, which has nothing
// to merge in UDP, keeps the port's NAPI and the thread that it runs in.
const Listening = "listen"

func setListen(v *services, _ context.Context, _ Service) error {
	if v.plant.Policer != 0 {
		return nil
	}
	if err := v.gro(true); err != nil {
		return err
	}
	if err := v.xdp[0].Close(); err != nil {
		return fmt.Errorf("take the XDP program off %s: %w", sides[0].dut, err)
	}
	v.bare = true
	return nil
}

// clearListen puts the program back before GRO goes: without both a veth has no NAPI.
func clearListen(v *services, _ context.Context) error {
	if v.bare {
		l, err := attach(v.dut, sides[0].dut, v.port(0))
		if err != nil {
			return err
		}
		v.xdp[0], v.bare = l, false
	}
	if v.plant.Policer != 0 {
		return nil
	}
	return v.gro(false)
}

// gro switches generic receive offload of the lan port.
func (v *services) gro(on bool) error {
	err := netns.Do(v.dut.Netns, func() error {
		e, err := ethtool.Open()
		if err != nil {
			return err
		}
		defer e.Close()
		return e.SetFeatures(sides[0].dut, map[string]bool{"rx-gro": on})
	})
	if err != nil {
		return fmt.Errorf("switch GRO of %s to %v: %w", sides[0].dut, on, err)
	}
	return nil
}
