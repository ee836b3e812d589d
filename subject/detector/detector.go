// SPDX-License-Identifier: Apache-2.0

// Package detector holds what makes features of windows of frames and evaluates models
// of them.
package detector

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"boxdyno/host"
	"boxdyno/internal/infer"
	"boxdyno/subject"
	"boxdyno/subject/capture"
	"boxdyno/subject/internal/made"
	"boxdyno/subject/internal/program"
)

// model is what its subjects do (Spec.Work).
const model = "model"

// A Detector is a child of this program's own that makes features of windows of frames
// and evaluates a model of them: over a port's frames where Env.Port has one, else over
// synthetic frames, as fast as it can. It is a load: its models know nothing.
type Detector struct {
	Model  string        // of infer.Models; infer.None: features alone; Bare: not even those
	Window string        // of infer.Kinds
	Batch  int           // windows that are evaluated in one call
	Seed   uint64        // of the models' parameters and of synthetic frames
	For    time.Duration // how long, where there is no port
	Buffer int           // octets of the port's ring; 0: 16 MiB

	runtime *modelRuntime
}

// Bare is a Detector's model that only counts frames: what the others are compared
// with.
const Bare = "bare"

// A modelRuntime evaluates models: a row of a table.
type modelRuntime struct {
	name, doc string
	models    []string
	python    bool
}

// runtimePrefix is before a runtime's name in that of its subject and of its lock.
const runtimePrefix = "infer-"

// Go is the name of the runtime that is in this program.
const Go = "go"

var runtimes = []*modelRuntime{
	{name: Go, doc: "this program's own evaluator", models: infer.Models},
	{name: "sklearn", doc: "scikit-learn", models: []string{infer.Logistic, infer.Tree, infer.Forest, infer.MLP}, python: true},
	{name: "onnx", doc: "ONNX Runtime", models: []string{infer.Logistic, infer.Tree, infer.Forest, infer.MLP}, python: true},
	{name: "river", doc: "River, which learns from streams", models: []string{infer.Logistic, infer.Hoeffding}, python: true},
}

// Runtimes are what can evaluate a model.
func Runtimes() (names []string) {
	for _, r := range runtimes {
		names = append(names, r.name)
	}
	return names
}

// Row is the name of its row in Specs.
func (d *Detector) Row() string { return runtimePrefix + d.runtime.name }

// Models are the models that a Detector can have.
func Models() []string { return append(slices.Clone(infer.Models), infer.None) }

// Windows are the windows that it can have.
func Windows() []string { return slices.Clone(infer.Kinds) }

// New is one with its defaults. The runtime is of Runtimes.
func New(name string) (*Detector, error) {
	for _, r := range runtimes {
		if r.name == name {
			return newDetector(r), nil
		}
	}
	return nil, fmt.Errorf("there is no runtime %q: the runtimes are %s", name, strings.Join(Runtimes(), ", "))
}

func newDetector(r *modelRuntime) *Detector {
	return &Detector{runtime: r, Model: r.models[0], Window: infer.PerTen, Batch: 1, Seed: 1, For: time.Second}
}

// Specs are the rows of All that evaluate models.
func Specs() (specs subject.Specs) {
	for _, r := range runtimes {
		specs = append(specs, subject.Spec{Name: runtimePrefix + r.name, Work: model, Doc: "features of windows of frames, and models that " + r.doc + " evaluates", New: func() subject.Subject { return newDetector(r) }})
	}
	return specs
}

// Flags implements Subject.
func (d *Detector) Flags(fs *flag.FlagSet) {
	fs.StringVar(&d.Model, "model", d.Model, "`name` of the model: "+strings.Join(d.runtime.models, ", "))
	fs.StringVar(&d.Window, "window", d.Window, "`window` of frames: 10 of them, or 1s")
	fs.IntVar(&d.Batch, "batch", d.Batch, "`windows` that are evaluated in one call")
	fs.Uint64Var(&d.Seed, "seed", d.Seed, "`number` that the model's parameters are made from")
	fs.IntVar(&d.Buffer, "buffer", d.Buffer, "`octets` of the port's ring; 0: 16 MiB")
	fs.DurationVar(&d.For, "for", d.For, "how `long`, where there is no port")
}

// MostBatch is the most windows that are evaluated in one call.
const MostBatch = 4096

// Lacks is an error where the runtime does not have the model.
func (d *Detector) Lacks() error {
	if d.Model == Bare || d.Model == infer.None || slices.Contains(d.runtime.models, d.Model) {
		return nil
	}
	return fmt.Errorf("runtime %s has no model %s: it has %s", d.runtime.name, d.Model, strings.Join(d.runtime.models, ", "))
}

// Takes is an error where a parameter is out of its range, whatever the runtime has.
func (d *Detector) Takes() error {
	switch {
	case !slices.Contains(infer.Kinds, d.Window):
		return fmt.Errorf("window %s: want one of %s", d.Window, strings.Join(infer.Kinds, ", "))
	case d.Batch < 1 || d.Batch > MostBatch:
		return fmt.Errorf("batch %d: want 1 to %d windows", d.Batch, MostBatch)
	case d.Buffer < 0 || d.Buffer > capture.MostBuffer || d.Buffer%detectorBlock != 0:
		return fmt.Errorf("buffer %d: want 0, or a multiple of %d octets up to %d", d.Buffer, detectorBlock, capture.MostBuffer)
	case d.For < 0 || d.For > time.Hour:
		return fmt.Errorf("for %v: want at most 1h", d.For)
	}
	return nil
}

// evaluates says whether a library of Python is needed.
func (d *Detector) evaluates() bool {
	return d.runtime.python && d.Model != Bare && d.Model != infer.None
}

func (d *Detector) venv() made.Venv { return made.Venv{Name: d.Row()} }

// Check implements Subject.
func (d *Detector) Check(context.Context, *host.Local) error {
	if err := errors.Join(d.Takes(), d.Lacks()); err != nil || !d.evaluates() {
		return err
	}
	if err := host.Has("python3"); err != nil {
		return err
	}
	_, err := d.venv().Python()
	return err
}

// Start implements Subject: a *Detecting where the Env has a port, else an
// *Evaluating.
func (d *Detector) Start(ctx context.Context, e subject.Env) (subject.Running, error) {
	if e.Port.Name == "" {
		return d.Evaluate(ctx, e)
	}
	r := &Detecting{}
	c := capture.New(&capture.Tool{
		Name: d.Row(), Work: model, Filters: []string{capture.DefaultFilter}, Lag: capture.LibpcapLag,
		Argv: func(_ *capture.Capture, e capture.Place) ([]string, error) { return d.argv(e.Port.Name) },
		Said: func(*capture.Capture, subject.Env) (capture.Parser, capture.Parser) { return r.parse, nil },
	})
	var err error
	if r.Capturing, err = c.Run(ctx, e); err != nil {
		return nil, err
	}
	return r, nil
}

// argv is the child that does the work on a port; "": without one.
func (d *Detector) argv(port string) ([]string, error) {
	o := detection{Runtime: d.runtime.name, Model: d.Model, Window: d.Window, Batch: d.Batch, Seed: d.Seed, For: d.For, Buffer: d.Buffer, Port: port}
	if d.evaluates() {
		var err error
		if o.Python, err = d.venv().Python(); err != nil {
			return nil, err
		}
	}
	return program.Child(detectWord, o)
}

// A Detecting is a Detector that listens to a port: a Capturing that counts datagrams
// of UDP once it has done with them what there is to do.
type Detecting struct {
	*capture.Capturing

	mu   sync.Mutex
	told Detections
}

// Detections are what a detector has done since its start.
type Detections struct {
	Windows int64         `json:"windows"`  // evaluated
	Model   time.Duration `json:"model_ns"` // wall time that it waited for the model
}

// Detections are as of its last word.
func (r *Detecting) Detections() Detections {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.told
}

// parse reads what its child prints.
func (r *Detecting) parse(line string) capture.Told {
	s := capture.ParseCounter(line)
	var d Detections
	if !s.Garbage && json.Unmarshal([]byte(line), &d) == nil {
		r.mu.Lock()
		r.told = d
		r.mu.Unlock()
	}
	return s
}

// Installs implements Installer.
func (d *Detector) Installs(remedy []string) func(context.Context, subject.Runner) error {
	if v := d.venv(); slices.Equal(remedy, made.InstallCommand(v.Name)) {
		return v.Make
	}
	return nil
}
