// SPDX-License-Identifier: Apache-2.0

// Package job is what an emulated board is asked to do, and the form in which its
// results come back: the words between the command boards, which starts it, and the
// program that is its init.
//
//	boards -> initramfs: /init, Path, modules, programs, files -> QEMU -> init reads Path
//	init -> a tar stream on the device Results:
//	        boot.json, then of each command N: N/stdout N/stderr N/outcome.json,
//	        out/... (what lies in Out in the end), end
//
// A stream without its last entry is of a board that died.
package job

import "time"

const (
	Path = "/job.json" // where the board finds its Job
	Out  = "/out"      // where its commands run, and what comes back in the end
	Seed = "/seed"     // files for the board's disk, by their path there

	// Entries of the stream of results.
	BootEntry    = "boot.json"
	StdoutEntry  = "stdout"
	StderrEntry  = "stderr"
	OutcomeEntry = "outcome.json"
	EndEntry     = "end"

	// Emulated is the parameter of a kernel by which host.Identify knows a board that
	// is modelled so well that nothing else of it tells.
	Emulated = "boxdyno.emulated=qemu"

	// Port is the name of the virtio port that boards with virtio send results over.
	Port = "boxdyno.results"
)

// A Job is what a board does between its start and its end.
type Job struct {
	Board    string    // its host name
	Modules  []string  // files of kernel modules, in the order in which they are loaded
	Results  string    // device for the stream of results, as a pattern of names ("/dev/vport*")
	Commands []Command // one after another, whatever becomes of the one before
	Root     string    // disk with a distribution: init brings it the files of Seed and hands over to its /sbin/init; "": none
}

// A Command is run in Out, with no standard input and little of an environment.
type Command struct {
	Argv  []string
	Limit time.Duration // it and its process group are killed then
}

// A Boot is what was found when the board was up.
type Boot struct {
	Kernel   string
	Seconds  float64  // since the kernel began
	Problems []string // modules and file systems that are not there
}

// An Outcome is how a command ended.
type Outcome struct {
	Argv    []string
	Exit    int     // 128 and the signal's number where one ended it; 127 where it could not be started
	Problem string  // why it could not be started, or that its time was over
	Seconds float64 // in the board
}
