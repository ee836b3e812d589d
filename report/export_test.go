// SPDX-License-Identifier: Apache-2.0

package report

import "boxdyno/result"

// What tests of the rooms ask of this package beside its public names.
var (
	AloneName         = aloneName
	BesideWords       = besideWords
	EnergyOf          = energyOf
	KindOurs          = kindOurs
	KindStudy         = kindStudy
	MethodPublished   = methodPublished
	Names             = names
	Next              = next
	OverloadTrial     = overloadTrial
	Searched          = searched
	SecurityProcedure = securityProcedure
	Sentence          = sentence
	Shell             = shell
	Stripped          = stripped
	Summary           = summary
	Survived          = survived
	Uncounted         = uncounted
	VerdictWord       = verdictWord
	VisitRates        = visitRates
)

// RowOf is r with figures.
func RowOf(r Row, values ...result.Value) Row {
	r.found = tabled(r.ID, []result.Record{{Values: values}})
	return r
}

// At is the row's figure of a metric.
func (r *Row) At(metric string) *Figure { return r.at(metric) }
