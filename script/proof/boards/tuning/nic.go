// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/vishvananda/netlink"

	"boxdyno/internal/ethtool"
	"boxdyno/internal/snapshot"
)

// A nic is a port with a device behind it.
type nic struct{ port, driver string }

// find lists this board's NICs.
func find() (nics []nic, err error) {
	drivers, err := filepath.Glob("/sys/class/net/*/device/driver")
	if err != nil {
		return nil, err
	}
	for _, d := range drivers {
		to, err := os.Readlink(d)
		if err != nil {
			return nil, err
		}
		nics = append(nics, nic{filepath.Base(filepath.Dir(filepath.Dir(d))), filepath.Base(to)})
	}
	if len(nics) == 0 {
		return nil, fmt.Errorf("this board has no NIC")
	}
	return nics, nil
}

func (n nic) setUp() error {
	l, err := netlink.LinkByName(n.port)
	if err == nil {
		err = netlink.LinkSetUp(l)
	}
	if err != nil {
		return fmt.Errorf("set %s up: %w", n.port, err)
	}
	return n.linkUp()
}

// linkUp waits until the link is negotiated: most changes reset the NIC.
func (n nic) linkUp() error {
	for deadline := time.Now().Add(up); ; time.Sleep(20 * time.Millisecond) {
		carrier, err := os.ReadFile("/sys/class/net/" + n.port + "/carrier")
		if err == nil && strings.TrimSpace(string(carrier)) == "1" {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the link of %s did not come up within %v", n.port, up)
		}
	}
}

// settled is a snapshot of the machine with the NIC's link up.
func (n nic) settled() (map[string]string, error) {
	if err := n.linkUp(); err != nil {
		return nil, err
	}
	return snapshot.Take("")
}

func (n nic) queues() int {
	names, _ := filepath.Glob("/sys/class/net/" + n.port + "/queues/rx-*")
	return len(names)
}

// interrupts are the CPUs that all of the NIC's interrupts come to, each answer once.
func (n nic) interrupts() (string, error) {
	files, err := filepath.Glob("/sys/class/net/" + n.port + "/device/msi_irqs/*")
	if err == nil && len(files) == 0 { // of virtio the device around it
		files, err = filepath.Glob("/sys/class/net/" + n.port + "/device/../msi_irqs/*")
	}
	var each []string
	for _, f := range files {
		data, err := os.ReadFile("/proc/irq/" + filepath.Base(f) + "/smp_affinity_list")
		if err != nil {
			return "", err
		}
		each = append(each, strings.TrimSpace(string(data)))
	}
	slices.Sort(each)
	return strings.Join(slices.Compact(each), " "), err
}

// look asks the kernel itself for each step's setting, and says which is another one.
func (n nic) look(steps []step) (problems []string, err error) {
	e, err := ethtool.Open()
	if err != nil {
		return nil, err
	}
	defer e.Close()
	features, err := e.Features(n.port)
	if err != nil {
		return nil, err
	}
	l, err := netlink.LinkByName(n.port)
	if err != nil {
		return nil, err
	}
	onOff := map[bool]string{true: "on", false: "off"}
	for _, s := range steps {
		got := ""
		switch s.knob {
		case "rings":
			var r ethtool.Ring
			r, err = e.Ring(n.port)
			got = fmt.Sprintf("rx=%d tx=%d", r.RxPending, r.TxPending)
		case "channels":
			var c ethtool.Channels
			c, err = e.Channels(n.port)
			got = fmt.Sprintf("combined=%d", c.CombinedCount)
		case "coalesce":
			var c ethtool.Coalesce
			c, err = e.Coalesce(n.port)
			got = fmt.Sprintf("rx-usecs=%d", c.RxCoalesceUsecs)
		case "pause":
			var p ethtool.Pause
			p, err = e.Pause(n.port)
			got = fmt.Sprintf("autoneg=%s rx=%s tx=%s", onOff[p.Autoneg == 1], onOff[p.RxPause == 1], onOff[p.TxPause == 1])
		case "mtu":
			got = fmt.Sprint(l.Attrs().MTU)
		case "txqueuelen":
			got = fmt.Sprint(l.Attrs().TxQLen)
		case "irq-affinity":
			got, err = n.interrupts()
		case "rps":
			var data []byte
			data, err = os.ReadFile("/sys/class/net/" + n.port + "/queues/rx-0/rps_cpus")
			got = strings.TrimSpace(string(data))
		default:
			name := map[string]string{"tso": "tx-tcp-segmentation", "gso": "tx-generic-segmentation", "gro": "rx-gro", "rx-checksum": "rx-checksum",
				"rx-vlan": "rx-vlan-hw-parse", "rx-vlan-filter": "rx-vlan-filter", "rx-hash": "rx-hashing"}[s.knob]
			if _, ok := features[name]; !ok {
				err = fmt.Errorf("the kernel has no feature for it")
			}
			got = onOff[features[name].Active]
		}
		if err != nil {
			return nil, fmt.Errorf("look at %s: %w", s.knob, err)
		}
		if want := s.want(); got != want && !strings.HasPrefix(want, got+" ") { // rings' text may say more
			problems = append(problems, fmt.Sprintf("%s is %s, and was set to %s", s.knob, got, want))
		}
	}
	return problems, nil
}
