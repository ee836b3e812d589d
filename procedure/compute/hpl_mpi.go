// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"runtime"
	"slices"

	"boxdyno/host"
	"boxdyno/procedure"
	"boxdyno/procedure/internal/metrics"
	"boxdyno/procedure/internal/param"
	"boxdyno/subject/compute"
	"boxdyno/subject/mpi"
)

// HPLMPISpec is the row of hpl-mpi, which only boards of a fleet carry out.
var HPLMPISpec = procedure.Spec{
	Name: "hpl-mpi", Joint: true, Alone: true,
	Deviation: HPLSpec.Deviation,
	Quick:     HPLSpec.Quick,
	Doc:       "one dense system of linear equations, solved by all of them: HPL over MPI",
	Names:     []string{"mpi", "blas", "parallel"}, Metrics: hplMPIMetrics, Joules: hplJoules, New: newHPLMPI,
}

// An HPLMPI solves one dense system of linear equations on the CPUs of several machines:
//
//	each machine tells CPUs, memory, programs, networks ---Env.Gather---> all know all
//	    -> the same problem, grid, ranks and network for all, worked out by each
//	    -> a process on each CPU, which finds the others by Gather (package mpi)
//
//	order   N = sqrt(share of the least memory per process x processes / 8 octets)
type HPLMPI struct {
	HPL
	mpi     param.Choice
	network mpi.Network
}

func newHPLMPI() procedure.Procedure {
	return &HPLMPI{HPL: *newHPL().(*HPL), mpi: param.NewChoice("auto", []string{"auto", mpi.OpenMPI, mpi.MPICH})}
}

// Flags implements Procedure.
func (p *HPLMPI) Flags(fs *flag.FlagSet) {
	p.HPL.Flags(fs)
	fs.Var(&p.mpi, "mpi", "what carries the messages; auto: the one that hpcc is linked to")
	fs.Var(&p.network, "network", "`PREFIX` of IPv4 that carries messages between machines, such as 10.0.0.0/24; auto: the first private one that all are in")
}

// A part is what a machine tells the others of itself.
type part struct {
	Processes int       `json:"processes"`
	Memory    uint64    `json:"memory"` // octets
	Arch      string    `json:"arch"`
	Programs  string    `json:"programs"`
	Nets      []mpi.Net `json:"nets"`
}

const mostMemory = 1 << 50 // more than a machine has

// Run implements Procedure.
func (p *HPLMPI) Run(ctx context.Context, env *procedure.Env) (o procedure.Outcome, err error) {
	local := &host.Local{}
	cpus, err := p.cpus(local, env.Bed.CPUs)
	if err != nil {
		return o, err
	}
	s := &compute.HPLPart{CPUs: cpus, HPL: compute.HPL{BLAS: p.blas.Value}}
	if err := s.Choose(ctx, local, p.mpi.Value); err != nil {
		return refused(ctx, err)
	}
	mine := part{Processes: len(cpus), Memory: local.Identify().Memory, Arch: runtime.GOARCH, Programs: s.Version(ctx, local)}
	if mine.Nets, err = mpi.Nets(); err != nil {
		return o, err
	}
	all, here, err := p.tell(ctx, env, mine)
	if err != nil {
		return o, err
	}
	if err := p.plan(s, all, here); err != nil {
		return refused(ctx, err)
	}
	s.Gather = func(ctx context.Context, mine []byte) ([][]byte, error) {
		all, _, err := env.Gathered(ctx, mine)
		return all, err
	}
	return p.run(ctx, env, job{name: "hpcc", worker: s, parts: s, limit: s.Patience() + solving(s.Order, s.Layout.Size()), rounds: hplRounds})
}

// tell has all machines know what each of them is.
func (p *HPLMPI) tell(ctx context.Context, env *procedure.Env, mine part) (all []part, here int, err error) {
	text, err := json.Marshal(mine)
	if err != nil {
		return nil, 0, err
	}
	theirs, here, err := env.Gathered(ctx, text)
	if err != nil {
		return nil, 0, err
	}
	for i, text := range theirs {
		var x part
		if err := json.Unmarshal(text, &x); err != nil {
			return nil, 0, fmt.Errorf("board %d of them says of itself what cannot be read: %w", i+1, err)
		}
		if x.Processes < 1 || x.Processes > param.MostCPUs || x.Memory > mostMemory {
			return nil, 0, fmt.Errorf("board %d of them says that it has %d CPUs and %d octets of memory", i+1, x.Processes, x.Memory)
		}
		all = append(all, x)
	}
	return all, here, nil
}

// plan is what s is of all machines; each works out the same.
func (p *HPLMPI) plan(s *compute.HPLPart, all []part, here int) error {
	s.Layout = mpi.Layout{Here: here}
	least := uint64(mostMemory) // of a process
	var nets [][]mpi.Net
	for i, x := range all {
		if x.Arch != all[0].Arch || x.Programs != all[0].Programs {
			return fmt.Errorf("the boards cannot pass messages to each other: the first has %s on %s, and number %d has %s on %s", all[0].Programs, all[0].Arch, i+1, x.Programs, x.Arch)
		}
		s.Layout.Processes = append(s.Layout.Processes, x.Processes)
		least = min(least, x.Memory/uint64(x.Processes))
		nets = append(nets, x.Nets)
	}
	size := s.Layout.Size()
	if size > mpi.MostProcesses {
		return fmt.Errorf("%d processes: %d are the most", size, mpi.MostProcesses)
	}
	at, err := mpi.Shared(nets, p.network.Prefix)
	if err != nil {
		return err
	}
	problem, err := p.problem(size, least*uint64(size))
	if err != nil {
		return err
	}
	s.Net = at[here]
	s.Order, s.Block, s.Rows, s.Columns = problem.Order, problem.Block, problem.Rows, problem.Columns
	return nil
}

var hplMPIMetrics = slices.Concat(
	metrics.Grouped("Solving one dense system of linear equations (HPL) together", slices.Concat(compute.HPLMetrics, compute.HPLPartMetrics)),
	metrics.Grouped("What hpl-mpi took, all boards together", workMetrics))
