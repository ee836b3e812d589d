// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"
	"net"
	"os"
	"runtime"
	"time"

	"boxdyno/host"
	"boxdyno/result"
	"boxdyno/telemetry"
)

// IdentifyArgs name the ports that are asked about.
type IdentifyArgs struct {
	Ports []string `json:"ports,omitempty"`
	Clock bool     `json:"clock,omitempty"` // the environment has the measured clock and the throttle flags, too
}

// An Identity is a machine with the ports asked for.
type Identity struct {
	Machine     result.Machine `json:"machine"`
	Environment []result.Pair  `json:"environment"`
	Ports       []Port         `json:"ports"`          // in the order asked
	CPUs        []int          `json:"cpus,omitempty"` // that the agent may use; with IdentifyArgs.Clock
	// Control are the connections by which the tester reaches the box, as the box sees them.
	Control []host.Connection `json:"control,omitempty"`
}

// A Port is a box's.
type Port struct {
	Name string  `json:"name"`
	MAC  [6]byte `json:"mac"`
	MTU  int     `json:"mtu"`
	Link string  `json:"link"` // driver, speed, duplex, pause, EEE
	// Control is why the port carries the tester's connection: "carries your own connection
	// from 192.0.2.7"; "": it does not.
	Control string `json:"control,omitempty"`
}

func (s *Session) identify(_ context.Context, a IdentifyArgs) (Identity, error) {
	local := &host.Local{}
	id := Identity{Machine: local.Identify(), Environment: local.Environment(), Control: host.Connections()}
	if a.Clock {
		cpus, err := host.AllowedCPUs()
		if err != nil {
			return id, err
		}
		id.CPUs = cpus
		id.Environment = append(id.Environment, telemetry.Settings(cpus...)...)
	}
	for _, name := range a.Ports {
		iface, err := net.InterfaceByName(name)
		if err != nil {
			return id, &host.Missing{What: "port " + name, Hint: "there is no interface of that name; ip link shows those there are"}
		}
		driver, speed := host.Driver(name, "unknown driver")
		p := Port{Name: name, MTU: iface.MTU, Link: host.Port{Name: name}.Link(driver, speed > 0)}
		copy(p.MAC[:], iface.HardwareAddr)
		use, err := host.Port{Name: name}.Needed()
		if err != nil {
			return id, err
		}
		if use.Own {
			p.Control = use.Why
		}
		id.Ports = append(id.Ports, p)
	}
	return id, nil
}

// busy is the share of all CPUs that something else than waiting has for a time.
func (s *Session) busy(ctx context.Context, d time.Duration) (share float64, err error) {
	if d <= 0 || d > 10*time.Second {
		return 0, fmt.Errorf("busy for %v: want up to 10s", d)
	}
	return (&host.Local{}).Busy(ctx, d)
}

// Checked is what an agent may do.
type Checked struct {
	Arch    string   `json:"arch"` // of the agent: GOARCH
	UID     int      `json:"uid"`
	Folder  string   `json:"folder"`
	Missing []string `json:"missing,omitempty"` // sentences with their remedies
}

func (s *Session) check(context.Context, None) (Checked, error) {
	c := Checked{Arch: runtime.GOARCH, UID: os.Geteuid(), Folder: s.Folder}
	for _, probe := range []func() error{host.ProbeNamespace, host.ProbeBPF, host.ProbePacket} {
		if err := probe(); err != nil {
			c.Missing = append(c.Missing, err.Error())
		}
	}
	return c, nil
}
