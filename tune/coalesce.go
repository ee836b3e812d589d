// SPDX-License-Identifier: Apache-2.0

package tune

import "boxdyno/internal/ethtool"

// coalesce is how long and for how many frames the NIC puts off an interrupt
// (ethtool -c, -C; COALESCE_GET of ethtool-netlink.rst). The kernel refuses with
// EOPNOTSUPP what the driver does not declare; what it does not declare reads 0.
var coalesce = fielded(Spec{
	Name: "coalesce", Doc: "how long, and for how many frames, the NIC puts off an interrupt: fewer interrupts against more latency",
	Values: "adaptive-rx=on|off adaptive-tx=on|off and rx-usecs, rx-frames, tx-usecs, tx-frames... =N as ethtool names them",
	Export: linkFields(map[string]string{
		"adaptive-rx": "UseAdaptiveRxCoalesce", "adaptive-tx": "UseAdaptiveTxCoalesce",
		"rx-usecs": "RxCoalesceSec", "rx-frames": "RxMaxCoalescedFrames", "rx-usecs-irq": "RxCoalesceIrqSec", "rx-frames-irq": "RxMaxCoalescedIrqFrames",
		"tx-usecs": "TxCoalesceSec", "tx-frames": "TxMaxCoalescedFrames", "tx-usecs-irq": "TxCoalesceIrqSec", "tx-frames-irq": "TxMaxCoalescedIrqFrames",
		"rx-usecs-low": "RxCoalesceLowSec", "rx-frames-low": "RxMaxCoalescedLowFrames", "tx-usecs-low": "TxCoalesceLowSec", "tx-frames-low": "TxMaxCoalescedLowFrames",
		"rx-usecs-high": "RxCoalesceHighSec", "rx-frames-high": "RxMaxCoalescedHighFrames", "tx-usecs-high": "TxCoalesceHighSec", "tx-frames-high": "TxMaxCoalescedHighFrames",
		"pkt-rate-low": "CoalescePacketRateLow", "pkt-rate-high": "CoalescePacketRateHigh",
		"sample-interval": "CoalescePacketRateSampleIntervalSec", "stats-block-usecs": "StatisticsBlockCoalesceSec",
	}),
}, func(c *ethtool.Coalesce) []field {
	flag := func(name string, v *uint32) field {
		return field{name: name, get: func() *uint32 { return v }, flag: true, some: true}
	}
	number := func(name string, v *uint32) field {
		return field{name: name, get: func() *uint32 { return v }, some: true}
	}
	return []field{
		flag("adaptive-rx", &c.UseAdaptiveRxCoalesce), flag("adaptive-tx", &c.UseAdaptiveTxCoalesce),
		number("rx-usecs", &c.RxCoalesceUsecs), number("rx-frames", &c.RxMaxCoalescedFrames),
		number("rx-usecs-irq", &c.RxCoalesceUsecsIrq), number("rx-frames-irq", &c.RxMaxCoalescedFramesIrq),
		number("tx-usecs", &c.TxCoalesceUsecs), number("tx-frames", &c.TxMaxCoalescedFrames),
		number("tx-usecs-irq", &c.TxCoalesceUsecsIrq), number("tx-frames-irq", &c.TxMaxCoalescedFramesIrq),
		number("stats-block-usecs", &c.StatsBlockCoalesceUsecs), number("pkt-rate-low", &c.PktRateLow),
		number("rx-usecs-low", &c.RxCoalesceUsecsLow), number("rx-frames-low", &c.RxMaxCoalescedFramesLow),
		number("tx-usecs-low", &c.TxCoalesceUsecsLow), number("tx-frames-low", &c.TxMaxCoalescedFramesLow),
		number("pkt-rate-high", &c.PktRateHigh),
		number("rx-usecs-high", &c.RxCoalesceUsecsHigh), number("rx-frames-high", &c.RxMaxCoalescedFramesHigh),
		number("tx-usecs-high", &c.TxCoalesceUsecsHigh), number("tx-frames-high", &c.TxMaxCoalescedFramesHigh),
		number("sample-interval", &c.RateSampleInterval),
	}
}, (*ethtool.Socket).Coalesce, (*ethtool.Socket).SetCoalesce)
