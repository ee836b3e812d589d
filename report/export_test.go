// SPDX-License-Identifier: Apache-2.0

package report

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
