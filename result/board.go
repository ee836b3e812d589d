// SPDX-License-Identifier: Apache-2.0

package result

import "time"

// A Board is what one of several machines did that carried a trial, or a point, out
// together. A record of a trial has one for each machine of its subset, in their order.
type Board struct {
	Name        string        `json:"name"`
	Status      Status        `json:"verdict"`
	Reason      string        `json:"reason,omitempty"`
	Late        time.Duration `json:"late_ns,omitempty"`             // its work began so much after the instant that all had; below zero: before it
	ClockError  time.Duration `json:"clock_error_ns,omitempty"`      // at most so far off is Late
	Config      []Pair        `json:"config,omitempty"`              // what identifies its part of the trial
	Values      []Value       `json:"values,omitempty"`              // its own
	Phases      []Phase       `json:"phases,omitempty"`              // by the clock of the machine that keeps the records
	Usage       []Usage       `json:"usage,omitempty"`               // of its programs
	Copies      []Copy        `json:"copies,omitempty"`              // of its programs that worked at once
	Temperature float64       `json:"temperature_celsius,omitempty"` // the highest of its sensors when the trial began; 0: it has none
	Warnings    []string      `json:"warnings,omitempty"`
}
