// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"fmt"

	"boxdyno/lab"
	"boxdyno/procedure/internal/param"
)

// Values of dut_cpus.
const (
	oneCPU  = "1"
	AllCPUs = "all"
)

// DUTCPUsUsage is the help of the parameter dut_cpus.
const DUTCPUsUsage = "CPUs of the box: 1 (another machine: as it is tuned), or all that the tester leaves (flows are spread over them)"

// NewDUTCPUs returns the parameter dut_cpus, 1.
func NewDUTCPUs() param.Choice { return param.NewChoice(oneCPU, []string{oneCPU, AllCPUs}) }

// Spreads says why bed cannot have dut_cpus.
func Spreads(bed *lab.Testbed, dutCPUs string) error {
	if dutCPUs == AllCPUs && !bed.Spreads {
		return fmt.Errorf("dut_cpus all: topology %s with placement %q does not spread the box's work: use one of this machine with placement split, a box that its agent sets up (two cables, or a gateway), or tune the box (RPS)", bed.Topology, bed.Placement)
	}
	return nil
}

// FlowsFor is how many flows spread about evenly over n CPUs.
func FlowsFor(n int) int { return 8 * n }

// Flows are how many flows a load has, and the parameter that sets them; "": none does.
type Flows struct {
	N    int
	By   string
	Most int // that By can be
}

// Crowded says what limits trust in a figure of all CPUs, while so many send; "" where
// nothing does.
func Crowded(bed *lab.Testbed, dutCPUs string, flows Flows, senders int) string {
	if dutCPUs != AllCPUs {
		return ""
	}
	n := bed.FarCPUs
	if n == 0 {
		n = len(bed.BoxCPUs(lab.Service{AllCPUs: true, Senders: senders - 1}))
	}
	switch {
	case bed.FarCPUs == 1:
		return "dut_cpus=all is 1 CPU here, as dut_cpus=1 is: the box has no more"
	case bed.FarCPUs == 0 && n == len(bed.DUTCPUs):
		return fmt.Sprintf("dut_cpus=all is %s here, as dut_cpus=1 is: the tester has the rest", lab.CPUText(n))
	case flows.N == 1 && flows.By == "":
		return fmt.Sprintf("dut_cpus=all: one flow uses one of %s", lab.CPUText(n))
	case flows.N == 1:
		return fmt.Sprintf("dut_cpus=all: one flow uses one of %s: give %s=%d or more", lab.CPUText(n), flows.By, min(FlowsFor(n), flows.Most))
	case flows.N < min(FlowsFor(n), flows.Most):
		return fmt.Sprintf("dut_cpus=all: %d flows spread unevenly over %s: give %s=%d or more", flows.N, lab.CPUText(n), flows.By, min(FlowsFor(n), flows.Most))
	}
	return ""
}

// Placed says which CPUs carry the box and which send, where the box has all that several
// senders leave; "" elsewhere, where the testbed's settings say it.
func Placed(bed *lab.Testbed, dutCPUs string, senders int) string {
	sends := bed.SenderCPUs(max(senders, 1))
	if dutCPUs != AllCPUs || len(sends) < 2 || bed.FarCPUs > 0 {
		return ""
	}
	return fmt.Sprintf("dut_cpus=all with senders=%d: CPUs %s carry the box, and CPUs %s send", senders,
		lab.CPUList(bed.BoxCPUs(lab.Service{AllCPUs: true, Senders: senders - 1})), lab.CPUList(sends))
}
