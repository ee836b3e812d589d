// SPDX-License-Identifier: Apache-2.0

package text

import (
	"cmp"
	"errors"

	"boxdyno/report"
	"boxdyno/result"
)

// ErrNothing is the error for runs without a figure that a format has a place for.
var ErrNothing = errors.New("these runs have no figures for this format")

// tested is the machine that a run's figures are of; nil where the run does not know it:
// boxes behind cables are not looked into, and figures of several boards are of no one.
func tested(d report.Document) *result.Machine {
	switch {
	case d.Topology == "wire2" || d.Topology == "mem":
		return nil
	case len(d.Machines) == 1 && d.Box == "":
		return &d.Machines[0]
	case len(d.Machines) == 2 && d.Box != "": // the tester is the first one
		return &d.Machines[1]
	}
	return nil
}

// nameOf is what to call what was tested: its user's name, its model, its host's name, or
// the run's.
func nameOf(d report.Document) string {
	if m := tested(d); m != nil {
		return cmp.Or(d.Box, m.Board, m.Name, d.ID)
	}
	return cmp.Or(d.Box, d.ID)
}

// points are the records of a run's valid points.
func points(run report.Kept) (out []result.Record) {
	for _, r := range run.Records {
		if r.Parent == "" && r.Procedure != report.SelfTestProcedure && report.Fit(r) {
			out = append(out, r)
		}
	}
	return out
}
