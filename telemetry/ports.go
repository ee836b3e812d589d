// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"boxdyno/internal/ethtool"
	"boxdyno/internal/netns"
	"boxdyno/result"
)

// A port is an interface as it was when it was looked for.
type port struct {
	index    int
	name     string
	hardware bool // a NIC, not the kernel's own: it has a device, and detailed errors
	loopback bool
	up       bool
	driver   string   // "" where it has none
	device   string   // directory in sysfs, "sys/devices/..."; "" where it has none or nobody could look
	stats    []string // names of the driver's own counters, in their order
}

// counts says whether a port has a counter, as the ledger's dictionary names it.
func (p *port) counts(counter string) bool {
	name, driver := strings.CutPrefix(counter, "ethtool ")
	if driver {
		return slices.Contains(p.stats, name)
	}
	return true
}

// watched says whether a port gets series: one that is the kernel's own and down
// can be there by the dozen.
func (p *port) watched() bool { return p.up || p.hardware }

func (s Space) portLabels(name string) []result.Pair {
	return s.labels(result.Pair{Key: "device", Value: name})
}

// owner is what the ledger calls the end of the link at which a namespace's ports
// are: result.Tester or result.DUTNIC; "" is the machine around a sandbox, whose
// losses are no trial's.
func (m *Machine) owner(s Space) result.Place {
	switch {
	case s.Name == "tester":
		return result.Tester
	case s.Name == "dut", !slices.ContainsFunc(m.Spaces, func(s Space) bool { return s.Name == "dut" }):
		return result.DUTNIC
	}
	return ""
}

// listPorts gives the ports of the calling thread's namespace, with their drivers
// but not their devices.
func listPorts() ([]port, error) {
	tools, err := ethtool.Open()
	if err != nil {
		return nil, err
	}
	defer tools.Close()
	t, err := openTool()
	if err != nil {
		return nil, err
	}
	defer t.Close()
	var links []netlink.Link
	for range 5 {
		if links, err = netlink.LinkList(); !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("list the interfaces: %w", err)
	}
	var ports []port
	for _, l := range links {
		a := l.Attrs()
		p := port{index: a.Index, name: a.Name, loopback: a.RawFlags&unix.IFF_LOOPBACK != 0, up: a.RawFlags&unix.IFF_UP != 0}
		d, _ := tools.Driver(a.Name) // some have none: lo
		p.driver = d.Name
		p.stats, _ = t.names(a.Name) // and no counters
		p.hardware = l.Type() == "device" && !p.loopback
		ports = append(ports, p)
	}
	return ports, nil
}

// sysPorts tells the ports that a tree of sysfs, mounted at dir, shows.
func sysPorts(root fs.FS, dir string) (ports []port) {
	entries, err := fs.ReadDir(root, dir+"/class/net")
	if err != nil {
		return nil
	}
	for _, e := range entries {
		at := dir + "/class/net/" + e.Name()
		index, ok := decimal([]byte(sysText(root, at+"/ifindex")))
		if !ok {
			continue // bonding_masters is a file
		}
		p := port{index: int(index), name: e.Name(), loopback: sysText(root, at+"/type") == "772", up: sysText(root, at+"/operstate") != "down"}
		for _, l := range strings.Split(sysFile(root, at+"/device/uevent"), "\n") {
			if d, ok := strings.CutPrefix(l, "DRIVER="); ok {
				p.driver = d
			}
		}
		if _, err := fs.Stat(root, at+"/device"); err == nil {
			p.hardware = true
			if link, err := fs.ReadLink(root, at); err == nil {
				p.device = path.Dir(path.Dir(path.Join(dir, "class/net", link))) // above net/eth0
			}
		}
		ports = append(ports, p)
	}
	return ports
}

// sysfs calls f with the sysfs of each namespace and where it is in its tree: that
// at /sys shows the interfaces of the namespace that mounted it. Where another
// namespace's cannot be mounted, it is left out.
func (m *Machine) sysfs(f func(s Space, root fs.FS, dir string)) error {
	if len(m.Spaces) == 0 || m.Root != nil {
		f(Space{}, m.root(), "sys")
		return nil
	}
	for _, s := range m.Spaces {
		if s.Path == "" {
			f(s, m.root(), "sys")
			continue
		}
		err := netns.DoSys(s.Path, func(sys *os.Root) error {
			f(s, sys.FS(), ".")
			return nil
		})
		if err != nil && !errors.Is(err, fs.ErrPermission) && !errors.Is(err, unix.ENOSYS) {
			return err
		}
	}
	return nil
}

// sysFile is a whole file, "" where there is none.
func sysFile(root fs.FS, name string) string {
	f, err := open(root, name)
	if err != nil {
		return ""
	}
	defer f.Close()
	data, err := f.read() // not fs.ReadFile: Go would wait for ever for a driver that says EAGAIN
	if err != nil {
		return ""
	}
	return string(data)
}

// above are the directories of a device and of those that it hangs on: its PCI
// function, its USB bus and that bus's PCI function.
func above(device string) (dirs []string) {
	for d := device; strings.Contains(d, "devices/"); d = path.Dir(d) {
		dirs = append(dirs, d)
	}
	return dirs
}
