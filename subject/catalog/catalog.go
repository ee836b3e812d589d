// SPDX-License-Identifier: Apache-2.0

// Package catalog is the table of all subjects.
package catalog

import (
	"slices"

	"boxdyno/subject"
	"boxdyno/subject/capture"
	"boxdyno/subject/cipher"
	"boxdyno/subject/compute"
	"boxdyno/subject/detector"
	"boxdyno/subject/disk"
	"boxdyno/subject/ids"
	"boxdyno/subject/stress"
	"boxdyno/subject/tunnel"
)

// Captures are those that receive the frames of a port.
var Captures = slices.Concat(capture.Specs(), ids.Specs())

// All is every subject.
var All = slices.Concat(stress.Specs(), ids.Specs(), capture.Specs(), detector.Specs(), compute.CPUSpecs(), compute.HashSpecs(), compute.MemorySpecs(), compute.CodecSpecs(), compute.SolverSpecs(), cipher.Specs(), tunnel.Specs())

// Main does the work of this process where it was started as the keeper of a subject,
// as a Command's gate, or as the child of a
// Detector or meter, and then does not return. Every program calls it before anything else.
func Main() {
	subject.Main()
	disk.KeeperMain()
	detector.Main()
	capture.Main()
	cipher.Main()
}
