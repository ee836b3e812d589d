// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"fmt"

	"boxdyno/engine/crew"
	"boxdyno/lab"
	"boxdyno/procedure/internal/param"
)

// SendersUsage is the help of the parameter senders.
const SendersUsage = "CPUs of the tester that send `together`, as far as it has so many: each has its part of the flows, and of the load"

// NewSenders returns the parameter senders, 1.
func NewSenders() param.Count { return param.NewCount(1, 1, crew.Most) }

// FewSenders says where fewer CPUs send than were asked for; "" where all do.
func FewSenders(bed *lab.Testbed, want int) string {
	n := len(bed.SenderCPUs(want))
	if n == want {
		return ""
	}
	if bed.Narrow != "" {
		return fmt.Sprintf("senders=%d is senders=%d here: %s", want, n, bed.Narrow)
	}
	return fmt.Sprintf("senders=%d is senders=%d here: the tester has %s to send from", want, n, lab.CPUText(n))
}
