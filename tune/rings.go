// SPDX-License-Identifier: Apache-2.0

package tune

import "boxdyno/internal/ethtool"

// rings are the numbers of descriptors between driver and NIC (ethtool -g, -G;
// RINGS_GET of the kernel's ethtool-netlink.rst, by its older ioctl). Most drivers
// reset the NIC for it, and many round.
var rings = fielded(Spec{
	Name: "rings", Doc: "descriptors in each of the NIC's rings; deeper ones bridge longer stalls, and hold more in flight",
	Values: "rx=N tx=N rx-mini=N rx-jumbo=N; max is the driver's most",
	Export: linkFields(map[string]string{"rx": "RxBufferSize", "tx": "TxBufferSize", "rx-mini": "RxMiniBufferSize", "rx-jumbo": "RxJumboBufferSize"}),
}, func(r *ethtool.Ring) []field {
	number := func(name string, v, most *uint32, some bool) field {
		return field{name: name, get: func() *uint32 { return v }, max: func() uint32 { return *most }, some: some}
	}
	return []field{
		number("rx", &r.RxPending, &r.RxMaxPending, false), number("tx", &r.TxPending, &r.TxMaxPending, false),
		number("rx-mini", &r.RxMiniPending, &r.RxMiniMaxPending, true), number("rx-jumbo", &r.RxJumboPending, &r.RxJumboMaxPending, true),
	}
}, (*ethtool.Socket).Ring, (*ethtool.Socket).SetRing)
