// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"fmt"
	"strings"
	"testing"
)

func TestNICInterrupts(t *testing.T) {
	n := nic{name: "eth0", irqs: []string{"52"}, names: []string{"eth0", "1-1:1.0", "usb1", "0000:01:00.0"}}
	for _, c := range []struct {
		irq, users string
		want       bool
	}{
		{"52", "mlx5_comp0@pci:0000:02:00.0", true},
		{"53", "mlx5_comp0@pci:0000:02:00.0", false},
		{"9", "eth0", true},
		{"9", "eth0-TxRx-3", true},
		{"9", "eth01", false},
		{"9", "ehci_hcd:usb1, mmc0", true},
		{"9", "mmc0, ehci_hcd:usb1", true},
		{"9", "ehci_hcd:usb11", false},
	} {
		if got := n.has(c.irq, c.users); got != c.want {
			t.Errorf("line %s of %q: %v, want %v", c.irq, c.users, got, c.want)
		}
	}
}

// A machine with many CPUs and queues has one series a line, which a CPU that goes
// off does not set back.
func TestManyInterrupts(t *testing.T) {
	table := func(cpus, n int) []byte {
		var b strings.Builder
		for cpu := range cpus {
			fmt.Fprintf(&b, " CPU%d", cpu)
		}
		for q := range 8 {
			fmt.Fprintf(&b, "\n%d:%s PCI-MSI eth0-%d", q, strings.Repeat(fmt.Sprintf(" %d", n), cpus), q)
		}
		return []byte(b.String() + "\n")
	}
	p, err := newInterruptTable(table(64, 10), nil, []nic{{name: "eth0", names: []string{"eth0"}}})
	if err != nil {
		t.Fatal(err)
	}
	if len(p.series) != 8 || prom(p.series[3]) != `node_interrupts_total{device="eth0",type="3",devices="eth0-3"}` {
		t.Fatalf("%d series, %v", len(p.series), p.series[0])
	}
	dst := make([]float64, 8)
	for _, c := range []struct {
		cpus, n int
		want    float64
	}{{64, 10, 640}, {63, 20, 1270}, {64, 30, 1920}} {
		if err := p.parse(table(c.cpus, c.n), dst); err != nil || dst[7] != c.want {
			t.Errorf("%d CPUs with %d interrupts: %v (%v), want %v", c.cpus, c.n, dst[7], err, c.want)
		}
	}
}
