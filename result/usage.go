// SPDX-License-Identifier: Apache-2.0

package result

import "time"

// Usage is what a subject with all its children used, of the machine, in a stretch
// of time.
type Usage struct {
	Subject    string        `json:"subject"`
	Phase      string        `json:"phase,omitempty"` // "": from its start
	CPU        time.Duration `json:"cpu_ns"`          // of all CPUs together
	User       time.Duration `json:"user_ns"`
	System     time.Duration `json:"system_ns"`
	PeakMemory uint64        `json:"peak_memory_bytes,omitempty"` // since the subject's start; 0: not known
	Processes  int           `json:"processes,omitempty"`         // at its end
	Source     string        `json:"source"`                      // where CPU and PeakMemory were read: "cpu.stat, memory.peak"
}

// Since is u from before on; peak memory and processes stay as they are.
func (u Usage) Since(before Usage) Usage {
	u.CPU -= before.CPU
	u.User -= before.User
	u.System -= before.System
	return u
}

// KnownCause begins the reason of what was skipped because it fails here for a cause
// that is no fault of the box.
const KnownCause = "known cause: "
