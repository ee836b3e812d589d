// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"fmt"
	"slices"

	"boxdyno/internal/ethtool"
	"boxdyno/internal/netns"
)

// cableOffloads are what a cable does where offloads are on, by the kernel's names
// (net/ethtool/common.c): segmentation, checksums, and merging on receipt.
var cableOffloads = []string{
	"tx-checksum-ip-generic", "rx-checksum", "tx-scatter-gather", "tx-scatter-gather-fraglist", "tx-generic-segmentation",
	"tx-tcp-segmentation", "tx-tcp-ecn-segmentation", "tx-tcp-mangleid-segmentation", "tx-tcp6-segmentation", "tx-udp-segmentation", "rx-gro",
}

// switchOffloads switches the offloads of a cable's ends on or off.
func switchOffloads(ends [2]end, on bool) error {
	for _, e := range ends {
		err := netns.Do(e.at.Netns, func() error {
			if !on {
				return offloadsOff(e.name)
			}
			return offloadsOn(e.name)
		})
		if err != nil {
			return fmt.Errorf("switch offloads of %s of the %s: %w", e.name, e.at.Label, err)
		}
	}
	return nil
}

// offloadsOn switches on those of cableOffloads that the port has. It runs in the
// port's namespace.
func offloadsOn(name string) error {
	e, err := ethtool.Open()
	if err != nil {
		return err
	}
	defer e.Close()
	features, err := e.Features(name)
	if err != nil {
		return err
	}
	on := map[string]bool{}
	for feature, state := range features {
		if state.Available && !state.NeverChanged && slices.Contains(cableOffloads, feature) {
			on[feature] = true
		}
	}
	if err := e.SetFeatures(name, on); err != nil {
		return err
	}
	if features, err = e.Features(name); err != nil {
		return err
	}
	for feature := range on {
		if !features[feature].Active {
			return fmt.Errorf("%s stays off", feature)
		}
	}
	return nil
}
