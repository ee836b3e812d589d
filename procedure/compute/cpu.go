// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"time"

	"boxdyno/lab"
	"boxdyno/procedure"
	"boxdyno/procedure/internal/metrics"
	"boxdyno/procedure/internal/param"
	"boxdyno/subject/compute"
	"boxdyno/subject/stress"
)

// CPUSpec is the row of cpu.
var CPUSpec = procedure.Spec{
	Name: "cpu", Needs: lab.OwnMachine, Lab: lab.Here, Alone: true,
	Deviation: "figures of several copies are the sum of their own reports",
	Quick:     "each program of cpu runs for 1 s, 3 times, not for 10 s and 10 times",
	Doc:       "this machine computing: Dhrystone, Whetstone, 7-Zip, sysbench and stressors of stress-ng on one, some or all CPUs, or on each type of core",
	Names:     []string{"subject", "parallel", "core_type"}, Metrics: cpuMetrics, Joules: cpuJoules, New: newCPU,
}

// A CPU lets programs compute on one, some or all CPUs of this machine.
type CPU struct {
	work
	subject    param.Choice
	length     time.Duration
	optimise   param.Choice
	dictionary param.Count
	primes     param.Count
}

func newCPU() procedure.Procedure {
	names := compute.CPUSpecs().Names()
	return &CPU{
		work: newWork(), subject: param.NewChoice("dhrystone", names), optimise: param.NewChoice("O2", compute.OptimiseLevels()),
		dictionary: param.NewCount(22, 18, 28), primes: param.NewCount(10_000, 3, 1_000_000),
	}
}

func (p *CPU) Flags(fs *flag.FlagSet) {
	fs.Var(&p.subject, "subject", "`program` that computes")
	p.work.flags(fs)
	p.userland.Declare(fs)
	fs.DurationVar(&p.length, "duration", p.length, "how `long` a round lasts, in whole seconds, but of 7-zip, which makes one pass; 0s: as preset says")
	fs.Var(&p.optimise, "optimise", "of dhrystone and whetstone: the compiler's `level`")
	fs.Var(&p.dictionary, "dictionary", "of 7-zip: `size` of the dictionary as a power of 2")
	fs.Var(&p.primes, "primes", "of sysbench: `limit` of the primes of an event")
}

func (p *CPU) time() time.Duration {
	if p.length > 0 {
		return p.length
	}
	return p.seconds()
}

func (p *CPU) Check(bed *lab.Testbed) error {
	if p.length != 0 && (p.length < time.Second || p.length > time.Hour || p.length%time.Second != 0) {
		return fmt.Errorf("duration %v: want whole seconds from 1s to 1h, or 0s", p.length)
	}
	return p.check(bed)
}

// sevenZipPass is about what a pass of 7-Zip takes on a small board.
const sevenZipPass = 10 * time.Second

func (p *CPU) Estimate() (int, time.Duration) {
	if p.subject.Value == "7-zip" {
		return p.estimate(sevenZipPass)
	}
	return p.estimate(p.time())
}

func (p *CPU) Run(ctx context.Context, env *procedure.Env) (procedure.Outcome, error) {
	spec, err := compute.CPUSpecs().Find(p.subject.Value)
	if err != nil {
		return procedure.Outcome{}, err
	}
	// A program that shares its CPU with others is slower; one that hangs is not.
	j := job{name: spec.Name, computes: true, limit: 10*p.time() + 2*time.Minute}
	switch s := spec.New().(type) {
	case *compute.Synthetic:
		s.For, s.Optimise = p.time(), p.optimise.Value
		j.worker = s
	case *compute.SevenZip:
		s.Dictionary = p.dictionary.Value
		j.worker, j.limit = s, time.Hour
	case *compute.Sysbench:
		s.For, s.Primes = p.time(), p.primes.Value
		j.worker = s
	case *compute.StressWork:
		s.For = p.time()
		j.worker, j.mean, j.most = s, []string{"stressor_s"}, []string{"stressor_memory_bytes"}
	default:
		return procedure.Outcome{}, fmt.Errorf("subject %s does not compute", spec.Name)
	}
	return p.run(ctx, env, j)
}

var cpuMetrics = slices.Concat(metrics.Grouped("Computing, on this machine's CPUs", slices.Concat(compute.SyntheticMetrics, compute.SevenZipMetrics, compute.SysbenchMetrics, stress.Metrics)), metrics.Grouped("What cpu took, all copies together", workMetrics))

// cpuJoules are what joules are spent on.
var cpuJoules = []procedure.Joule{
	procedure.Worked("dhrystones_per_s", "million Dhrystones", 1e6, ""), procedure.Worked("whetstones_per_s", "million Whetstone instructions", 1e6, ""),
	procedure.Worked("sysbench_events_per_s", "event", 1, ""), procedure.Worked("bogo_ops_rate", "bogo operation", 1, ""),
}
