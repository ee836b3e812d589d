// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"slices"
	"strings"

	"boxdyno/procedure"
	"boxdyno/result"
)

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
	if p := procedure.LoadPhase(trial.Phases); p != nil && p.End > p.Begin {
		return float64(trial.Account.DroppedAt(result.Place(place))) / p.Seconds()
	}
	return 0
}

// ForwardJoules are those of procedures that offer frames and search the throughput.
var ForwardJoules = []procedure.Joule{
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
func loaded(per, when string, amount func(trial result.Record) float64, kinds ...string) procedure.Joule {
	return procedure.Joule{Per: per, When: when, Rate: func(_, trial result.Record) float64 {
		if trial.Status == result.Invalid || trial.Load == nil || !slices.Contains(kinds, trialKind(trial)) {
			return 0
		}
		return amount(trial)
	}}
}

// OfSubject are the Joules of procedures that put a program under load.
func OfSubject(per string, amount func(trial result.Record) float64) []procedure.Joule {
	return []procedure.Joule{
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
