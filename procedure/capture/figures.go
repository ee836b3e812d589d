// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"context"
	"errors"
	"fmt"
	"time"

	"boxdyno/engine"
	"boxdyno/ledger"
	"boxdyno/procedure"
	"boxdyno/result"
	"boxdyno/subject"
	"boxdyno/subject/capture"
	"boxdyno/unit"
)

// What a subject of package subject tells beside.
type (
	totaller     interface{ Totals() capture.Totals }
	starter      interface{ Startup() capture.Startup }
	redirected   interface{ Redirected() bool }
	ending       interface{ Ends() bool }
	socketReader interface {
		Untold() bool
		ReadSockets() error
	}
)

// BlockAge is how old a frame may be before a subject that keeps up counts it, seconds:
// libpcap hands over what it has once a second.
const BlockAge = 1.2

// blockAge is that of this subject, which may tell its count more seldom.
func (c *capturing) blockAge() float64 { return max(BlockAge, c.rare().Seconds()) }

// settle makes the account of o the subject's, with its own counters in it.
func (m *capturePoint) settle(ctx context.Context, o *procedure.Outcome, c *capturing, d drained) {
	a := o.Account
	counted := int64(-1)
	if n := len(c.readings); n > 0 {
		counted = c.readings[n-1].n
	}
	if t, ok := c.run.(totaller); ok {
		if n := t.Totals().Captured - c.probed; n >= 0 && n != counted {
			if counted >= 0 && d.still {
				o.Warnings = append(o.Warnings, fmt.Sprintf("%s had last said %d frames, and said %d at its end", m.subject.Value, counted, n))
			}
			counted = n
		}
	}
	own, before, err := c.ownDrops(ctx)
	if err != nil {
		o.Warnings = append(o.Warnings, m.said(fmt.Errorf("its own counters are not known: %w", err)))
	}
	if before > 0 {
		o.Warnings = append(o.Warnings, fmt.Sprintf("%s said before the traffic that it had dropped %d frames itself: they are in no figure", m.subject.Value, before))
	}
	a.Received = max(counted, 0)
	if r, ok := c.run.(redirected); ok && r.Redirected() {
		countOnce(a, own)
	}
	if e, ok := c.run.(ending); ok && e.Ends() {
		leaveOut(a, ledger.XDPDrop, a.Received)
	}
	settleAccount(a, own)
	m.probedLate(o, c)
	if m.env.Bed.Station != ([6]byte{}) { // switches are between the boards
		onTheWay(a, m.dut.Name)
	}
	if counted < 0 {
		o.Warnings = append(o.Warnings, m.said(errors.New("it did not say how many frames it counted")))
	}
	if !d.still {
		o.Warnings = append(o.Warnings, fmt.Sprintf("%s still counted %v after the last frame: what it would have counted later is missing", m.subject.Value, d.most))
	}
	lost := a.Accepted - a.Received
	o.Status = result.Passed
	if lost > 0 {
		o.Status = result.Failed
		o.Reason = fmt.Sprintf("%s did not count %d of %d frames (%.3g %%)", m.subject.Value, lost, a.Accepted, 100*float64(lost)/float64(a.Accepted))
		for _, t := range a.Drops {
			o.Reason += fmt.Sprintf("; %d: %s (%s)", t.N, t.Name, t.Place)
		}
	}
	if lost < 0 {
		o.Status = result.Invalid
		o.Reason = fmt.Sprintf("%s counted %d frames more than it was sent: others are among them", m.subject.Value, -lost)
	}
	if behind := float64(d.resting-d.end) / 1e9; m.rate.Searched() && lost == 0 && behind > c.blockAge()+lagAllowed(o.Phases[0].Seconds()) {
		o.Status = result.Failed
		o.Reason = fmt.Sprintf("%s counted every frame, the last %.2g s after it was sent: it does not keep up", m.subject.Value, behind)
	}
}

// ownDrops are the subject's own counters of drops since the traffic began, and what it had
// dropped itself before: Suricata throws away what its sockets received before all of its threads
// ran.
func (c *capturing) ownDrops(ctx context.Context) (terms []result.Term, before int64, err error) {
	counter, ok := c.run.(subject.Counter)
	if !ok {
		return nil, 0, nil
	}
	all, err := counter.Count(ctx)
	for _, t := range all {
		if t.Place == result.SubjectAt && before == 0 && t.N >= c.dropped {
			before = c.dropped
			t.N -= before
		}
		if t.N != 0 {
			terms = append(terms, t)
		}
	}
	return terms, before, err
}

// probedLate takes probe frames that the subject had not counted when the traffic began out of its
// count, where it has more frames than it was sent.
func (m *capturePoint) probedLate(o *procedure.Outcome, c *capturing) {
	a := o.Account
	many := -a.Unexplained
	if a.DroppedAt(result.SubjectAt) > 0 { // they may be among those
		many = min(many, a.Received-a.Accepted)
	}
	late := c.late(many)
	if late == 0 {
		return
	}
	o.Warnings = append(o.Warnings, fmt.Sprintf("%s had not counted %d of %d probe frames when the traffic began, and has %d frames too many since: %d are taken for probe frames, and are in no figure",
		m.subject.Value, c.probes-c.probed, c.probes, many, late))
	for i := range c.readings {
		c.readings[i].n = min(c.readings[i].n, a.Received-late)
	}
	a.Received, a.Unexplained = a.Received-late, a.Unexplained+late
}

// late is how many of so many frames too many may be probes that it had not told of when the
// traffic began.
func (c *capturing) late(many int64) int64 { return max(0, min(many, c.probes-c.probed)) }

// lagAllowed is how many seconds after traffic that lasted so long a subject that keeps up
// may count the last frame. A buffer that fills takes longer to empty: in trials of 5 s
// and more it hides no more than a hundredth of the load.
func lagAllowed(traffic float64) float64 { return max(0.05, traffic/100) }

// clockTimes is how many times the error between two clocks a time has to be that began by
// one of them and ended by the other.
const clockTimes = 10

// unclear says why a time from the tester's last frame to a word of the subject is not known;
// "" if it is. None is a count that did not rise, for which no clock is asked.
func unclear(run subject.Running, seconds float64) string {
	far, ok := run.(subject.Distant)
	if !ok || seconds == 0 {
		return ""
	}
	if e := far.ClockError(); seconds < clockTimes*e.Seconds() {
		return fmt.Sprintf("how long it counted after the last frame is not known: about %.2g s, and the clocks of tester and box agree to %v", seconds, e.Round(time.Microsecond))
	}
	return ""
}

// figures are the values of a trial whose account is settled.
func (m *capturePoint) figures(o *procedure.Outcome, c *capturing, d drained, sent engine.TxReport) {
	a := o.Account
	add := func(name string, v float64) { figures.Add(&o.Values, name, v) }
	traffic := o.Phases[0].Seconds()
	o.Phases = append(o.Phases, result.Phase{Name: "drain", Begin: sent.Last, End: max(d.resting, sent.Last)})
	took := traffic + o.Phases[1].Seconds()

	add("capture_offered_fps", float64(sent.Offered))
	add("capture_offered_bps", float64(unit.L2(sent.Offered, m.meanSize())))
	add("frames_offered", float64(a.Accepted))
	if m.iperf3 != nil {
		add("control_frames", float64(m.iperf3.beside(a)))
	}
	add("frames_counted", float64(a.Received))
	if n, ok := c.atEnd(d.end); ok {
		add("frames_at_end", float64(n))
		add("frames_lag", float64(a.Received-n))
		drain := 0.0
		if a.Received > n {
			drain = o.Phases[1].Seconds()
		}
		if why := unclear(c.run, drain); why != "" {
			o.Warnings = append(o.Warnings, why)
		} else {
			add("drain_s", drain)
		}
	}
	add("frames_lost", float64(a.Accepted-a.Received))
	if a.Accepted > 0 {
		add("uncounted_ratio", float64(a.Accepted-a.Received)/float64(a.Accepted))
	}
	worked := a.Received // by the time to which its CPU is known
	if !d.still {
		worked = d.n
	}
	rate := float64(worked) / took
	if fps, ok := c.pace(sent.First, sent.Last); ok && a.Received < a.Accepted {
		rate = fps
	} else if (a.Received >= a.Accepted || c.rare() > 0) && o.Phases[1].Seconds() <= c.blockAge() { // a block's age, no lack of speed
		rate = float64(a.Received) / traffic
	}
	o.Load.Forwarded = unit.FrameRate(rate)
	add("counting_rate_fps", rate)
	drops := map[string]int64{}
	for _, t := range a.Drops {
		switch t.Place {
		case result.Socket:
			drops["drops_kernel"] += t.N
		case result.SubjectAt:
			drops["drops_subject"] += t.N
		default:
			drops["drops_before"] += t.N
		}
	}
	for _, name := range []string{"drops_before", "drops_kernel", "drops_subject"} {
		add(name, float64(drops[name]))
	}
	add("frames_unexplained", float64(a.Unexplained))

	cpu := d.rest.Since(c.startup)
	add("subject_cpu_s", cpu.CPU.Seconds())
	if worked > 0 {
		add("subject_cpu_per_frame_s", cpu.CPU.Seconds()/float64(worked))
	}
	add("subject_cpu_share", d.over.Since(c.startup).CPU.Seconds()/traffic)
	whole := d.rest
	if u, err := c.run.Usage(); err == nil {
		whole.PeakMemory = max(whole.PeakMemory, u.PeakMemory)
	}
	if whole.PeakMemory > 0 {
		add("subject_memory_bytes", float64(whole.PeakMemory))
	}
	if d.over.Processes > 0 {
		add("subject_processes", float64(d.over.Processes))
	}
	add("startup_s", c.ready.Seconds())
	add("startup_cpu_s", c.startup.CPU.Seconds())
	if s, ok := c.run.(starter); ok {
		if socket := s.Startup().Socket; socket > 0 {
			add("socket_s", socket.Seconds())
		}
		if first := s.Startup().First; first > 0 {
			c.first = first
		}
	}
	if c.first > 0 {
		add("first_frame_s", c.first.Seconds())
	}
	if o.DUT != nil && o.DUT.Threads > 0 && a.Accepted > 0 {
		ran := o.DUT.Ran * traffic
		host := (ran + cpu.CPU.Seconds()) / float64(a.Accepted)
		add("receive_cpu_s", ran)
		add("host_cpu_per_frame_s", host)
		if m.emptied >= 0 {
			add("host_cpu_above_per_frame_s", host-m.emptied)
		}
	}
	start, traffics, drain := c.startup, d.over.Since(c.startup), d.rest.Since(d.over)
	start.Phase, traffics.Phase, drain.Phase = "start", "traffic", "drain"
	traffics.PeakMemory, drain.PeakMemory = whole.PeakMemory, whole.PeakMemory
	o.Usage = []result.Usage{start, traffics, drain}
}
