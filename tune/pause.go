// SPDX-License-Identifier: Apache-2.0

package tune

import "boxdyno/internal/ethtool"

// pause is IEEE 802.3 annex 31B flow control (ethtool -a, -A; PAUSE_GET of
// ethtool-netlink.rst). With autoneg on, rx and tx are what the port advertises;
// most drivers negotiate the link anew for it.
var pause = fielded(Spec{
	Name: "pause", Doc: "whether the port asks its peer to wait (tx=on), and waits when asked (rx=on): a full box then slows its sender down instead of losing frames",
	Values: "autoneg=on|off rx=on|off tx=on|off",
	Export: linkFields(map[string]string{"autoneg": "AutoNegotiationFlowControl", "rx": "RxFlowControl", "tx": "TxFlowControl"}),
}, func(p *ethtool.Pause) []field {
	flag := func(name string, v *uint32) field {
		return field{name: name, get: func() *uint32 { return v }, flag: true}
	}
	return []field{flag("autoneg", &p.Autoneg), flag("rx", &p.RxPause), flag("tx", &p.TxPause)}
}, (*ethtool.Socket).Pause, (*ethtool.Socket).SetPause)
