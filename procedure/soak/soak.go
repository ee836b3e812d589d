// SPDX-License-Identifier: Apache-2.0

// Package soak is the procedure that loads this machine with stress-ng, one stressor at a
// time on all CPUs.
package soak

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"boxdyno/host"
	"boxdyno/lab"
	"boxdyno/procedure"
	"boxdyno/procedure/internal/metrics"
	"boxdyno/procedure/internal/param"
	"boxdyno/result"
	"boxdyno/subject"
	"boxdyno/subject/stress"
	"boxdyno/unit"
)

// Spec is the procedure's row.
var Spec = procedure.Spec{
	Name: "soak", Needs: lab.OwnMachine, Lab: lab.Here, Alone: true,
	Quick: "each stressor of soak runs for 2 s, not for 60 s: a box that needs minutes to get hot stays cold",
	Doc:   "this machine under stress-ng, one stressor at a time on all CPUs: which pass, fail or stop it, and how fast they run",
	Names: []string{"class"}, Metrics: declared, New: newSoak,
	Trials: &result.Trials{Axis: "stressor", Title: "under stress; bogo operations compare within one version of stress-ng", Metrics: []result.Metric{
		{Name: "bogo_ops", Label: "bogo-ops", Unit: "1", Help: "operations as the stressor counts them, all workers together"},
		{Name: "bogo_ops_rate", Label: "a second", Unit: "1", Better: 1, Help: "of them, a second"},
		{Name: "bogo_ops_cpu_rate", Label: "a CPU second", Unit: "1", Better: 1, Help: "of them, a second of CPU time"},
		{Name: "cpu_s", Label: "CPU", Unit: "s", Help: "CPU time of the process tree"},
		{Name: "peak_memory_bytes", Label: "memory", Unit: "B", Help: "most memory of the process tree"},
		{Name: "clock_share", Label: "clock", Share: true, Unit: "1", Better: 1, Help: "clock just after it, as a share of the fastest of the run: slowest CPU"},
		{Name: "temperature_max", Label: "°C", Unit: "°C", Better: -1, Help: "hottest sensor"},
		{Name: "power_mean_w", Label: "W", Unit: "W", Better: -1, Help: "mean power, by the meter that covers most"},
		{Name: "throttle_events", Label: "throttled", Unit: "1", Better: -1, Help: "times that the clock was lowered for heat, or that a flag of it was seen set"},
	}},
}

// Soak lets stress-ng's stressors loose on this machine, one after the other, each on
// all CPUs, and says which it passed.
//
//	for each stressor, a trial:  clock -> stress-ng, watched -> clock
//
// Temperatures, clocks and power meanwhile are the telemetry's, in the trial's digests.
type Soak struct {
	class        param.Word
	stressors    param.Word
	each         time.Duration
	pathological bool
	preset       param.Choice

	grace time.Duration // that a stressor may take to end after its time
}

func newSoak() procedure.Procedure {
	return &Soak{class: param.NewWord(allStressors, ""), stressors: param.NewWord(ofTheClass, "+"), preset: param.NewPreset(), grace: 20 * time.Second}
}

const (
	allStressors = "all"
	ofTheClass   = "class"

	// startRoom is what the disk of temporary files must have, leastRoom what every
	// stressor must leave of it.
	startRoom = 1 << 30
	leastRoom = 512 << 20
	// memoryShare is the part of the available memory that a stressor may have.
	memoryShare = 0.8

	heartbeat = 20 * time.Millisecond
	// noticeStall is from when a pause of boxdyno's own heartbeat is told of: the CPUs
	// are shared with the stressor, and a turn takes tens of ms.
	noticeStall = time.Second
	// soakAround is what a stressor takes beside its time: start, end, and two looks at
	// the clock.
	soakAround = 250 * time.Millisecond
)

func (p *Soak) Flags(fs *flag.FlagSet) {
	fs.Var(&p.class, "class", "`class` of stressors: all, or one of stress-ng's, such as cpu, memory, vm, io, filesystem, network, os")
	fs.Var(&p.stressors, "stressors", "`names` of stressors joined by +, whatever their class; class: those of the class")
	fs.DurationVar(&p.each, "each", p.each, "how `long` each stressor runs, in whole seconds; 0s: as preset says")
	fs.BoolVar(&p.pathological, "pathological", p.pathological, "let stressors run, too, that are known to hang or reboot machines")
	fs.Var(&p.preset, "preset", "quick or standard: how long")
}

func (p *Soak) Check(bed *lab.Testbed) error {
	if p.each != 0 && (p.each < time.Second || p.each > 24*time.Hour || p.each%time.Second != 0) {
		return fmt.Errorf("each %v: want whole seconds from 1s to 24h", p.each)
	}
	if p.stressors.Value != ofTheClass && p.class.Value != allStressors {
		return fmt.Errorf("class %s and stressors %s: give one of them", p.class.Value, p.stressors.Value)
	}
	if slices.Contains(strings.Split(p.stressors.Value, "+"), "") {
		return fmt.Errorf("stressors %s: a name is empty", p.stressors.Value)
	}
	if bed == nil {
		return nil
	}
	_, err := p.list(context.Background())
	return err
}

// list is the stressors to come, in stress-ng's order.
func (p *Soak) list(ctx context.Context) ([]string, error) {
	if p.stressors.Value == ofTheClass {
		return stress.Stressors(ctx, p.class.Value)
	}
	all, err := stress.Stressors(ctx, allStressors)
	if err != nil {
		return nil, err
	}
	names := strings.Split(p.stressors.Value, "+")
	for _, n := range names {
		if !slices.Contains(all, n) {
			return nil, fmt.Errorf("stressors: this stress-ng has no stressor %q: stress-ng --stressors lists them", n)
		}
	}
	return names, nil
}

func (p *Soak) time() time.Duration {
	switch {
	case p.each > 0:
		return p.each
	case p.preset.Value == "standard":
		return time.Minute
	}
	return 2 * time.Second
}

// usual is how many stressors a class of stress-ng 0.15.06 has, for an estimate where
// it is not installed.
var usual = map[string]int{
	"all": 303, "cpu": 60, "cpu-cache": 40, "device": 8, "filesystem": 48, "gpu": 1, "interrupt": 27, "io": 9,
	"memory": 53, "network": 18, "os": 222, "pipe": 8, "scheduler": 45, "security": 1, "vm": 36,
}

func (p *Soak) Estimate() (int, time.Duration) {
	n := usual[p.class.Value]
	if p.stressors.Value != ofTheClass {
		n = strings.Count(p.stressors.Value, "+") + 1
	} else if names, err := p.list(context.Background()); err == nil {
		n = len(names)
	}
	return n, time.Duration(n) * (p.time() + soakAround)
}

// leftOut are stressors that are not let run unless they are asked for by name.
var leftOut = map[string]string{
	"swap": "a swap file that it has switched on stays in use if it is killed",
}

// hungry take memory until there is no more.
var hungry = []string{"bigheap", "brk", "dev-shm", "malloc", "memfd", "mlock", "mmapmany", "ramfs", "resources", "secretmem", "shm", "shm-sysv", "stack", "tmpfs"}

func (p *Soak) Run(ctx context.Context, env *procedure.Env) (o procedure.Outcome, err error) {
	names, err := p.list(ctx)
	if err != nil {
		return o, err
	}
	version, err := stress.Version(ctx, &host.Local{})
	if err != nil {
		return o, err
	}
	local := &host.Local{}
	limit := uint64(memoryShare * float64(local.MemoryAvailable()))
	limited := host.LimitsMemory()
	if !limited {
		o.Warnings = append(o.Warnings, "no control group can limit memory here: stressors that take all there is are left out")
	}
	if os.Geteuid() != 0 {
		o.Warnings = append(o.Warnings, "stress-ng runs without root's privileges: more stressors are skipped, and what a killed one shares or mounts may stay")
	}
	var passed, failed, skipped, known int
	var broken []string
	for _, name := range names {
		cfg := []result.Pair{{Key: "stressor", Value: name}, {Key: "stress_ng", Value: version}}
		died := p.died(env, cfg)
		rec, err := env.Trial(ctx, cfg, func(ctx context.Context) (procedure.Outcome, error) {
			why, out := leftOut[name]
			switch {
			case died != "":
				return procedure.Outcome{Status: result.Failed, Reason: died}, nil
			case out && p.stressors.Value == ofTheClass && !p.pathological:
				return procedure.Outcome{Status: result.Skipped, Reason: "left out: " + why}, nil
			case !limited && slices.Contains(hungry, name):
				return procedure.Outcome{Status: result.Skipped, Reason: "left out: it takes all memory there is, and no control group can limit it here"}, nil
			}
			return p.one(ctx, env, &stress.Stress{Stressor: name, Workers: len(env.Bed.CPUs), For: p.time(), Memory: limit, Pathological: p.pathological})
		})
		if err != nil {
			return o, err
		}
		switch {
		case rec.Status == result.Passed:
			passed++
		case rec.Status == result.Failed:
			failed++
			broken = append(broken, name+" ("+rec.Reason+")")
		case strings.HasPrefix(rec.Reason, result.KnownCause):
			known++
		default:
			skipped++
		}
	}
	o.Values = []result.Value{
		declared.Value("stressors_passed", float64(passed)), declared.Value("stressors_failed", float64(failed)),
		declared.Value("stressors_skipped", float64(skipped)), declared.Value("stressors_known", float64(known)),
	}
	switch {
	case failed > 0:
		o.Status, o.Reason = result.Failed, "failed: "+strings.Join(broken, "; ")
	case passed == 0:
		o.Status, o.Reason = result.Invalid, "no stressor ran to its end: the box was not loaded"
	default:
		o.Status = result.Passed
	}
	return o, nil
}

// died says that the machine went down while the trial to come ran in an earlier part
// of the run; "" where it did not. One that was killed together with boxdyno, the
// machine being up since, runs once more.
func (p *Soak) died(env *procedure.Env, cfg []result.Pair) string {
	if env.Unfinished == nil {
		return ""
	}
	was := env.Unfinished(cfg)
	booted, err := host.Booted()
	if was == nil || err != nil || !was.Start.Before(booted.Add(-clockSlack)) {
		return ""
	}
	return fmt.Sprintf("the machine went down while it ran (begun at %s, and the machine was started anew at %s)",
		was.Start.UTC().Format(time.TimeOnly), booted.UTC().Format(time.TimeOnly))
}

// clockSlack is by how much a wall clock may have been set since.
const clockSlack = 2 * time.Second

// one lets a stressor run, and watches it.
func (p *Soak) one(ctx context.Context, env *procedure.Env, s *stress.Stress) (o procedure.Outcome, err error) {
	cpus := env.Bed.CPUs
	if room, err := host.Free(os.TempDir()); err == nil && room < startRoom {
		return o, &host.Missing{What: fmt.Sprintf("room for temporary files: %s has %sB, and %sB is the least", os.TempDir(), unit.SI(float64(room)), unit.SI(startRoom)),
			Hint: "name a folder of another file system in the environment variable TMPDIR"}
	}
	if v, ok := host.Slowest(cpus...); ok {
		o.Values = append(o.Values, declared.Value("loop_before_rps", v))
	}
	if err := env.Await(ctx); err != nil {
		return o, err
	}
	begin := unit.Now()
	run, err := s.Run(ctx, subject.Env{CPUs: cpus})
	if err != nil {
		return o, err
	}
	ended, stall, why := p.watch(ctx, run, s.For)
	o.Phases = []result.Phase{{Name: "stress", Begin: begin, End: unit.Now()}}
	if v, ok := host.Slowest(cpus...); ok { // before it has cooled down
		o.Values = append(o.Values, declared.Value("loop_after_rps", v))
	}
	o.Values = append(o.Values, declared.Value("standstill_s", stall.Seconds()))
	if stall > noticeStall {
		o.Warnings = append(o.Warnings, fmt.Sprintf("the machine stalled for %.1f s", stall.Seconds()))
	}
	if !ended {
		if err := run.Stop(ctx); err != nil {
			why += "; " + err.Error() // the kernel holds a process: the survey goes on
		}
		if ctx.Err() != nil {
			return o, ctx.Err()
		}
		o.Status, o.Reason = result.Failed, why
		if u, err := run.Usage(); err == nil {
			o.Usage = []result.Usage{u}
		}
		return o, nil
	}
	end, err := run.End(ctx)
	if err != nil {
		return o, err
	}
	o.Status, o.Reason = end.Status, end.Reason
	if end.Known {
		o.Reason = result.KnownCause + end.Reason
	}
	o.Usage = []result.Usage{end.Usage}
	o.Values = append(o.Values, end.Values...)
	return o, nil
}

// watch waits for the stressor's end. Where it does not end in its time and grace, or
// fills the disk, ended is false and why says so. stall is the longest time for which
// boxdyno itself, which wants to run every heartbeat, did not.
func (p *Soak) watch(ctx context.Context, run *stress.Stressing, length time.Duration) (ended bool, stall time.Duration, why string) {
	late := time.NewTimer(length + p.grace)
	defer late.Stop()
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	last, looked := time.Now(), time.Now()
	for {
		select {
		case <-run.Done():
			return true, stall, ""
		case <-ctx.Done():
			return false, stall, ctx.Err().Error()
		case <-late.C:
			return false, stall, fmt.Sprintf("it hung: it did not end within %v and was killed", length+p.grace)
		case <-beat.C:
			now := time.Now()
			stall = max(stall, now.Sub(last)-heartbeat)
			last = now
			if now.Sub(looked) < time.Second {
				continue
			}
			looked = now
			if room, err := host.Free(os.TempDir()); err == nil && room < leastRoom {
				return false, stall, fmt.Sprintf("it filled the disk: %s had %sB left, and it was killed", os.TempDir(), unit.SI(float64(room)))
			}
		}
	}
}

var declared = metrics.List(append([]result.Metric{
	{Name: "stressors_passed", Label: "passed", Group: "Stressors of stress-ng", Heads: true, Unit: "1", Better: 1, Exact: true, Help: "stressors that ran to their end without a failure and finished at least one operation"},
	{Name: "stressors_failed", Label: "failed", Unit: "1", Better: -1, Exact: true, Help: "stressors that failed, hung, or took the machine down"},
	{Name: "stressors_skipped", Label: "skipped", Unit: "1", Exact: true, Help: "stressors that this machine or stress-ng does not let run, that tested nothing, or that were left out"},
	{Name: "stressors_known", Label: "known cause", Unit: "1", Exact: true, Help: "stressors that fail here for a known cause, which is no fault of the box"},
	{Name: "loop_before_rps", Unit: "1/s", Better: 1, Help: "clock before a stressor: rounds a second of a counted loop, on the slowest CPU"},
	{Name: "loop_after_rps", Unit: "1/s", Better: 1, Help: "the same just after it, still hot"},
	{Name: "standstill_s", Unit: "s", Better: -1, Help: "longest time for which boxdyno, which wants to run every 20 ms, did not: that of a stressor's turns on the CPUs too"},
}, stress.Metrics...))
