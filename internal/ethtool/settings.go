// SPDX-License-Identifier: Apache-2.0

package ethtool

import (
	"errors"

	"golang.org/x/sys/unix"
)

// A Ring is how many descriptors each ring of a port has, and can have at most
// (struct ethtool_ringparam).
type Ring struct {
	RxMaxPending, RxMiniMaxPending, RxJumboMaxPending, TxMaxPending uint32
	RxPending, RxMiniPending, RxJumboPending, TxPending             uint32
}

// Ring is the port's.
func (s *Socket) Ring(port string) (Ring, error) {
	return asked[Ring](s, port, unix.ETHTOOL_GRINGPARAM)
}

// SetRing sets the port's. Most drivers reset the port.
func (s *Socket) SetRing(port string, r Ring) error {
	return told(s, port, unix.ETHTOOL_SRINGPARAM, r)
}

// Channels are a port's queues, and how many it can have at most (struct
// ethtool_channels).
type Channels struct {
	MaxRx, MaxTx, MaxOther, MaxCombined         uint32
	RxCount, TxCount, OtherCount, CombinedCount uint32
}

// Channels are the port's.
func (s *Socket) Channels(port string) (Channels, error) {
	return asked[Channels](s, port, unix.ETHTOOL_GCHANNELS)
}

// SetChannels sets the port's.
func (s *Socket) SetChannels(port string, c Channels) error {
	return told(s, port, unix.ETHTOOL_SCHANNELS, c)
}

// Indirection is how many entries the table has by which the port itself deals flows to its
// queues (RSS); 0 where it has none.
func (s *Socket) Indirection(port string) (int, error) {
	size, err := asked[uint32](s, port, unix.ETHTOOL_GRXFHINDIR)
	if errors.Is(err, unix.EOPNOTSUPP) {
		return 0, nil
	}
	return int(size), err
}

// A Pause is whether a port asks its peer to wait (Tx), waits when asked (Rx), and agrees on
// it with its peer: 0 or 1 (struct ethtool_pauseparam; IEEE 802.3, annex 31B).
type Pause struct{ Autoneg, RxPause, TxPause uint32 }

// Pause is the port's.
func (s *Socket) Pause(port string) (Pause, error) {
	return asked[Pause](s, port, unix.ETHTOOL_GPAUSEPARAM)
}

// SetPause sets the port's.
func (s *Socket) SetPause(port string, p Pause) error {
	return told(s, port, unix.ETHTOOL_SPAUSEPARAM, p)
}

// A Coalesce is how long, in microseconds, and for how many frames a port puts off an
// interrupt (struct ethtool_coalesce).
type Coalesce struct {
	RxCoalesceUsecs, RxMaxCoalescedFrames, RxCoalesceUsecsIrq, RxMaxCoalescedFramesIrq           uint32
	TxCoalesceUsecs, TxMaxCoalescedFrames, TxCoalesceUsecsIrq, TxMaxCoalescedFramesIrq           uint32
	StatsBlockCoalesceUsecs, UseAdaptiveRxCoalesce, UseAdaptiveTxCoalesce                        uint32
	PktRateLow                                                                                   uint32 // frame/s
	RxCoalesceUsecsLow, RxMaxCoalescedFramesLow, TxCoalesceUsecsLow, TxMaxCoalescedFramesLow     uint32
	PktRateHigh                                                                                  uint32 // frame/s
	RxCoalesceUsecsHigh, RxMaxCoalescedFramesHigh, TxCoalesceUsecsHigh, TxMaxCoalescedFramesHigh uint32
	RateSampleInterval                                                                           uint32 // s
}

// Coalesce is the port's.
func (s *Socket) Coalesce(port string) (Coalesce, error) {
	return asked[Coalesce](s, port, unix.ETHTOOL_GCOALESCE)
}

// SetCoalesce sets the port's.
func (s *Socket) SetCoalesce(port string, c Coalesce) error {
	return told(s, port, unix.ETHTOOL_SCOALESCE, c)
}

// An EEE is Energy-Efficient Ethernet (IEEE 802.3az; struct ethtool_eee): the modes that a
// port has it in, as bits, and whether its link may sleep between frames. All the driver
// told must be told back.
type EEE struct {
	Supported, Advertised, Peer       uint32
	Active, Enabled, TxLPI, TxLPITime uint32
	_                                 [2]uint32
}

// EEE is the port's.
func (s *Socket) EEE(port string) (EEE, error) { return asked[EEE](s, port, unix.ETHTOOL_GEEE) }

// SetEEE sets the port's.
func (s *Socket) SetEEE(port string, e EEE) error { return told(s, port, unix.ETHTOOL_SEEE, e) }
