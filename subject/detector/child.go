// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"os"
	"os/signal"
	"time"

	"boxdyno/host"
	"boxdyno/internal/infer"
	"boxdyno/subject/internal/program"
)

// detectWord is the first argument of a Detector's child, a detection the second.
const detectWord = "detect-windows"

// A detection is what a child shall do; its working folder is for its files.
type detection struct {
	Runtime, Model, Window string
	Batch                  int
	Seed                   uint64
	For                    time.Duration
	Port                   string // "": synthetic frames
	Buffer                 int
	Python                 string // interpreter; "": the runtime is Go
}

// Main does the work of a Detector's child where this process is one, and then
// does not return.
func Main() { program.ChildMain(detectWord, (*detection).run) }

func (d *detection) run() error {
	if d.Port != "" {
		return d.listen()
	}
	return d.offline()
}

// An evaluator evaluates windows of a port.
type evaluator interface {
	evaluate(xs []infer.Vector) error
	close() error
}

// builtin is this program's evaluator.
type builtin struct {
	*infer.Detector
	ones int // windows of class 1: nobody reads them, and the compiler keeps the work
}

func (o *builtin) evaluate(xs []infer.Vector) error {
	for i := range xs {
		o.ones += int(o.Step(&xs[i]))
	}
	return nil
}

func (o *builtin) close() error { return nil }

// none evaluates nothing.
type none struct{}

func (none) evaluate([]infer.Vector) error { return nil }
func (none) close() error                  { return nil }

// pool are synthetic frames and their windows.
func (d *detection) pool() (frames []infer.Frame, perWindow int, windows []infer.Vector, err error) {
	frames, perWindow = infer.Synthetic(d.Window, d.Seed)
	windows, err = infer.Vectors(d.Window, frames)
	return frames, perWindow, windows, err
}

// offline measures features and model over synthetic frames.
func (d *detection) offline() error {
	frames, perWindow, windows, err := d.pool()
	if err != nil {
		return err
	}
	begin := make(chan os.Signal, 1)
	signal.Notify(begin, beginSignal)
	end := Evaluation{Frames: perWindow}
	measure := func(e *Evaluation) error { return nil }
	if d.Model != infer.None {
		model, err := infer.New(d.Model, d.Seed, windows)
		if err != nil {
			return err
		}
		measure = func(e *Evaluation) error { d.evaluate(model, windows, e); return nil }
		if d.Python != "" {
			p, err := d.bench(model, windows, &end)
			if err != nil {
				return err
			}
			measure = p.measure
		}
	}
	if err := program.Say(map[string]bool{"ready": true}); err != nil {
		return err
	}
	<-begin
	d.features(frames, &end)
	if err := measure(&end); err != nil {
		return err
	}
	return program.Say(map[string]Evaluation{"end": end})
}

const (
	// featuresShare is the part of the time that features are measured for, beside.
	featuresShare = 4
	// between two looks at the clock are so many frames, or windows.
	looks = 64
)

// features makes windows of frames for a part of the time.
func (d *detection) features(frames []infer.Frame, e *Evaluation) {
	n, begin := 0, time.Now()
	for time.Since(begin) < d.For/featuresShare {
		c, _ := infer.NewCutter(d.Window) // pool has cut by it
		for i := range frames {
			p := infer.Decode(frames[i].Head[:], frames[i].Size, frames[i].At)
			c.Add(&p)
			n++
			if i%looks == looks-1 && time.Since(begin) >= d.For/featuresShare {
				break
			}
		}
	}
	if n > 0 {
		e.Features = time.Since(begin).Seconds() / float64(n)
	}
}

// evaluate has this program's evaluator go over the windows again and again.
func (d *detection) evaluate(m *infer.Detector, windows []infer.Vector, e *Evaluation) {
	o := builtin{Detector: m}
	user, system, _ := host.Own()
	begin := time.Now()
	took := time.Duration(0)
	for at := 0; took < d.For; took = time.Since(begin) {
		part := windows[at:min(at+looks, len(windows))]
		_ = o.evaluate(part) // it never fails
		e.Windows += int64(len(part))
		if at += len(part); at == len(windows) {
			at = 0
		}
	}
	u, s, _ := host.Own()
	e.Seconds, e.CPU = took.Seconds(), (u - user + s - system).Seconds()
}
