// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"context"
	"flag"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"boxdyno/host"
	"boxdyno/lab"
	"boxdyno/procedure"
	"boxdyno/procedure/internal/metrics"
	"boxdyno/procedure/internal/param"
	"boxdyno/result"
	"boxdyno/subject/compute"
)

// HPLSpec is the row of hpl.
var HPLSpec = procedure.Spec{
	Name: "hpl", Needs: lab.OwnMachine, Lab: lab.Here, Alone: true,
	Deviation: "HPL is the last of hpcc's tests, and the others are in no figure; it solves a system 3 times, with one process of one thread for each CPU",
	Quick:     "hpl's matrix has an order of at most 2000 times the cube root of the processes, whatever memory_share is",
	Doc:       "this machine solving a dense system of linear equations: HPL over MPI on all or some CPUs, with an installed BLAS",
	Names:     []string{"blas", "parallel"}, Metrics: hplMetrics, Joules: hplJoules, New: newHPL,
}

// An HPL solves a dense system of linear equations on this machine's CPUs, a process on
// each:
//
//	order   N = sqrt(share of memory / 8 octets); quick: 2000 x cube root of the processes
//	grid    P x Q processes, P the largest divisor of their number that is at most Q
type HPL struct {
	work
	order param.Count
	share param.Count // of memory, in %
	block param.Count
	grid  grid
	blas  param.Choice
}

func newHPL() procedure.Procedure {
	p := &HPL{
		work: newWork(), order: param.NewCount(0, 0, 1_000_000), share: param.NewCount(80, 1, 95), block: param.NewCount(128, 1, 1024), grid: grid{text: "auto"},
		blas: param.NewChoice(compute.SystemBLAS, compute.BLASNames()),
	}
	p.parallel = parallel{text: "all"}
	return p
}

func (p *HPL) Flags(fs *flag.FlagSet) {
	p.work.flags(fs)
	fs.Var(&p.order, "order", "`N` of the matrix; 0: of memory, or of the processes, as preset says")
	fs.Var(&p.share, "memory_share", "order 0: share of the machine's memory that the matrix takes, in `%`")
	fs.Var(&p.block, "block", "`NB`, the order of the blocks that the matrix is divided into")
	fs.Var(&p.grid, "grid", "`PxQ` processes, as many as there are CPUs; auto: as square as it can be")
	fs.Var(&p.blas, "blas", "library of basic linear algebra; system: the one that the machine has chosen")
}

func (p *HPL) Check(bed *lab.Testbed) error {
	if err := p.check(bed); err != nil || bed == nil {
		return err
	}
	cpus, err := p.cpus(&host.Local{}, bed.CPUs)
	if err != nil {
		return err
	}
	_, err = p.problem(len(cpus), (&host.Local{}).Identify().Memory)
	return err
}

// hplRounds is how often a system is solved at a point, whatever the preset: standard's
// are large.
const hplRounds = 3

func (p *HPL) Estimate() (int, time.Duration) {
	// As a core of a small board computes, and as long as hpcc's other tests take there.
	const each, around = 2e9, 15 * time.Second
	local := &host.Local{}
	m := local.Identify()
	n := max(m.CPUs, 1)
	if cpus, err := p.cpus(local, host.ParseCPUs(fmt.Sprintf("0-%d", n-1))); err == nil {
		n = len(cpus)
	}
	took := around
	if s, err := p.problem(n, m.Memory); err == nil {
		took += time.Duration(2.0 / 3.0 * math.Pow(float64(s.Order), 3) / (each * float64(n)) * 1e9)
	}
	return hplRounds + 1, hplRounds * took
}

// problem is what so many processes solve on a machine with so much memory in octets.
func (p *HPL) problem(processes int, memory uint64) (*compute.HPL, error) {
	s := compute.NewHPL()
	s.Block, s.BLAS = p.block.Value, p.blas.Value
	s.Rows, s.Columns = p.grid.rows, p.grid.columns
	if s.Rows == 0 {
		s.Rows, s.Columns = squarest(processes)
	}
	if s.Rows*s.Columns != processes {
		return nil, fmt.Errorf("grid %s: it has %d processes, and there are %d CPUs (parallel %s)", p.grid.text, s.Rows*s.Columns, processes, p.parallel.text)
	}
	if s.Order = p.order.Value; s.Order > 0 {
		if s.Block > s.Order {
			return nil, fmt.Errorf("block %d: it is larger than the matrix, whose order is %d", s.Block, s.Order)
		}
		return s, nil
	}
	octets := float64(memory) * float64(p.share.Value) / 100
	if strconv.IntSize == 32 { // a process has 3 GB of addresses, and other things in them
		octets = min(octets, 2e9*float64(processes))
	}
	order := math.Sqrt(octets / 8)
	if p.preset.Value == "quick" {
		order = min(order, 2000*math.Cbrt(float64(processes)))
	}
	if s.Order = int(order) / s.Block * s.Block; s.Order == 0 {
		return nil, fmt.Errorf("block %d: not one of them fits into %d %% of the memory: give a smaller one", s.Block, p.share.Value)
	}
	return s, nil
}

// squarest is n as P x Q with P the largest divisor that is at most Q.
func squarest(n int) (p, q int) {
	for p = int(math.Sqrt(float64(n))); n%p != 0; p-- {
	}
	return p, n / p
}

func (p *HPL) Run(ctx context.Context, env *procedure.Env) (procedure.Outcome, error) {
	local := &host.Local{}
	cpus, err := p.cpus(local, env.Bed.CPUs)
	if err != nil {
		return procedure.Outcome{}, err
	}
	s, err := p.problem(len(cpus), local.Identify().Memory)
	if err != nil {
		return procedure.Outcome{}, err
	}
	return p.run(ctx, env, job{name: "hpcc", worker: s, limit: others + solving(s.Order, len(cpus)), together: true, rounds: hplRounds})
}

// others is how long hpcc's other tests may take on one machine.
const others = 5 * time.Minute

// solving is how long so many processes may take for a system. No board is as slow as 10 Mflop/s
// a process; and what swaps will not end.
func solving(order, processes int) time.Duration {
	return time.Duration(2.0 / 3.0 * math.Pow(float64(order), 3) / (10e6 * float64(processes)) * 1e9)
}

// A grid is P x Q processes.
type grid struct {
	text          string
	rows, columns int // 0: as square as it can be
}

func (g *grid) String() string { return g.text }

func (g *grid) Set(s string) error {
	if s == "auto" {
		*g = grid{text: s}
		return nil
	}
	rows, columns, ok := strings.Cut(s, "x")
	p, err := strconv.Atoi(rows)
	q, err2 := strconv.Atoi(columns)
	if !ok || err != nil || err2 != nil || p < 1 || q < 1 || p > param.MostCPUs || q > param.MostCPUs {
		return fmt.Errorf("%q is neither auto nor rows and columns such as 2x4", s)
	}
	*g = grid{fmt.Sprintf("%dx%d", p, q), p, q}
	return nil
}

var hplMetrics = slices.Concat(metrics.Grouped("Solving a dense system of linear equations (HPL), on this machine's CPUs", compute.HPLMetrics), metrics.Grouped("What hpl took, all copies together", workMetrics))

// hplJoules are what joules are spent on.
var hplJoules = []procedure.Joule{{Per: "GFLOP", Rate: procedure.Worked("hpl_rate", "", 1e9, "").Rate, Within: func(trial result.Record) float64 {
	if v := trial.Value("hpl_s"); v != nil { // hpcc's other tests ran before it
		return v.Value
	}
	return 0
}}}
