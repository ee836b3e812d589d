// SPDX-License-Identifier: Apache-2.0

package procedure

import (
	"slices"

	"boxdyno/result"
)

// A Joule says what the energy of a procedure's trials is spent on. The runner makes
// figures of it, wherever a meter ran:
//
//	meters' readings while a trial's load ran -> Energy of the trial --+
//	Joule.Rate of the trial x the time of those readings -> its work --+-> Energy of the point
type Joule struct {
	Per  string // a unit of work, in words: "frame"
	When string // which trials, in words: "under overload"

	// Rate is the units of work that trial did a second while its load ran; 0: it is
	// none of those trials, or did none. point has the figures that were made of them.
	Rate func(point, trial result.Record) float64
	// Within is the last part of the load's time that the work took, in s; 0: all of it.
	// nil: all of it in every trial.
	Within func(trial result.Record) float64
}

// LoadPhase is the phase of a trial in which its load ran; nil: there is none.
func LoadPhase(phases []result.Phase) *result.Phase {
	for i, p := range phases {
		switch p.Name {
		case "traffic", "stream", "work", "fio", "stress", "together":
			return &phases[i]
		}
	}
	return nil
}

// Worked is a Joule of a metric that is a rate of work, a unit of which is so many of
// the metric's. when says which trials, in words. where is the key and value of the trials' identity; none: any.
func Worked(metric, per string, unit float64, when string, where ...result.Pair) Joule {
	return Joule{Per: per, When: when, Rate: func(_, trial result.Record) float64 {
		v := trial.Value(metric)
		other := func(p result.Pair) bool { return result.Get(trial.Config, p.Key) != p.Value }
		if v == nil || trial.Status != result.Passed || slices.ContainsFunc(where, other) {
			return 0
		}
		return v.Value / unit
	}}
}
