// SPDX-License-Identifier: Apache-2.0

package tune

import (
	"context"

	"boxdyno/internal/ethtool"
)

// channels are the numbers of queues (ethtool -l, -L; CHANNELS_GET of
// ethtool-netlink.rst). A queue that goes takes its masks with it.
var channels = withDisturbs(fielded(Spec{
	Name: "channels", Doc: "queues of the NIC, by direction or combined",
	Values: "rx=N tx=N combined=N other=N; max is the driver's most",
	Export: linkFields(map[string]string{"rx": "RxChannels", "tx": "TxChannels", "combined": "CombinedChannels", "other": "OtherChannels"}),
}, func(c *ethtool.Channels) []field {
	number := func(name string, v, most *uint32) field {
		return field{name: name, get: func() *uint32 { return v }, max: func() uint32 { return *most }, some: true}
	}
	return []field{
		number("rx", &c.RxCount, &c.MaxRx), number("tx", &c.TxCount, &c.MaxTx),
		number("combined", &c.CombinedCount, &c.MaxCombined), number("other", &c.OtherCount, &c.MaxOther),
	}
}, (*ethtool.Socket).Channels, (*ethtool.Socket).SetChannels), "rps", "rfs", "xps")

// withDisturbs is s with knobs of the same port that its change also changes.
func withDisturbs(s Spec, knobs ...string) Spec {
	s.Disturbs = func(_ context.Context, at Site) (refs []Ref, _ error) {
		for _, k := range knobs {
			refs = append(refs, Ref{Knob: k, Port: at.Port})
		}
		return refs, nil
	}
	return s
}
