// SPDX-License-Identifier: Apache-2.0

// Package far has a box carry out procedures that load a whole machine. The agent there
// runs them by the same code; each trial is the tester's, which keeps its record:
//
//	tester                                        agent on the box
//	Run --- procedure.run, parameters ---------> the procedure's Run, in topology here
//	Env.Trial writes "running" <--- trial ------ its Env.Trial
//	        --- procedure.answer: go ----------> carries the trial out
//	judges, keeps the record <--- outcome ------ what it found, with instants of the box's clock
//	        --- procedure.answer: record ------> goes on
package far

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"boxdyno/agent"
	"boxdyno/host"
	"boxdyno/lab"
	"boxdyno/procedure"
	"boxdyno/procedure/capture"
	"boxdyno/procedure/compute"
	"boxdyno/procedure/rfc2544"
	"boxdyno/procedure/soak"
	"boxdyno/procedure/storage"
	"boxdyno/result"
	"boxdyno/unit"
)

// Specs are the procedures that a box can carry out.
var Specs = []procedure.Spec{compute.CryptoSpec, storage.Spec, soak.Spec, compute.CPUSpec, compute.HashSpec, compute.MemorySpec, compute.CodecSpec, compute.HPLSpec}

// Joint are the procedures that boards of a fleet carry out as one work. What they do opens
// ports to other boards, which a board must allow its hub (package fleet, "network").
var Joint = []procedure.Spec{compute.HPLMPISpec}

// Paired are the procedures that two boards of a fleet carry out, each in one part: the one
// that carries them out sends to the other one (pair.go).
var Paired = []procedure.Spec{capture.GivenSpec, rfc2544.ArmSpec}

// Arms says whether a paired procedure sends through the other board, which sends frames back.
func Arms(s procedure.Spec) bool { return s.Needs&lab.Ports != 0 }

// Carries says whether a box carries a procedure out; others run here, and their subjects there.
func Carries(name string) bool {
	return slices.ContainsFunc(Specs, func(s procedure.Spec) bool { return s.Name == name })
}

const (
	checkMethod  agent.Ask[procedureArgs, agent.None] = "procedure.check"
	runMethod    agent.Ask[procedureArgs, agent.None] = "procedure.run" // a stream of item
	jointMethod  agent.Ask[procedureArgs, agent.None] = "network.run"   // the same, of Joint
	answerMethod agent.Ask[answer, agent.None]        = "procedure.answer"
)

// procedureArgs are a procedure's name and those of its parameters that are not its defaults.
type procedureArgs struct {
	Name     string        `json:"name"`
	Params   []result.Pair `json:"params,omitempty"`
	Together bool          `json:"together,omitempty"` // its work waits for other boxes
}

// made is the procedure of a, of those of specs.
func (a procedureArgs) made(specs []procedure.Spec) (procedure.Procedure, error) {
	i := slices.IndexFunc(specs, func(s procedure.Spec) bool { return s.Name == a.Name })
	if i < 0 {
		var names []string
		for _, s := range specs {
			names = append(names, s.Name)
		}
		return nil, fmt.Errorf("a box carries out %s by itself, and no procedure %q", strings.Join(names, ", "), a.Name)
	}
	p := specs[i].New()
	fs := flag.NewFlagSet("", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	p.Flags(fs)
	for _, q := range a.Params {
		f := fs.Lookup(q.Key)
		if f == nil {
			return nil, fmt.Errorf("%s has no parameter %q", a.Name, q.Key)
		}
		if f.DefValue == q.Value {
			continue
		}
		if err := f.Value.Set(q.Value); err != nil {
			return nil, fmt.Errorf("%s %q: %w", q.Key, q.Value, err)
		}
	}
	return p, nil
}

// An item is what the procedure asks for, or the outcome of what it was let do.
type item struct {
	Kind    string             `json:"kind"`
	Config  []result.Pair      `json:"config,omitempty"`
	Outcome *procedure.Outcome `json:"outcome,omitempty"`
	Failure *failure           `json:"failure,omitempty"`  // of an outcome
	Began   unit.Instant       `json:"began,omitempty"`    // of an outcome: when work that waited for other boxes began
	Data    []byte             `json:"data,omitempty"`     // of gather
	Call    *call              `json:"call,omitempty"`     // of another board
	Heard   time.Duration      `json:"heard_ns,omitempty"` // of such an outcome: so long before the common instant the box heard of it
}

// The kinds of item.
const (
	trialItem      = "trial"      // answered by go, or by the record that there is
	outcomeItem    = "outcome"    // of a trial, answered by its record; of the procedure, which is answered by nothing
	unfinishedItem = "unfinished" // answered by the record of the trial that did not end
	pauseItem      = "pause"      // answered by go once the run comes back
	readyItem      = "ready"      // in a trial: answered by the instant at which the work begins
	gatherItem     = "gather"     // answered by what all boxes gave
	callItem       = "call"       // of another board, which the tester passes on
)

// An answer lets the procedure go on.
type answer struct {
	Go     bool           `json:"go,omitempty"`
	Record *result.Record `json:"record,omitempty"`
	Age    time.Duration  `json:"age_ns,omitempty"` // of an unfinished trial: how long ago it was begun
	At     unit.Instant   `json:"at,omitempty"`     // of the box's clock
	All    [][]byte       `json:"all,omitempty"`    // what boxes gave
	Here   int            `json:"here,omitempty"`   // which of All is the box's
	Error  string         `json:"error,omitempty"`
}

// A failure is an error, as which a *host.Missing comes back.
type failure struct {
	Text    string        `json:"text"`
	Missing *host.Missing `json:"missing,omitempty"`
}

func fails(err error) *failure {
	if err == nil {
		return nil
	}
	f := &failure{Text: err.Error()}
	errors.As(err, &f.Missing)
	return f
}

// err is the error on the box of that name.
func (f *failure) err(box string) error {
	switch {
	case f == nil:
		return nil
	case f.Missing != nil:
		m := *f.Missing
		m.What = "on " + box + ": " + m.What
		return &m
	}
	return fmt.Errorf("%s: %s", box, f.Text)
}
