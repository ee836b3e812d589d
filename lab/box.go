// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"boxdyno/internal/files"
	"boxdyno/internal/yaml"
	"boxdyno/result"
)

// A Box is a machine at the other end of a cable, as boxes.yaml keeps it.
type Box struct {
	Name   string   `json:"name"`
	SSH    string   `json:"ssh"`              // as ssh takes it: "pi@box", or a Host of its configuration
	Become string   `json:"become,omitempty"` // words before the agent's path: "sudo -n"
	Agent  string   `json:"agent"`            // the agent's path there
	Arch   string   `json:"arch"`             // GOARCH
	Cables []string `json:"cables,omitempty"` // "eth1=eth0": a port here and the box's
	Groups []string `json:"groups,omitempty"` // that the box is in
}

// Program is the agent as the box's shell takes it.
func (b Box) Program() string { return strings.TrimSpace(b.Become + " " + b.Agent) }

// Settings are the parameters by which topologies pair and there reach the box.
func (b Box) Settings() []result.Pair {
	return []result.Pair{{Key: "ssh", Value: b.SSH}, {Key: "program", Value: b.Program()}}
}

// Wired are topology pair's parameters for the box's cables.
func (b Box) Wired() (out []result.Pair) {
	for i, c := range b.Cables {
		here, there, _ := strings.Cut(c, "=")
		out = append(out, result.Pair{Key: "port_" + endNames[i], Value: here}, result.Pair{Key: "dut_" + endNames[i], Value: there})
	}
	return out
}

var (
	boxName   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)
	boxWords  = regexp.MustCompile(`^[A-Za-z0-9@%:/._\[\]+ -]*$`) // nothing that a shell, or a list of values, takes apart
	boxCable  = regexp.MustCompile(`^[^\s[:cntrl:]=,/]{1,15}=[^\s[:cntrl:]=,/]{1,15}$`)
	boxArch   = regexp.MustCompile(`^[a-z0-9]{0,16}$`)
	boxFields = []string{"ssh", "become", "agent", "arch", "cables", "groups"}
)

// mostGroups is how many groups a box may be in.
const mostGroups = 32

// Check says what is wrong with a box's description.
func (b Box) Check() error {
	switch {
	case !boxName.MatchString(b.Name):
		return fmt.Errorf("box name %q: letters, digits, dots and dashes only, at most 63", b.Name)
	case b.SSH == "" || strings.HasPrefix(b.SSH, "-") || strings.Contains(b.SSH, " ") || !boxWords.MatchString(b.SSH):
		return fmt.Errorf("box %s: ssh destination %q is not one: want user@host, or a Host of ssh's configuration", b.Name, b.SSH)
	case !boxWords.MatchString(b.Become):
		return fmt.Errorf("box %s: become %q has signs of a shell: want words such as sudo -n", b.Name, b.Become)
	case !strings.HasPrefix(b.Agent, "/") || strings.Contains(b.Agent, " ") || !boxWords.MatchString(b.Agent):
		return fmt.Errorf("box %s: the agent's path %q is not an absolute one of plain letters", b.Name, b.Agent)
	case !boxArch.MatchString(b.Arch):
		return fmt.Errorf("box %s: arch %q is none of Go's, such as arm64", b.Name, b.Arch)
	case len(b.Groups) > mostGroups:
		return fmt.Errorf("box %s: it is in %d groups, at most %d are kept", b.Name, len(b.Groups), mostGroups)
	case len(b.Cables) > len(endNames):
		return fmt.Errorf("box %s: it has %d cables, at most %d are used", b.Name, len(b.Cables), len(endNames))
	}
	for _, g := range b.Groups {
		if !boxName.MatchString(g) {
			return fmt.Errorf("box %s: group %q: letters, digits, dots and dashes only, at most 63", b.Name, g)
		}
	}
	for _, c := range b.Cables {
		if !boxCable.MatchString(c) {
			return fmt.Errorf("box %s: cable %q: want PORT=PORT, this machine's and the box's, such as eth1=eth0", b.Name, c)
		}
	}
	return nil
}

// Boxes reads boxes.yaml, in the order of its names; a file that does not exist has none.
func Boxes(path string) ([]Box, error) {
	boxes, _, err := read(path)
	return boxes, err
}

// Shared reads what boxes are declared to share in boxes.yaml, in the order of its names:
//
//	shared: {switch: {usd: 60, idle: 6, watts: 8, inside: true}, fans: {usd: 15, meter: command}}
func Shared(path string) ([]result.Part, error) {
	_, parts, err := read(path)
	return parts, err
}

var partFields = []string{"usd", "watts", "idle", "meter", "inside"}

func sharedParts(n *yaml.Node) (parts []result.Part, err error) {
	if n == nil {
		return nil, nil
	}
	if err := n.Want(yaml.Map, "shared"); err != nil {
		return nil, err
	}
	for _, f := range n.Map {
		what := "shared part " + f.Key
		if err := f.Value.Want(yaml.Map, what); err != nil {
			return nil, err
		}
		if err := f.Value.Only(what, partFields...); err != nil {
			return nil, err
		}
		if len(f.Value.Map) == 0 {
			return nil, f.Value.Errorf("nothing is said of %s: there are %s", what, strings.Join(partFields, ", "))
		}
		p := result.Part{Name: f.Key}
		for _, x := range f.Value.Map {
			if err := x.Value.Want(yaml.Scalar, x.Key); err != nil {
				return nil, err
			}
			v, err := strconv.ParseFloat(x.Value.Text, 64)
			switch x.Key {
			case "meter":
				p.Meter, err = x.Value.Text, nil
			case "inside":
				p.Inside, err = strconv.ParseBool(x.Value.Text)
			case "usd":
				p.USD = v
			case "watts":
				p.Watts = v
			case "idle":
				p.Idle = &v
			}
			if err != nil {
				return nil, x.Value.Errorf("%s: %s is %q: want a number, and true or false of inside", what, x.Key, x.Value.Text)
			}
		}
		if err := p.Check(); err != nil {
			return nil, f.Value.Errorf("%w", err)
		}
		parts = append(parts, p)
	}
	slices.SortFunc(parts, func(a, b result.Part) int { return cmp.Compare(a.Name, b.Name) })
	if err := result.CheckParts(parts); err != nil {
		return nil, n.Errorf("%w", err)
	}
	return parts, nil
}

func read(path string) (boxes []Box, parts []result.Part, err error) {
	data, err := files.Read(path, yaml.MaxSize)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read the boxes: %w", err)
	}
	root, err := yaml.Parse(path, data)
	if err != nil {
		return nil, nil, err
	}
	if err := root.Only("the file of boxes", "boxes", "shared"); err != nil {
		return nil, nil, err
	}
	if parts, err = sharedParts(root.Get("shared")); err != nil {
		return nil, nil, err
	}
	all := root.Get("boxes")
	if all == nil {
		return nil, parts, nil
	}
	if err := all.Want(yaml.Map, "boxes"); err != nil {
		return nil, nil, err
	}
	for _, f := range all.Map {
		if err := f.Value.Only("box "+f.Key, boxFields...); err != nil {
			return nil, nil, err
		}
		b := Box{Name: f.Key}
		for key, to := range map[string]*string{"ssh": &b.SSH, "become": &b.Become, "agent": &b.Agent, "arch": &b.Arch} {
			if n := f.Value.Get(key); n != nil {
				words, err := n.Texts(key)
				if err != nil {
					return nil, nil, err
				}
				*to = strings.Join(words, " ")
			}
		}
		for key, to := range map[string]*[]string{"cables": &b.Cables, "groups": &b.Groups} {
			if n := f.Value.Get(key); n != nil {
				if *to, err = n.Texts(key); err != nil {
					return nil, nil, err
				}
			}
		}
		if err := b.Check(); err != nil {
			return nil, nil, f.Value.Pos.Errorf("%w", err)
		}
		boxes = append(boxes, b)
	}
	slices.SortFunc(boxes, func(a, b Box) int { return cmp.Compare(a.Name, b.Name) })
	return boxes, parts, nil
}

// EditBoxes changes boxes.yaml: edit has what it holds, and what it returns is written
// whole. Others wait meanwhile.
func EditBoxes(path string, owner *files.Owner, edit func([]Box) []Box) error {
	folder, err := files.MakeFolder(filepath.Dir(path), owner)
	if err != nil {
		return fmt.Errorf("keep the boxes: %w", err)
	}
	defer folder.Close()
	lock, err := folder.Append("."+filepath.Base(path)+".lock", true)
	if err != nil {
		return fmt.Errorf("keep the boxes: %w", err)
	}
	defer lock.Close()
	for err = unix.EINTR; err == unix.EINTR; {
		err = unix.Flock(int(lock.Fd()), unix.LOCK_EX)
	}
	if err != nil {
		return fmt.Errorf("keep the boxes: lock %s: %w", lock.Name(), err)
	}
	boxes, parts, err := read(path)
	if err != nil {
		return err
	}
	boxes = edit(boxes)
	slices.SortFunc(boxes, func(a, b Box) int { return cmp.Compare(a.Name, b.Name) })
	text := "boxes:\n"
	for _, b := range boxes {
		if err := b.Check(); err != nil {
			return err
		}
		text += fmt.Sprintf("  %q:\n    ssh: %q\n    become: %q\n    agent: %q\n    arch: %q\n    cables: %s\n", b.Name, b.SSH, b.Become, b.Agent, b.Arch, listed(b.Cables))
		if len(b.Groups) > 0 {
			text += "    groups: " + listed(b.Groups) + "\n"
		}
	}
	if len(boxes) == 0 {
		text = "boxes: {}\n"
	}
	if len(parts) > 0 {
		text += "shared:\n"
	}
	for _, p := range parts {
		text += fmt.Sprintf("  %q: {usd: %g, watts: %g", p.Name, p.USD, p.Watts)
		if p.Idle != nil {
			text += fmt.Sprintf(", idle: %g", *p.Idle)
		}
		if p.Meter != "" {
			text += fmt.Sprintf(", meter: %q", p.Meter)
		}
		text += fmt.Sprintf(", inside: %t}\n", p.Inside)
	}
	err = folder.Replace(filepath.Base(path), func(f *os.File) error {
		_, err := f.WriteString(text)
		return errors.Join(err, f.Chmod(0o600))
	})
	if err != nil {
		return fmt.Errorf("keep the boxes: %w", err)
	}
	return nil
}

// listed is words as a list of YAML.
func listed(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = strconv.Quote(w)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}
