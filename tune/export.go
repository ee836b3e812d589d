// SPDX-License-Identifier: Apache-2.0

package tune

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"boxdyno/host"
	"boxdyno/internal/ethtool"
	"boxdyno/internal/netns"
)

// An ExportKind says who sets a thing when the machine starts.
type ExportKind string

const (
	Sysctl  ExportKind = "sysctl"  // a line of sysctl.d(5)
	Link    ExportKind = "link"    // a line of [Link] of systemd.link(5)
	Command ExportKind = "command" // a command of a oneshot service
)

// An Exported is one line of a file that keeps a setting over a reboot.
type Exported struct {
	Kind ExportKind
	Text string
}

// A File is one to put onto a machine.
type File struct {
	Path string `json:"path"`
	Text string `json:"text"`
}

// An ExportPort is a port that a recipe is exported for.
type ExportPort struct {
	Name string
	MAC  net.HardwareAddr // permanent; nil: it is known by its name alone
}

func command(line string) []Exported { return []Exported{{Command, line}} }

// linkKey is a value as it is.
func linkKey(key string) func(port, value string) ([]Exported, error) {
	return func(_, value string) ([]Exported, error) { return []Exported{{Link, key + "=" + value}}, nil }
}

// linkFields are the fields of a value; keys that end in Sec take a time.
func linkFields(keys map[string]string) func(port, value string) ([]Exported, error) {
	return func(_, value string) (out []Exported, err error) {
		ps, err := pairs(value)
		if err != nil {
			return nil, err
		}
		for _, p := range ps {
			key := keys[p[0]]
			switch {
			case key == "":
				return nil, fmt.Errorf("systemd has no setting for %s", p[0])
			case key == "CoalescePacketRateSampleIntervalSec":
				p[1] += "s"
			case strings.HasSuffix(key, "Sec"):
				p[1] += "us"
			}
			out = append(out, Exported{Link, key + "=" + p[1]})
		}
		return out, nil
	}
}

// Export makes the files that keep a recipe over a reboot of a machine with systemd: a
// file of sysctl.d, one of systemd.link for each port, and a service for the rest.
// Notes say what cannot be kept.
func Export(r Recipe, ports []ExportPort) (files []File, notes []string, err error) {
	var sysctls, commands []string
	links := map[string][]string{}
	for _, s := range r.Steps {
		spec, err := Find(s.Knob)
		if err != nil {
			return nil, nil, err
		}
		if spec.Export == nil {
			notes = append(notes, fmt.Sprintf("%s is not kept: %s", s.Knob, spec.Doc))
			continue
		}
		names := []string{""}
		if spec.Scope == PerPort {
			names = nil
			for _, p := range ports {
				if s.Target == ForPorts || s.Target == p.Name {
					names = append(names, p.Name)
				}
			}
			if s.Target != ForPorts && !slices.ContainsFunc(ports, func(p ExportPort) bool { return p.Name == s.Target }) {
				names = append(names, s.Target)
			}
		}
		for _, name := range names {
			lines, err := spec.Export(name, s.Value)
			if err != nil {
				notes = append(notes, fmt.Sprintf("%s is not kept: %v", s.Knob, err))
				continue
			}
			for _, l := range lines {
				switch l.Kind {
				case Sysctl:
					sysctls = append(sysctls, l.Text)
				case Link:
					links[name] = append(links[name], l.Text)
				case Command:
					commands = append(commands, l.Text)
				}
			}
		}
	}
	about := fmt.Sprintf("# Recipe %s, written by boxdyno tune export.\n", r.Name)
	if sysctls != nil {
		files = append(files, File{"/etc/sysctl.d/90-boxdyno-" + r.Name + ".conf", about + strings.Join(sysctls, "\n") + "\n"})
	}
	var devices []string
	for _, p := range ports {
		devices = append(devices, "sys-subsystem-net-devices-"+unitName(p.Name)+".device")
		lines := links[p.Name]
		if lines == nil {
			continue
		}
		match := "OriginalName=" + p.Name
		if p.MAC != nil {
			match = "PermanentMACAddress=" + p.MAC.String()
		}
		// Of all .link files only the first that matches counts, so the default's lines stand here, too.
		files = append(files, File{"/etc/systemd/network/10-boxdyno-" + p.Name + ".link",
			about + "[Match]\n" + match + "\n\n[Link]\nNamePolicy=keep kernel database onboard slot path\nAlternativeNamesPolicy=database onboard slot path\nMACAddressPolicy=persistent\n" + strings.Join(lines, "\n") + "\n"})
	}
	if commands != nil {
		unit := about + "[Unit]\nDescription=Settings of recipe " + r.Name + "\n"
		if devices != nil {
			unit += "Wants=" + strings.Join(devices, " ") + "\nAfter=" + strings.Join(devices, " ") + "\n"
		}
		unit += "\n[Service]\nType=oneshot\nRemainAfterExit=yes\n"
		for _, c := range commands { // "-": what fails is in the journal, and the rest goes on
			unit += "ExecStart=-" + c + "\n"
		}
		files = append(files, File{"/etc/systemd/system/boxdyno-" + r.Name + ".service", unit + "\n[Install]\nWantedBy=multi-user.target\n"})
	}
	if files == nil {
		return nil, notes, errors.New("nothing of the recipe can be kept over a reboot")
	}
	return files, notes, nil
}

// unitName escapes a port's name as systemd-escape(1) does.
func unitName(s string) string {
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		switch {
		case c == '/':
			b.WriteByte('-')
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == ':', c == '_', c == '.' && i > 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, `\x%02x`, c)
		}
	}
	return b.String()
}

// PermanentMAC is a port's address as its maker gave it; nil where it has none, as a
// virtual one, or is not there.
func PermanentMAC(on *host.Local, port string) (mac net.HardwareAddr) {
	_ = netns.Do(on.Netns, func() error {
		e, err := ethtool.Open()
		if err != nil {
			return err
		}
		defer e.Close()
		mac, err = e.PermanentAddress(port)
		return err
	})
	return mac
}
