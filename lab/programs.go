// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"fmt"
	"math"
	"net"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/rlimit"

	"boxdyno/internal/netns"
)

// loadPrograms loads the programs of bpf/dut.c with the limits that p plants. It
// needs CAP_BPF and CAP_NET_ADMIN.
func loadPrograms(p Plant) (*dutObjects, error) {
	if err := rlimit.RemoveMemlock(); err != nil {
		return nil, fmt.Errorf("lift the limit of locked memory: %w", err)
	}
	spec, err := loadDut()
	if err != nil {
		return nil, err
	}
	for name, value := range map[string]any{
		dutVarPoliceRate:  uint64(p.Policer),
		dutVarPoliceBurst: uint64(p.bucket()),
		dutVarLosePeriod:  p.Loss.Period,
		dutVarLoseRun:     p.Loss.Run,
		dutVarLoseBelow:   uint64(math.Ldexp(p.Loss.Ratio, 64)),
		dutVarLoseSeed:    p.LossSeed,
	} {
		if err := spec.Variables[name].Set(value); err != nil {
			return nil, fmt.Errorf("set %s of the DUT's BPF programs: %w", name, err)
		}
	}
	var objects dutObjects
	if err := spec.LoadAndAssign(&objects, nil); err != nil {
		return nil, fmt.Errorf("load the DUT's BPF programs: %w", err)
	}
	return &objects, nil
}

// attach puts a native XDP program on a port of s. It stays as long as the link
// that it returns, which ends with this process at the latest.
func attach(s *space, port string, p *ebpf.Program) (link.Link, error) {
	var l link.Link
	err := netns.Do(s.Netns, func() error {
		iface, err := net.InterfaceByName(port)
		if err != nil {
			return err
		}
		l, err = link.AttachXDP(link.XDPOptions{Program: p, Interface: iface.Index, Flags: link.XDPDriverMode})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("attach XDP to %s of the %s: %w", port, s.Label, err)
	}
	return l, nil
}
