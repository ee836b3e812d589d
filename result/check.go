// SPDX-License-Identifier: Apache-2.0

package result

import (
	"fmt"
	"slices"

	"boxdyno/unit"
)

// What a bundle's files may hold. They may come from anybody, so each is looked at once,
// when it is read; what makes reports of them relies on it.
const (
	mostTrials  = 1 << 20                           // behind one value
	mostInstant = 10 * 365 * 24 * 3600 * 1000000000 // ns from a run's begin, both ways
	leastRate   = 0.001                             // Hz, of telemetry
	mostRate    = 1000
)

func checkInstant(what string, at unit.Instant) error {
	if at < -mostInstant || at > mostInstant {
		return fmt.Errorf("%s of %d ns is more than ten years from the run's begin", what, int64(at))
	}
	return nil
}

func checkRate(hz float64) error {
	if hz != 0 && !(hz >= leastRate && hz <= mostRate) {
		return fmt.Errorf("rate_hz of %g is not from %g to %d", hz, leastRate, mostRate)
	}
	return nil
}

// check says what of a run is out of bounds.
func (r Run) check() error {
	for _, t := range r.Telemetry {
		if err := checkRate(t.Rate); err != nil {
			return fmt.Errorf("telemetry: %w", err)
		}
		for _, at := range []unit.Instant{t.From, t.To} {
			if err := checkInstant("telemetry: an instant", at); err != nil {
				return err
			}
		}
	}
	return nil
}

// check says what of a record is out of bounds.
func (r Record) check() error {
	if !slices.Contains([]Status{"", Running, Passed, Failed, Invalid, Skipped, Aborted}, r.Status) {
		return fmt.Errorf("there is no verdict %.40q", r.Status)
	}
	for _, v := range r.Values {
		if v.N < 0 || v.N > mostTrials {
			return fmt.Errorf("value %q: n of %d is not from 0 to %d", v.Metric, v.N, mostTrials)
		}
	}
	instants := []unit.Instant{r.Begin, r.End}
	for _, p := range r.Phases {
		instants = append(instants, p.Begin, p.End)
	}
	for _, b := range r.Boards {
		for _, p := range b.Phases {
			instants = append(instants, p.Begin, p.End)
		}
		instants = append(instants, unit.Instant(b.Late))
	}
	for _, k := range r.KPIs {
		instants = append(instants, k.Begin, k.End)
	}
	if r.Load != nil {
		for _, h := range []*Histogram{r.Load.Latency, r.Load.Gaps} {
			if h != nil && len(h.Upper) != len(h.Count) {
				return fmt.Errorf("a histogram has %d upper edges and %d counts", len(h.Upper), len(h.Count))
			}
		}
	}
	for _, at := range instants {
		if err := checkInstant("an instant", at); err != nil {
			return err
		}
	}
	return nil
}

// check says what of a head is out of bounds.
func (h TelemetryHead) check() error { return checkRate(h.Rate) }

// check says what of a batch is out of bounds.
func (b Batch) check() error { return checkInstant("at_ns", b.At) }
