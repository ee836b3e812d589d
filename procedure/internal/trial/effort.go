// SPDX-License-Identifier: Apache-2.0

package trial

import "time"

var IPVersions = []string{"4", "6"}

// An Effort is how long and how often a preset measures.
type Effort struct {
	SelfTest  time.Duration
	WarmUp    time.Duration // of the trial before all others
	Overload  time.Duration // of a trial under overload
	Overloads int           // a visit
	Latency   time.Duration // of a latency trial
	Settle    time.Duration // least wait after traffic
}

// EffortOf is that of quick or standard.
func EffortOf(preset string) Effort {
	if preset == "standard" {
		return Effort{SelfTest: 10 * time.Second, WarmUp: 5 * time.Second, Overload: 10 * time.Second, Overloads: 2, Latency: 20 * time.Second, Settle: 2 * time.Second}
	}
	return Effort{SelfTest: 200 * time.Millisecond, WarmUp: 100 * time.Millisecond, Overload: 50 * time.Millisecond, Overloads: 2, Latency: 100 * time.Millisecond}
}
