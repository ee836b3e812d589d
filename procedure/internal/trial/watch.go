// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"context"
	"fmt"
	"slices"
	"time"

	"boxdyno/host"
	"boxdyno/lab"
	"boxdyno/procedure"
	"boxdyno/result"
	"boxdyno/unit"
)

// A watch is what the CPUs of this machine do while a trial's traffic runs, and
// how the DUT is set up where frames were lost. What cannot be read is left out.
//
//	watchTraffic -> Transmit -> stop -> settle -> tell
//
// The kernel counts a running thread's time up to its last tick or pause, so that
// of the DUT's threads is read after the settle time, in which they have nothing
// to do.
type watch struct {
	env           *procedure.Env
	bed           *lab.Testbed
	senders       []int // CPUs
	before, after host.CPUs
	begin         time.Time
	window        time.Duration // between them
	ok            bool
	box           lab.Receiver // another machine; nil: none, or it does not say
	received      result.DUTWork
}

// WatchTraffic begins to watch, before a trial's traffic, which senders send: by default the
// tester's CPU.
func WatchTraffic(env *procedure.Env, senders ...int) *watch {
	bed := env.Bed
	w := &watch{env: env, bed: bed, senders: append(senders, bed.TesterCPU)}
	if env.Traffic != nil {
		env.Traffic(true)
	}
	if bed.Kind == result.KindMemory {
		return w
	}
	if box, ok := bed.Means.(lab.Receiver); ok {
		if _, err := box.Receive(context.Background()); err == nil {
			w.box = box
		}
	}
	var err error
	w.before, err = host.CPUsHere(bed.Threads...)
	w.ok, w.begin = err == nil, time.Now()
	return w
}

// Stop is called when the traffic is over.
func (w *watch) Stop() {
	if w.ok {
		var err error
		w.after, err = host.CPUsHere()
		w.ok, w.window = err == nil, time.Since(w.begin)
	}
	if w.box != nil {
		var err error
		if w.received, err = w.box.Receive(context.Background()); err != nil {
			w.box = nil
		}
	}
	if w.env.Traffic != nil {
		w.env.Traffic(false)
	}
}

// work is what the DUT's share of this machine's CPUs did in took seconds of
// traffic; nil where it is not known, or cannot be told from the tester's.
func (w *watch) work(cpus []result.CPU, took float64) *result.DUTWork {
	if n := len(w.bed.Threads); n > 0 {
		now, err := host.CPUsHere(w.bed.Threads...)
		if err != nil {
			return nil
		}
		ran, waited := now.Threads(w.before)
		return &result.DUTWork{Threads: n, Ran: ran.Seconds() / took, Waited: waited.Seconds() / took}
	}
	var d *result.DUTWork
	for _, c := range cpus {
		if c.Role == "dut" {
			if d == nil {
				d = &result.DUTWork{}
			}
			d.Ran += c.SoftIRQ * w.window.Seconds() / took
		}
	}
	return d
}

// roles says of each CPU whether it sends, carries the DUT, and takes frames off its rings.
func (w *watch) roles(cpus []result.CPU) {
	carry := w.bed.Carrying()
	for i := range cpus {
		c := &cpus[i]
		switch dut, sends := slices.Contains(carry, c.CPU), slices.Contains(w.senders, c.CPU); {
		case dut && sends:
			c.Role = "tester and dut"
		case dut:
			c.Role = "dut"
		case sends:
			c.Role = "tester"
		}
		c.Rings = len(carry) > len(w.bed.DUTCPUs) && slices.Contains(w.bed.DUTCPUs, c.CPU)
	}
}

// Tell adds to o what was seen of traffic that lasted from begin to end.
func (w *watch) Tell(ctx context.Context, o *procedure.Outcome, begin, end unit.Instant) {
	if w.ok {
		o.CPUs = w.after.Since(w.before)
		w.roles(o.CPUs)
		if took := float64(end-begin) / 1e9; took > 0 {
			o.DUT = w.work(o.CPUs, took)
		}
	}
	if w.box != nil {
		o.DUT = &w.received
		return
	}
	dut, ok := w.bed.Means.(lab.Inspector)
	if !ok || o.Account == nil || o.Account.Lost() <= 0 {
		return
	}
	state, err := dut.State(ctx)
	if err != nil {
		o.Warnings = append(o.Warnings, fmt.Sprintf("how the DUT is set up is not known: %v", err))
		return
	}
	if o.DUT == nil {
		o.DUT = &result.DUTWork{}
	}
	o.DUT.State = state
}
