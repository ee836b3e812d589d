// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"context"
	"fmt"
	"strconv"

	"boxdyno/engine"
	"boxdyno/frame"
	"boxdyno/host"
	"boxdyno/lab"
	"boxdyno/procedure"
	"boxdyno/result"
)

// SelfTestPorts are those that are wired to each other; a testbed without has the
// sender alone measured, by what it offers into the box.
func SelfTestPorts(bed *lab.Testbed) (ports []lab.Port, alone bool) {
	if len(bed.Loop) == 0 {
		return bed.Ports, true
	}
	return bed.Loop, false
}

// TesterCeiling measures, once a run for each mix, IP version, number of streams and of CPUs
// that send, what tester port to tester port carries flat out.
func TesterCeiling(ctx context.Context, env *procedure.Env, mix frame.Mix, ipv6, both bool, senders int, e Effort) (result.Record, error) {
	streams := 1
	if both {
		streams = 2
	}
	cfg := []result.Pair{{Key: "frame_size", Value: mix.Name}, {Key: "ip", Value: frame.IPText(ipv6)}, {Key: "streams", Value: strconv.Itoa(streams)}}
	key := fmt.Sprintf("self-test/%s/ipv%s/%d/%v", mix.Name, frame.IPText(ipv6), streams, e.SelfTest)
	if senders = len(env.Bed.SenderCPUs(senders)); senders > 1 {
		cfg = append(cfg, result.Pair{Key: "senders", Value: strconv.Itoa(senders)})
		key += fmt.Sprintf("/%d", senders)
	}
	loop, alone := SelfTestPorts(env.Bed)
	if alone {
		cfg = append(cfg, result.Pair{Key: "path", Value: result.SenderAlone})
	}
	return env.Once(ctx, key, cfg, func(ctx context.Context) (o procedure.Outcome, err error) {
		last := len(loop) - 1
		if last < 0 || both && last == 0 {
			return o, fmt.Errorf("self-test: topology %s has no two ports to send between: %w", env.Bed.Topology, host.ErrNotSupported)
		}
		ways := []Way{{0, last, Between(loop[0], loop[last], mix, senders, ipv6)}}
		if both {
			ways = append(ways, Way{1, 0, Between(loop[1], loop[0], mix, senders, ipv6)})
		}
		r, err := NewRig(ctx, env, RigSpec{Ports: loop, Loop: !alone, Mix: mix, Ways: ways, Settle: e.Settle, Senders: senders})
		if err != nil {
			return o, err
		}
		defer r.Close()
		return r.trial(ctx, engine.Load{Duration: e.SelfTest}, false)
	})
}

// Between is frames from one port to another, through whatever stands between; from a
// port to itself, they are to the box at its cable; two ends of one port have addresses of their own.
func Between(from, to lab.Port, mix frame.Mix, flows int, ipv6 bool) frame.Spec {
	s := frame.Spec{
		Sizes: mix.Sizes, Flows: flows, SrcMAC: from.MAC, DstMAC: from.GatewayMAC,
		Src: from.Addr4, Dst: to.Addr4, SrcPort: frame.FirstPort, DstPort: frame.Port,
	}
	toBox := from.Port == to.Port && from.Addr4 == to.Addr4
	if toBox {
		s.Dst = from.Gateway4
	}
	if ipv6 {
		s.Src, s.Dst = from.Addr6, to.Addr6
		if toBox {
			s.Dst = from.Gateway6
		}
	}
	return s
}

// Fits says why ports cannot carry the mix.
func Fits(mix frame.Mix, ipv6 bool, ports []lab.Port) error { return FitsIn(mix, 0, ipv6, ports) }

// FitsIn is Fits in a VLAN, whose tag is not of the MTU; 0: without one.
func FitsIn(mix frame.Mix, vlan uint16, ipv6 bool, ports []lab.Port) error {
	for _, p := range ports {
		if need := mix.Largest().Buffer() - 14 - int(frame.SmallestIn(vlan, ipv6)-frame.Smallest(ipv6)); p.MTU != 0 && need > p.MTU {
			return fmt.Errorf("frame size %d: it needs an MTU of %d, and port %s has %d", mix.Largest(), need, p.Name, p.MTU)
		}
		if ipv6 && !p.Addr6.IsValid() {
			return fmt.Errorf("ip 6: port %s has no IPv6: this kernel has none, or the box does not answer for its IPv6 address", p.Name)
		}
	}
	return nil
}
