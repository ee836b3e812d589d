// SPDX-License-Identifier: Apache-2.0

// Package infer has the procedure that puts a detector under load: features of windows
// of frames, and a model.
//
//	rate none    offline.go: synthetic windows, as fast as they go
//	rate given   online.go: rounds of two trials lent by capture (capture.Loan)
package infer

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"time"

	"boxdyno/host"
	"boxdyno/lab"
	"boxdyno/procedure"
	"boxdyno/procedure/capture"
	"boxdyno/procedure/internal/metrics"
	"boxdyno/procedure/internal/param"
	"boxdyno/result"
	"boxdyno/subject"
	"boxdyno/subject/detector"
	"boxdyno/unit"
)

// InferSpec is the row of infer.
var InferSpec = procedure.Spec{
	Name: "infer", Lab: lab.Here, Alone: true,
	Deviation: "infer's models have parameters from a seed, not learned ones, and complete trees: their output means nothing, and a pruned tree costs less",
	Quick:     "trials of infer last 1 s and are repeated 3 times, not 10 s and 10 times",
	Doc:       "a detector as a load: features and a model for windows of frames, their cost, and the drops that they add to a capture",
	Names:     []string{"model", "runtime", "window", "rate"}, Metrics: inferMetrics, New: newInfer,
}

// Infer measures what a detector costs the box: features of windows of frames, and a
// model that is evaluated for each window. The model's parameters are made from a seed:
// it is a load, and detects nothing.
//
//	rate none:   trials: synthetic windows, as fast as they go, on some CPUs (offline.go)
//	rate given:  self-test -> rounds of two trials, without and with the detector (online.go)
type Infer struct {
	model   param.Choice
	runtime param.Choice
	window  param.Choice
	batch   param.Count
	cpus    param.Count
	rate    detectorRate
	size    param.FrameSize
	buffer  param.Count
	length  time.Duration
	seed    param.Count
	preset  param.Choice

	program func(runtime string) (*detector.Detector, error)
}

const (
	mostRing = 1 << 30
)

func newInfer() procedure.Procedure {
	return &Infer{
		model: param.NewChoice("logistic", detector.Models()), runtime: param.NewChoice(detector.Go, detector.Runtimes()), window: param.NewChoice("10", detector.Windows()),
		batch: param.NewCount(1, 1, detector.MostBatch), cpus: param.NewCount(1, 0, param.MostCPUs), rate: detectorRate{param.OfferedRate{Text: noRate}},
		buffer: param.NewCount(0, 0, mostRing), seed: param.NewCount(1, 0, 1<<30), preset: param.NewPreset(), program: detector.New,
	}
}

const noRate = "none"

// A detectorRate is an offeredRate that may be none: no frames are sent.
type detectorRate struct{ param.OfferedRate }

func (r *detectorRate) Set(s string) error {
	switch s {
	case noRate:
		r.OfferedRate = param.OfferedRate{Text: noRate}
		return nil
	case param.SearchRate:
		return fmt.Errorf("%q is neither none nor a rate", s)
	}
	return r.OfferedRate.Set(s)
}

func (p *Infer) offline() bool { return p.rate.Searched() }

func (p *Infer) Flags(fs *flag.FlagSet) {
	fs.Var(&p.model, "model", "`model` that is evaluated for each window; none: features alone")
	fs.Var(&p.runtime, "runtime", "`library` that evaluates it")
	fs.Var(&p.window, "window", "`window` of frames that features are of: 10 of them, or those of 1s")
	fs.Var(&p.batch, "batch", "`windows` that are evaluated in one call; runtimes go and river take one at a time")
	fs.Var(&p.cpus, "cpus", "without a rate: `CPUs` that evaluate, the last of the box's, each by a process of its own; 0: all")
	fs.Var(&p.rate, "rate", "`load` in frame/s (200k) or layer-2 bit/s (2Mbps), of which the detector must count every frame; none: synthetic windows, without ports")
	fs.Var(&p.size, "frame_size", "with a rate: "+param.FrameMixUsage+"; 0: 64")
	fs.Var(&p.buffer, "buffer", "with a rate: `octets` of the ring that frames wait in, multiples of 262144; 0: 16777216")
	fs.DurationVar(&p.length, "duration", p.length, "how `long` a trial lasts; 0s: as preset says")
	fs.Var(&p.seed, "seed", "`number` that the model's parameters and synthetic frames are made from")
	fs.Var(&p.preset, "preset", "quick or standard: how long, how often")
}

// detector is the subject with the parameters.
func (p *Infer) detector() (*detector.Detector, error) {
	d, err := p.program(p.runtime.Value)
	if err != nil {
		return nil, err
	}
	d.Model, d.Window, d.Batch, d.Seed, d.For = p.model.Value, p.window.Value, p.batch.Value, uint64(p.seed.Value), p.time()
	d.Buffer = p.buffer.Value
	return d, nil
}

// time is how long a trial lasts.
func (p *Infer) time() time.Duration {
	switch {
	case p.length > 0:
		return p.length
	case p.preset.Value == "standard":
		return 10 * time.Second
	}
	return time.Second
}

// rounds are how often each is measured.
func (p *Infer) rounds() int {
	if p.preset.Value == "standard" {
		return 10
	}
	return 3
}

// Needs implements Needing: with a rate the detector listens.
func (p *Infer) Needs() (need lab.Capability, service string) {
	if p.offline() {
		return lab.Subjects, ""
	}
	return lab.Listener, ""
}

func (p *Infer) Check(bed *lab.Testbed) error {
	d, err := p.detector()
	if err != nil {
		return err
	}
	if err := d.Takes(); err != nil {
		return err
	}
	if p.length != 0 && (p.length < 10*time.Millisecond || p.length > time.Hour) {
		return fmt.Errorf("duration %v: want 10ms to 1h, or 0s", p.length)
	}
	if p.offline() {
		switch {
		case p.size.Name != "":
			return fmt.Errorf("frame_size %s: without a rate no frames are sent", p.size.Name)
		case p.buffer.Value != 0:
			return fmt.Errorf("buffer %d: without a rate there is none", p.buffer.Value)
		}
		if bed != nil && p.cpus.Value > len(boxCPUs(bed)) {
			return fmt.Errorf("cpus %d: the box has %d", p.cpus.Value, len(boxCPUs(bed)))
		}
		return nil
	}
	if p.cpus.Value != 1 {
		return fmt.Errorf("cpus %d: with a rate the detector runs on the box's receiving CPU", p.cpus.Value)
	}
	return p.noDetector().Check(bed)
}

// boxCPUs are those that the box's programs may use.
func boxCPUs(bed *lab.Testbed) []int {
	if box, ok := bed.Means.(lab.Far); ok {
		return box.Allowed()
	}
	if len(bed.DUTCPUs) > 0 {
		return bed.DUTCPUs
	}
	return bed.CPUs
}

func (p *Infer) Estimate() (int, time.Duration) {
	if p.offline() {
		const around, share = 500 * time.Millisecond, 4
		return p.rounds(), time.Duration(p.rounds()) * (p.time() + p.time()/share + around)
	}
	n := 2 * p.rounds()
	return n, time.Duration(n) * p.noDetector().Estimate()
}

func (p *Infer) Run(ctx context.Context, env *procedure.Env) (procedure.Outcome, error) {
	d, err := p.detector()
	if err != nil {
		return procedure.Outcome{}, err
	}
	if err := d.Lacks(); err != nil {
		return procedure.Outcome{Status: result.Skipped, Reason: err.Error()}, nil
	}
	var missing *host.Missing
	if err := env.Bed.Machine().Check(ctx, subject.Named{Name: d.Row(), Subject: d}); errors.As(err, &missing) || errors.Is(err, subject.ErrLost) || err != nil && ctx.Err() != nil {
		return procedure.Outcome{}, err
	} else if err != nil {
		return procedure.Outcome{Status: result.Failed, Reason: procedure.Sentence(err)}, nil
	}
	if p.offline() {
		return p.synthetic(ctx, env, d)
	}
	return p.live(ctx, env, d)
}

// Titles of tables.
const (
	addedDrops    = "Drops that a detector adds to a capture, and for how long it was behind after the last frame"
	detectorTakes = "What a detector takes: CPU of its model a window, CPU above the capture alone a frame"
)

var inferMetrics = append([]result.Metric{
	{Name: "windows_per_s", Label: "windows", Group: "A detector as a load, without frames: features and model, the model alone, features of one frame", Interval: "range", Heads: true, Unit: "1/s", Better: 1, Help: "without a rate: windows a second, features and model, all CPUs together, from the two times below"},
	{Name: "window_s", Label: "a window", Heads: true, Unit: "s", Better: -1, Help: "time that a window takes on one CPU: features of its frames, and the model"},
	{Name: "model_s", Label: "model", Heads: true, Unit: "s", Better: -1, Help: "time that the model takes for a window on one CPU"},
	{Name: "model_cpu_s", Label: "model CPU", Group: detectorTakes, Unit: "s", Better: -1, Help: "CPU time of the same"},
	{Name: "features_per_frame_s", Label: "a frame", Group: "A detector as a load, without frames: features and model, the model alone, features of one frame", Unit: "s", Better: -1, Help: "time that features take for a frame on one CPU, always in this program: headers, sums, and at a window's end its features"},
	{Name: "frames_per_window", Unit: "1", Exact: true, Help: "frames of a synthetic window"},
	{Name: "outputs_compared", Unit: "1", Exact: true, Help: "synthetic windows whose output was compared with this program's; none for runtime go and for the model that learns"},
	{Name: "outputs_differ", Unit: "1", Better: -1, Help: "of them, those with another output: the library computes something else"},
	{Name: "drops_added_ratio", Label: "added", Group: addedDrops, Interval: "range", Heads: true, Share: true, Unit: "1", Better: -1, Help: "with a rate: share of frames lost with the detector, less the share lost without it; median of the rounds, interval is their range; negative if it lost fewer"},
	{Name: "bare_lost_ratio", Label: "alone", Group: addedDrops, Share: true, Unit: "1", Better: -1, Help: "share of the frames that the same capture lost without features and model"},
	{Name: "detector_lost_ratio", Label: "with it", Share: true, Unit: "1", Better: -1, Help: "share of the frames that it lost with them"},
	metrics.List(capture.Metrics).As("drain_s", "behind", addedDrops),
	{Name: "cpu_added_per_frame_s", Label: "a frame", Group: detectorTakes, Unit: "s", Better: -1, Help: "CPU time for each frame counted, of the detector's whole process tree, less that of the capture without features and model"},
	{Name: "detected_windows_per_s", Label: "windows", Unit: "1/s", Better: 1, Help: "windows a second that were evaluated while there was work"},
	{Name: "model_wait_share", Label: "waits", Share: true, Unit: "1", Better: -1, Help: "share of that time for which the detector waited for its model"},
	metrics.List(capture.Metrics).As("subject_memory_bytes", "memory", detectorTakes),
	metrics.List(capture.Metrics).As("startup_s", "ready", detectorTakes),
}, metrics.List(capture.Metrics).Pick(trialFigures...)...)

// trialFigures are others of capture that trials with a rate have.
var trialFigures = []string{
	"capture_offered_fps", "frames_offered", "frames_counted", "frames_lag", "frames_lost", "uncounted_ratio", "drops_before", "drops_kernel", "frames_unexplained",
	"subject_cpu_per_frame_s",
}

// inferRate is the load given.
func (p *Infer) inferRate() unit.FrameRate { return p.noDetector().Rate() }

// figures are the metrics of this room's procedure.
var figures = metrics.List(inferMetrics)
