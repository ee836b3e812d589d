// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"bytes"
	"context"
	"io/fs"
	"path"
	"slices"
	"strings"

	"boxdyno/result"
)

// Of /proc/interrupts the lines of NICs become series, and those others that have
// counted by the time telemetry starts, or tell of a CPU that is too hot or broken.
// A line has a series a CPU unless that made more than this many.
const (
	nicInterruptSeries   = 256
	otherInterruptSeries = 128
)

var alwaysInterrupts = []string{"TRM", "THR", "MCE"}

// newInterrupts reads /proc/interrupts.
func newInterrupts(_ context.Context, m *Machine) (Collector, error) {
	var nics []nic
	err := m.sysfs(func(s Space, root fs.FS, dir string) { nics = append(nics, findNICs(s, root, dir)...) })
	if err != nil {
		return nil, err
	}
	return one("proc/interrupts", func(root fs.FS, data []byte) ([]result.Series, func([]byte, []float64) error, error) {
		t, err := newInterruptTable(data, cpuList(root, "present"), nics)
		if err != nil {
			return nil, nil, err
		}
		return t.series, t.parse, nil
	})(context.Background(), m)
}

// A nic is an interface and how to know its interrupts.
type nic struct {
	space Space
	name  string
	irqs  []string // by number
	names []string // by the name that its driver, or what it hangs on, gives them
}

// findNICs looks for a device's interrupts in its own directory and in those above
// it: that of a virtio device is its PCI function's, that of a USB adapter its
// host controller's. The first device that has any has them all
// (Documentation/ABI/testing/sysfs-bus-pci, msi_irqs).
func findNICs(s Space, root fs.FS, dir string) (nics []nic) {
	for _, p := range sysPorts(root, dir) {
		if !p.hardware {
			continue
		}
		n := nic{space: s, name: p.name, names: []string{p.name}}
		for _, d := range above(p.device) {
			n.names = append(n.names, path.Base(d))
			if entries, err := fs.ReadDir(root, d+"/msi_irqs"); err == nil && len(entries) > 0 {
				for _, e := range entries {
					n.irqs = append(n.irqs, e.Name())
				}
				break
			}
			if irq := sysText(root, d+"/irq"); irq != "" {
				if irq != "0" {
					n.irqs = append(n.irqs, irq)
				}
				break
			}
		}
		nics = append(nics, n)
	}
	return nics
}

// has says whether a line is this NIC's: by its number, or because one of its
// users is named for the interface or device: "eth0-rx-1", "virtio2-input.0",
// "xhci-hcd:usb1".
func (n *nic) has(irq, users string) bool {
	if slices.Contains(n.irqs, irq) {
		return true
	}
	for u := range strings.SplitSeq(users, ", ") {
		for _, name := range n.names {
			if u == name || strings.HasPrefix(u, name+"-") || strings.HasPrefix(u, name+":") || strings.HasSuffix(u, ":"+name) {
				return true
			}
		}
	}
	return false
}

// An irqLine is one line that is followed.
type irqLine struct {
	key    string // "38", "LOC"
	users  string // "virtio2-input.0"
	nic    *nic
	first  int  // series
	summed bool // one series for all CPUs
	counts []counter
}

// interrupts is the parser.
type interrupts struct {
	series  []result.Series
	present cpuIndex
	header  []byte
	columns []int // indices of present; those of CPUs that are on
	lines   []irqLine
	at      map[string]int
}

func newInterruptTable(data []byte, present []int, nics []nic) (*interrupts, error) {
	text := scan(data)
	header, _ := text.line()
	cpus, ok := cpuColumns(header)
	if !ok {
		return nil, malformed(header)
	}
	t := &interrupts{present: indexCPUs(append(present, cpus...)), at: map[string]int{}}
	ofNICs := 0
	for l, ok := text.line(); ok; l, ok = text.line() {
		key, users, total, ok := irqOf(l, len(cpus))
		if !ok {
			continue
		}
		line := irqLine{key: key, users: users}
		for i := range nics {
			if line.nic == nil && nics[i].has(key, users) {
				line.nic = &nics[i]
			}
		}
		if line.nic != nil {
			ofNICs++
		} else if total == 0 && !slices.Contains(alwaysInterrupts, key) {
			continue
		}
		t.lines = append(t.lines, line)
	}
	n := len(t.present.list)
	for i := range t.lines {
		l := &t.lines[i]
		l.summed = l.nic != nil && ofNICs*n > nicInterruptSeries || l.nic == nil && (len(t.lines)-ofNICs)*n > otherInterruptSeries
		l.first = len(t.series)
		l.counts = make([]counter, n)
		t.at[l.key] = i
		for cpu := range n {
			t.series = append(t.series, l.series(t.present.list[cpu]))
			if l.summed {
				break
			}
		}
	}
	return t, nil
}

func (l *irqLine) series(cpu int) result.Series {
	s := result.Series{Name: "node_interrupts_total", Unit: "1", Counter: true, Help: "interrupts served by a CPU"}
	if l.nic != nil {
		s.Labels = l.nic.space.portLabels(l.nic.name)
	}
	if l.summed {
		s.Help = "interrupts served by all CPUs"
	} else {
		s.Labels = append(s.Labels, cpuLabel(cpu)...)
	}
	s.Labels = append(s.Labels, result.Pair{Key: "type", Value: l.key}, result.Pair{Key: "devices", Value: l.users})
	return s
}

// irqOf takes a line apart: "38:  0  122261 PCI-MSIX-0000:00:03.0  1-edge
// virtio2-input.0". Before the users stand chip, hardware number and trigger, more
// or less of them by architecture; users are separated by ", ". Lines without a
// number for each CPU, such as ERR, are none.
func irqOf(l scan, cpus int) (key, users string, total uint64, ok bool) {
	b, ok := bytes.CutSuffix(l.field(), []byte{':'})
	if !ok {
		return "", "", 0, false
	}
	for range cpus {
		n, ok := l.number()
		if !ok {
			return "", "", 0, false
		}
		total += n
	}
	rest := strings.TrimSpace(string(l))
	if _, device := decimal(b); device {
		head, tail, listed := strings.Cut(rest, ", ")
		if f := strings.Fields(head); len(f) > 0 {
			rest = f[len(f)-1]
		}
		if listed {
			rest += ", " + tail
		}
	}
	return string(b), rest, total, true
}

func (t *interrupts) parse(data []byte, dst []float64) error {
	text := scan(data)
	header, _ := text.line()
	if err := t.online(header); err != nil {
		return err
	}
	next := 0
	for l, ok := text.line(); ok; l, ok = text.line() {
		whole, key := l, l.field()
		if len(key) < 2 || key[len(key)-1] != ':' {
			continue
		}
		key = key[:len(key)-1]
		i := next
		if i == len(t.lines) || t.lines[i].key != string(key) {
			if i, ok = t.at[string(key)]; !ok {
				continue
			}
		}
		next = i + 1
		line := &t.lines[i]
		if !bytes.HasSuffix(bytes.TrimRight(l, " "), []byte(line.users)) {
			continue // the number is another device's now
		}
		sum := 0.
		for _, cpu := range t.columns {
			n, ok := l.number()
			if !ok {
				return malformed(whole)
			}
			v := line.counts[cpu].next(n)
			if !line.summed {
				dst[line.first+cpu] = v
			}
		}
		if line.summed { // what CPUs that are off counted remains
			for i := range line.counts {
				sum += line.counts[i].total()
			}
			dst[line.first] = sum
		}
	}
	return nil
}

// online reads which CPUs the columns are.
func (t *interrupts) online(header []byte) error {
	if len(t.columns) > 0 && bytes.Equal(header, t.header) {
		return nil
	}
	cpus, ok := cpuColumns(header)
	if !ok {
		return malformed(header)
	}
	t.header = append(t.header[:0], header...)
	t.columns = t.columns[:0]
	for _, cpu := range cpus {
		i := t.present.of(cpu)
		if i < 0 {
			t.columns = nil
			return malformed(header)
		}
		t.columns = append(t.columns, i)
	}
	return nil
}
