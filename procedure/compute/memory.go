// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"time"

	"boxdyno/host"
	"boxdyno/lab"
	"boxdyno/procedure"
	"boxdyno/procedure/internal/metrics"
	"boxdyno/procedure/internal/param"
	"boxdyno/result"
	"boxdyno/subject/compute"
)

// MemorySpec is the row of memory.
var MemorySpec = procedure.Spec{
	Name: "memory", Needs: lab.OwnMachine, Lab: lab.Here, Alone: true,
	Deviation: "memory-stream is a source of our own after STREAM's published kernels: its figures are those of a variant of the STREAM benchmark; figures of several copies are the sum of their own reports",
	Quick:     "kernels of memory run for 1 s, those of its latency for 0.1 s, 3 times, not for 10 s, 1 s and 10 times; working sets are the powers of two",
	Doc:       "this machine's memory on one, some or all CPUs: write, read and copy rates of a locked buffer, STREAM, and latency by working set",
	Names:     []string{"subject", "parallel", "core_type"}, Metrics: memoryMetrics, Joules: memoryJoules, New: newMemory,
}

// Memory measures this machine's memory: its bandwidth over a locked buffer, STREAM, and
// the time of a load against the working set, which is a trial for each working set:
//
//	known answer, a trial
//	each round:  4 KiB, a trial | 8 KiB, a trial | ... | the largest, a trial
type Memory struct {
	work
	subject  param.Choice
	size     octets
	optimise param.Choice

	each time.Duration // how long a kernel runs; 0: as preset says
}

func newMemory() procedure.Procedure {
	names := compute.MemorySpecs().Names()
	return &Memory{work: newWork(), subject: param.NewChoice(names[0], names), optimise: param.NewChoice("O3", compute.OptimiseLevels())}
}

func (p *Memory) Flags(fs *flag.FlagSet) {
	fs.Var(&p.subject, "subject", "`program` that measures: memory-bandwidth writes, reads and copies a locked buffer, memory-latency walks through working sets, memory-stream is STREAM")
	p.work.flags(fs)
	p.userland.Declare(fs)
	fs.Var(&p.size, "size", "`octets` of all copies together: the locked buffer, the largest working sets, or each STREAM array; 0: a buffer of 2 GB or half of the available memory, else 4 times the last-level cache")
	fs.Var(&p.optimise, "optimise", "the compiler's `level`")
}

func (p *Memory) Check(bed *lab.Testbed) error {
	if err := p.check(bed); err != nil || bed == nil {
		return err
	}
	cpus, err := p.cpus(&host.Local{}, bed.CPUs)
	if err == nil && p.size > 0 && share(int64(p.size), len(cpus)) < compute.LeastMemory {
		return fmt.Errorf("size %d: want %d octets at least for each of %d copies", p.size, compute.LeastMemory, len(cpus))
	}
	return err
}

const (
	studyBuffer   = 2_000_000_000 // octets, as the published study locks them
	streamLeast   = 80_000_000    // of an array: STREAM's ten million elements
	latencyLeast  = 64 << 20      // of the largest working set
	assumedCache  = 16 << 20      // where the kernel does not say
	cachesForSize = 4             // as STREAM's run rules ask of an array
)

// share is what each of n copies has of size, in whole pages.
func share(size int64, n int) int64 {
	return size / int64(n) / compute.LeastMemory * compute.LeastMemory
}

// sized is how many octets all copies on the CPUs have together, and what it was chosen by.
func (p *Memory) sized(h *host.Local, cpus []int) (size int64, by []result.Pair) {
	cache := h.LastLevelCache(cpus)
	switch {
	case cache > 0:
		by = []result.Pair{{Key: "last_level_cache", Value: strconv.FormatInt(cache, 10)}}
	case p.size == 0 && p.subject.Value != "memory-bandwidth":
		cache, by = assumedCache, []result.Pair{{Key: "last_level_cache", Value: fmt.Sprintf("not told, %d assumed", assumedCache)}}
	}
	switch {
	case p.size > 0:
		return int64(p.size), by
	case p.subject.Value == "memory-bandwidth":
		size = studyBuffer
		if half := int64(h.MemoryAvailable() / 2); half > 0 && half < size {
			for size = compute.LeastMemory; size*2 <= half; size *= 2 {
			}
		}
		return size, by
	case p.subject.Value == "memory-stream":
		return max(cachesForSize*cache, streamLeast), by
	}
	return max(cachesForSize*cache, latencyLeast*int64(len(cpus))), by
}

// sets are the working sets up to the largest: powers of two, by the standard with those
// between.
func (p *Memory) sets(largest int64) (sets []int64) {
	for s := int64(compute.LeastMemory); s < largest; s *= 2 {
		sets = append(sets, s)
		if p.preset.Value == "standard" && s+s/2 < largest {
			sets = append(sets, s+s/2)
		}
	}
	if n := len(sets); n > 1 && float64(largest) < 1.25*float64(sets[n-1]) {
		sets = sets[:n-1] // the largest is as good
	}
	return append(sets, largest)
}

// kernel is how long a kernel runs.
func (p *Memory) kernel() time.Duration {
	switch {
	case p.each > 0:
		return p.each
	case p.subject.Value == "memory-latency":
		return p.seconds() / 10
	}
	return p.seconds()
}

// What a round takes beside its kernels, on a small board: to lock, clear, fill and check
// a buffer of 2 GB; ten passes of STREAM; to lay out all working sets.
const (
	bandwidthAround = 5 * time.Second
	streamTakes     = 10 * time.Second
	latencyAround   = 12 * time.Second
)

func (p *Memory) Estimate() (int, time.Duration) {
	switch p.subject.Value {
	case "memory-stream":
		return p.estimate(streamTakes)
	case "memory-latency":
		n := len(p.sets(1 << 30))
		return p.rounds()*n + 1, time.Duration(p.rounds())*(time.Duration(n)*(p.kernel()+workAround)+latencyAround) + time.Second
	}
	return p.estimate(3*p.kernel() + bandwidthAround)
}

func (p *Memory) Run(ctx context.Context, env *procedure.Env) (o procedure.Outcome, err error) {
	spec, err := compute.MemorySpecs().Find(p.subject.Value)
	if err != nil {
		return o, err
	}
	m, ok := spec.New().(*compute.Memory)
	if !ok {
		return o, fmt.Errorf("subject %s does not measure memory", spec.Name)
	}
	local := &host.Local{}
	cpus, err := p.cpus(local, env.Bed.CPUs)
	if err != nil {
		return o, err
	}
	size, by := p.sized(local, cpus)
	m.Copies, m.For, m.Optimise = len(cpus), p.kernel(), p.optimise.Value
	m.Size = share(size, m.Copies)
	by = append([]result.Pair{{Key: "size_of_each", Value: strconv.FormatInt(m.Size, 10)}}, by...)
	// A pass of a loaded machine over a large buffer takes its time.
	limit := 10*p.kernel() + 5*time.Minute + time.Duration(size/10e6)*time.Second
	j := job{name: spec.Name, worker: memoryWorker{m, by}, limit: limit, computes: true, mean: []string{"load_latency_s", "lock_s"}}
	if p.subject.Value != "memory-latency" {
		return p.run(ctx, env, j)
	}
	return p.walk(ctx, env, j, m, by)
}

// A memoryWorker is a program whose figures are of a size, too.
type memoryWorker struct {
	*compute.Memory
	by []result.Pair
}

func (w memoryWorker) Identify(ctx context.Context, h *host.Local) ([]result.Pair, error) {
	of, err := w.Memory.Identify(ctx, h)
	return append(of, w.by...), err
}

// walk measures the latency of each working set in turn, round after round.
func (p *Memory) walk(ctx context.Context, env *procedure.Env, j job, largest *compute.Memory, by []result.Pair) (procedure.Outcome, error) {
	s, o, err := p.begin(ctx, env, j)
	if err != nil || o.Status != result.Passed {
		return o, err
	}
	var first, last []float64
	var around rounds
	invalid, sets := 0, p.sets(largest.Size)
	for n := range p.rounds() {
		for i, size := range sets {
			m := *largest
			m.Size = size
			j.worker = memoryWorker{&m, by}
			rec, err := s.round(ctx, env, j, n, result.Pair{Key: "working_set", Value: strconv.FormatInt(size, 10)})
			if err != nil {
				return o, err
			}
			switch rec.Status {
			case result.Passed:
			case result.Invalid:
				invalid, o.Reason = invalid+1, rec.Reason
				continue
			default:
				o.Status, o.Reason = rec.Status, fmt.Sprintf("a working set of %d octets: %s", size, rec.Reason)
				return o, nil
			}
			latency := rec.Value("load_latency_s").Value
			if i == 0 {
				first = append(first, latency)
			}
			if i == len(sets)-1 {
				last, o.Usage = append(last, latency), rec.Usage
				around.add(slices.DeleteFunc(slices.Clone(rec.Values), func(v result.Value) bool { return v.Metric == "load_latency_s" }))
			}
		}
	}
	if len(last) > 0 {
		o.Values = append(o.Values, declared.Spread("memory_latency_s", last))
	}
	if len(first) > 0 {
		o.Values = append(o.Values, declared.Spread("cache_latency_s", first))
	}
	o.Values = append(o.Values, around.values()...)
	if invalid > 0 {
		without(&o, invalid, p.rounds()*len(sets))
	}
	return o, nil
}

// An octets is a size, or 0.
type octets int64

func (o *octets) String() string { return strconv.FormatInt(int64(*o), 10) }

func (o *octets) Set(text string) error {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n != 0 && n < compute.LeastMemory || n > 1<<46 {
		return fmt.Errorf("%q is neither 0 nor a whole number of octets from %d to %d", text, compute.LeastMemory, int64(1)<<46)
	}
	*o = octets(n)
	return nil
}

var memoryMetrics = slices.Concat(metrics.Grouped("Memory, by this machine's CPUs", compute.MemoryMetrics), []result.Metric{
	{Name: "memory_latency_s", Label: "load, largest set", Interval: "range", Heads: true, Unit: "s", Better: -1, Help: "time of a load that must wait for the load before it, over the largest working set: translation of addresses included"},
	{Name: "cache_latency_s", Label: "load, 4 KiB", Interval: "range", Heads: true, Unit: "s", Better: -1, Help: "the same over the smallest, 4 KiB, which the nearest cache holds"},
}, metrics.Grouped("What memory took, all copies together", workMetrics))

// memoryJoules are what joules are spent on.
var memoryJoules = []procedure.Joule{
	procedure.Worked("memory_write_rate", "gigabyte", 1e9, ""), procedure.Worked("memory_read_rate", "gigabyte", 1e9, ""), procedure.Worked("memory_copy_rate", "gigabyte", 1e9, ""),
}
