// SPDX-License-Identifier: Apache-2.0

package procedure

import (
	"slices"
	"strings"

	"boxdyno/result"
	"boxdyno/unit"
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
		case "traffic", "stream", "work", "fio", "stress":
			return &phases[i]
		}
	}
	return nil
}

// trialKind is the value of a trial's key "trial".
func trialKind(r result.Record) string { return result.Get(r.Config, "trial") }

// framesDone is the frames a second that trial's box forwarded, or threw away where that
// is its service.
func framesDone(trial result.Record) float64 {
	if trial.Load == nil || trial.Account == nil {
		return 0
	}
	place, drops := strings.CutPrefix(result.Get(trial.Config, "service"), "drop-")
	if !drops {
		return float64(trial.Load.Forwarded)
	}
	if p := LoadPhase(trial.Phases); p != nil && p.End > p.Begin {
		return float64(trial.Account.DroppedAt(result.Place(place))) / seconds(*p)
	}
	return 0
}

// ForwardJoules are those of procedures that offer frames and search the throughput.
var ForwardJoules = []Joule{
	{Per: "frame", When: "under overload", Rate: func(_, trial result.Record) float64 {
		if trialKind(trial) != "overload" || trial.Status == result.Invalid {
			return 0
		}
		return framesDone(trial)
	}},
	{Per: "frame", When: "without loss, within 5 % of the throughput", Rate: func(point, trial result.Record) float64 {
		thr := point.Value("throughput_fps")
		if thr == nil || trial.Status != result.Passed || trial.Load == nil || trialKind(trial) == "overload" ||
			float64(trial.Load.Intended) < 0.95*thr.Value || float64(trial.Load.Intended) > 1.05*thr.Value {
			return 0
		}
		return framesDone(trial)
	}},
}

// loaded is a Joule of trials of some kinds; amount is what one of them did a second.
func loaded(per, when string, amount func(trial result.Record) float64, kinds ...string) Joule {
	return Joule{Per: per, When: when, Rate: func(_, trial result.Record) float64 {
		if trial.Status == result.Invalid || trial.Load == nil || !slices.Contains(kinds, trialKind(trial)) {
			return 0
		}
		return amount(trial)
	}}
}

// ofSubject are the loads of procedures that put a program under load.
func ofSubject(per string, amount func(trial result.Record) float64) []Joule {
	return []Joule{
		loaded(per, "at the load that was set", amount, "rate"),
		loaded(per, "at the highest load carried", func(trial result.Record) float64 {
			if trial.Status != result.Passed {
				return 0
			}
			return amount(trial)
		}, "limit"),
		loaded(per, "under overload", amount, "overload"),
	}
}

var (
	captureJoules = ofSubject("frame", func(trial result.Record) float64 { return float64(trial.Load.Forwarded) })
	idsJoules     = ofSubject("inspected megabit", func(trial result.Record) float64 {
		return float64(unit.L2(trial.Load.Forwarded, trial.Load.MeanSize)) / 1e6
	})
	connectionJoules = ofSubject("connection", func(trial result.Record) float64 { return float64(trial.Load.Forwarded) })
)

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
