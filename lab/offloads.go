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
	return offloads(name, true, func(feature string, _ ethtool.Feature) bool { return slices.Contains(cableOffloads, feature) })
}

// offloadsOff switches off all that can be switched, so that a frame on a link
// is a frame: whole, with its checksum, never merged. It runs in the link's
// namespace.
func offloadsOff(name string) error {
	// Without highdma frames would be copied where memory lies high.
	return offloads(name, false, func(feature string, f ethtool.Feature) bool { return f.Requested && feature != "highdma" })
}

// offloads switches the features that can be switched and are chosen, and sees that they
// are.
func offloads(name string, on bool, chosen func(feature string, f ethtool.Feature) bool) error {
	e, err := ethtool.Open()
	if err != nil {
		return err
	}
	defer e.Close()
	features, err := e.Features(name)
	if err != nil {
		return err
	}
	set := map[string]bool{}
	for feature, f := range features {
		if f.Available && !f.NeverChanged && chosen(feature, f) {
			set[feature] = on
		}
	}
	if err := e.SetFeatures(name, set); err != nil {
		return err
	}
	if features, err = e.Features(name); err != nil {
		return err
	}
	for feature := range set {
		if features[feature].Active != on {
			return fmt.Errorf("%s stays %s", feature, map[bool]string{true: "off", false: "on"}[on])
		}
	}
	return nil
}
