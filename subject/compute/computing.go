// SPDX-License-Identifier: Apache-2.0

// Package compute holds the programs that work to their end: processors, memory, codecs,
// hash functions and linear equations.
package compute

import (
	"time"

	"boxdyno/subject"
	"boxdyno/subject/stress"
)

// CPUSpecs are the subjects that compute on processors.
func CPUSpecs() subject.Specs {
	specs := subject.Specs{
		{Name: "dhrystone", Doc: "Dhrystone 2.1: integers, strings, records, compiled on the machine", Metrics: SyntheticMetrics[:2], New: func() subject.Subject { return newSynthetic(dhrystone) }},
		{Name: "whetstone", Doc: "Whetstone in double precision: arithmetic and the C library's functions, compiled on the machine", Metrics: SyntheticMetrics[2:], New: func() subject.Subject { return newSynthetic(whetstone) }},
		{Name: "7-zip", Doc: "7-Zip's own benchmark of LZMA, one thread", Metrics: SevenZipMetrics, New: func() subject.Subject { return NewSevenZip() }},
		{Name: "sysbench", Doc: "sysbench's test cpu: primes, one thread", Metrics: SysbenchMetrics, New: func() subject.Subject { return NewSysbench() }},
	}
	for _, s := range []struct{ name, doc string }{
		{"matrix", "operations on matrices of floating-point numbers"},
		{"vecmath", "vectors of integers of 128 bits"},
		{"vecfp", "vectors of floating-point numbers"},
		{"hash", "hash functions that are none of cryptography"},
	} {
		specs = append(specs, subject.Spec{Name: "stress-" + s.name, Doc: "stress-ng's stressor " + s.name + ": " + s.doc, Metrics: stress.Metrics, New: func() subject.Subject { return &StressWork{Stressor: s.name, For: time.Second} }})
	}
	for i := range specs {
		specs[i].Work = "cpu"
	}
	return specs
}
