// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"boxdyno/engine"
	"boxdyno/result"
	"boxdyno/unit"
)

// An amount is frames and their rates, as one place counted them.
type amount struct {
	Frames        uint64  `json:"frames"`
	Octets        uint64  `json:"octets"` // with FCS
	FPS           float64 `json:"fps"`
	L2            float64 `json:"l2_bps"`          // FCS included
	L1            float64 `json:"l1_bps"`          // with preamble and gap: what a link is busy with
	MeanSize      float64 `json:"mean_size"`       // octets with FCS
	LineRateShare float64 `json:"line_rate_share"` // L1 over the port's line_rate_bps
}

// newAmount is frames at a rate of fps, as shares of a link.
func newAmount(frames, octets uint64, fps float64, link unit.BitRate) amount {
	a := amount{Frames: frames, Octets: octets}
	if frames == 0 || math.IsNaN(fps) || math.IsInf(fps, 0) {
		return a
	}
	a.MeanSize = float64(octets) / float64(frames)
	a.FPS = fps
	a.L2, a.L1 = float64(unit.L2(unit.FrameRate(fps), a.MeanSize)), float64(unit.L1(unit.FrameRate(fps), a.MeanSize))
	a.LineRateShare = a.L1 / float64(link)
	return a
}

func (a amount) String() string {
	s := plural(a.Frames, "frame")
	if a.FPS > 0 {
		s += fmt.Sprintf(", %v, %v (L2), %v (L1), %.1f %% of line rate", unit.FrameRate(a.FPS), unit.BitRate(a.L2), unit.BitRate(a.L1), 100*a.LineRateShare)
	}
	return s
}

// A portRecord is the port of an account.
type portRecord struct {
	Name       string  `json:"name"`
	Netns      string  `json:"netns,omitempty"`
	Driver     string  `json:"driver,omitempty"`
	LineRate   float64 `json:"line_rate_bps"`    // what shares of line rate are of
	LineRateOf string  `json:"line_rate_source"` // "link", "--link-rate", or "reference": 1 Gbit/s, because the link has no rate
}

func (p *trafficPort) record(netns string) portRecord {
	rate, of := p.lineRate()
	return portRecord{p.Name, netns, p.driver, float64(rate), of}
}

func (p portRecord) lineRate() string {
	s := fmt.Sprintf("line rate %v", unit.BitRate(p.LineRate))
	if p.LineRateOf == "reference" {
		s += ", for reference: " + p.Name + " has none"
	}
	return s
}

// A sentAccount is what send and replay end with.
type sentAccount struct {
	Type        string     `json:"type"` // "account"
	Command     string     `json:"command"`
	Version     string     `json:"version"`
	What        string     `json:"what"`
	Port        portRecord `json:"port"`
	Backend     string     `json:"backend"`
	CPUs        []int      `json:"cpus,omitempty"` // empty: one, any
	Interrupted bool       `json:"interrupted"`

	Asked    asked   `json:"asked"`
	Accepted amount  `json:"accepted"` // by the port, as the senders counted
	Wire     amount  `json:"wire"`     // that left, as the port counted, whoever sent them
	Dropped  uint64  `json:"dropped"`  // by the port, as it counted
	Seconds  float64 `json:"seconds"`  // from the first frame to the last

	Refused      uint64  `json:"refused"`                // handed to the port, which did not take them
	NotSent      uint64  `json:"not_sent"`               // due, and not sent when time was up; after Ctrl-C those still to come
	Late         uint64  `json:"late"`                   // behind the schedule by an interval or more
	Stalls       uint64  `json:"stalls"`                 // times that a sender stood still for more than 50 µs
	LongestStall float64 `json:"longest_stall_s"`        //
	Starved      uint64  `json:"starved"`                // times that a sender waited for its source
	Passes       uint64  `json:"passes,omitempty"`       // over the source that are complete
	Probed       uint64  `json:"probe_frames,omitempty"` // that left before the first frame, to find a backend; in no amount

	Streams   []sentStream      `json:"streams"`
	Gaps      *result.Histogram `json:"gaps,omitempty"`       // between frames as they left, s
	GapErrors *result.Histogram `json:"gap_errors,omitempty"` // |gap - the schedule's|, s
	Notes     []string          `json:"notes,omitempty"`      // what the source left out or changed, what was chosen
	Warnings  []string          `json:"warnings,omitempty"`   // why a figure may not be what was asked
}

// asked is the load that was asked for, of all streams together.
type asked struct {
	Text    string  `json:"text"`
	Frames  uint64  `json:"frames,omitempty"` // absent: as many as there is time for
	FPS     float64 `json:"fps,omitempty"`
	L2      float64 `json:"l2_bps,omitempty"`     // with a multiplier: the mean of what the source was to be
	Speed   float64 `json:"multiplier,omitempty"` // of the source's own times
	Seconds float64 `json:"seconds,omitempty"`
	Passes  uint64  `json:"passes,omitempty"`
	Pattern string  `json:"pattern"`
	Late    string  `json:"late"`
	Seed    uint64  `json:"seed"`
}

// A sentStream is one sender's part.
type sentStream struct {
	Stream       uint16  `json:"stream"` // signed frames of class c carry this + c
	CPU          int     `json:"cpu"`    // -1: any
	Accepted     uint64  `json:"accepted"`
	Octets       uint64  `json:"octets"`
	FPS          float64 `json:"fps"`
	Refused      uint64  `json:"refused"`
	Late         uint64  `json:"late"`
	LongestStall float64 `json:"longest_stall_s"`
}

func (s *sender) asked(o *offer) asked {
	l := s.load
	a := asked{FPS: float64(l.Rate), L2: float64(l.Bits), Speed: l.Speed, Frames: l.Count, Passes: l.Passes, Seed: l.Seed,
		Pattern: [...]string{"constant", "poisson", "bursts"}[l.Pattern], Late: [...]string{"make-up", "shift"}[l.Late]}
	switch {
	case l.Rate > 0:
		a.Text = l.Rate.String()
	case l.Bits > 0:
		a.Text = l.Bits.String() + " (layer 2)"
	case o.mean > 0:
		a.L2 = float64(o.mean)
		a.Text = fmt.Sprintf("%v (layer 2) as a mean, frames at their own times", o.mean)
	case l.Speed > 0:
		a.Text = "as captured"
		if o.command == "send" {
			a.Text = "at their own times"
		}
		if l.Speed != 1 {
			a.Text += fmt.Sprintf(", %g times as fast", l.Speed)
		}
	default:
		a.Text = "flat out"
	}
	switch l.Pattern {
	case engine.Poisson:
		a.Text += ", Poisson"
	case engine.Bursts:
		a.Pattern = fmt.Sprintf("bursts:%d", l.Burst)
		a.Text += fmt.Sprintf(", bursts of %d", l.Burst)
	}
	if l.Late == engine.Shift {
		a.Text += ", late frames shift the schedule"
	}
	if l.Count > 0 {
		a.Text += ", " + plural(l.Count, "frame")
	}
	if l.Passes > 0 {
		a.Text += ", " + strings.Replace(plural(l.Passes, "pass"), "passs", "passes", 1)
	}
	switch {
	case l.Duration >= endless:
		a.Text += ", until Ctrl-C"
	case l.Duration > 0:
		a.Seconds = l.Duration.Seconds()
		a.Text += ", for " + about(l.Duration)
	}
	return a
}

// account puts together what the senders and the port counted.
func (s *sender) account(o *offer, reports []engine.TxReport, wire portCounts, interrupted bool) sentAccount {
	acc := sentAccount{
		Type: "account", Command: o.command, Version: Version(), What: o.what,
		Port: s.port.record(s.flags.netns), Backend: s.backend, Interrupted: interrupted,
		Asked: s.asked(o), Dropped: wire.dropped, Probed: s.probed,
	}
	if s.probed > 0 {
		o.notes = append(o.notes, fmt.Sprintf("%s of Ethernet type 0x88b5 left before the first, to find a backend, in no amount here (this kernel cannot be asked; --backend sends none)", plural(s.probed, "probe frame")))
	}
	if s.cpus[0] >= 0 {
		acc.CPUs = s.cpus
	}
	var frames, octets, intended uint64
	fps := 0.0
	var first, last unit.Instant
	var gaps, errs []*result.Histogram
	for i, r := range reports {
		frames += r.Accepted
		octets += r.Octets
		intended += r.Intended
		rate := finite(float64(r.Offered))
		if interrupted || s.load.Duration >= endless { // the duration that was asked is not the load's
			if rate = finite(float64(max(r.Accepted, 1)-1) / seconds(r.First, r.Last)); r.Tail > 0 {
				rate = float64(r.Accepted) / (seconds(r.First, r.Last) + r.Tail.Seconds())
			}
		}
		fps += rate
		if r.First != 0 && (first == 0 || r.First < first) {
			first = r.First
		}
		last = max(last, r.Last)
		acc.Refused += r.Refused
		acc.NotSent += r.NotSent
		acc.Late += r.Late
		acc.Stalls += r.Stalls
		acc.LongestStall = max(acc.LongestStall, r.LongestStall.Seconds())
		acc.Starved += r.Starved
		if i == 0 || r.Passes < acc.Passes {
			acc.Passes = r.Passes
		}
		gaps, errs = append(gaps, r.Gaps), append(errs, r.GapErrors)
		acc.Streams = append(acc.Streams, sentStream{o.streams[i].ID, s.cpus[i], r.Accepted, r.Octets, rate, r.Refused, r.Late, r.LongestStall.Seconds()})
	}
	acc.Seconds = seconds(first, last)
	if intended > 0 {
		acc.Asked.Frames = intended
	}
	line, _ := s.port.lineRate()
	acc.Accepted = newAmount(frames, octets, fps, line)
	wireFPS := 0.0
	if frames > 0 {
		wireFPS = fps * float64(wire.frames) / float64(frames)
	}
	acc.Wire = newAmount(wire.frames, wire.octets, wireFPS, line)
	acc.Gaps, acc.GapErrors = merge(gaps), merge(errs)
	acc.Notes = append(slices.Clone(o.notes), o.sourceNotes()...)
	acc.Warnings = acc.warn()
	return acc
}

func finite(v float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	return v
}

// merge adds histograms up; nil where there are none.
func merge(all []*result.Histogram) *result.Histogram {
	counts := map[float64]uint64{}
	some := false
	for _, h := range all {
		if h == nil {
			continue
		}
		some = true
		for i, upper := range h.Upper {
			counts[upper] += h.Count[i]
		}
	}
	if !some {
		return nil
	}
	sum := &result.Histogram{Upper: []float64{}, Count: []uint64{}}
	for upper := range counts {
		sum.Upper = append(sum.Upper, upper)
	}
	slices.SortFunc(sum.Upper, cmp.Compare[float64])
	for _, upper := range sum.Upper {
		sum.Count = append(sum.Count, counts[upper])
	}
	return sum
}

// warn says where the tester did not do what it was asked, and which counter is not to be trusted.
func (acc *sentAccount) warn() (all []string) {
	say := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	share := 1.0 // of the load that was asked
	switch {
	case acc.Interrupted || acc.Asked.Late == "shift":
	case acc.Accepted.FPS == 0 && acc.Accepted.Frames > 0 && acc.Accepted.Frames >= acc.Asked.Frames: // single frames have no rate
	case acc.Asked.FPS > 0:
		share = acc.Accepted.FPS / acc.Asked.FPS
	case acc.Asked.L2 > 0:
		share = acc.Accepted.L2 / acc.Asked.L2
	}
	enough, why := 0.99, "the sender could do no more"
	switch {
	case acc.Asked.Speed > 0 && !acc.Interrupted && 100*acc.NotSent > acc.Asked.Frames:
		share = 1 - float64(acc.NotSent)/float64(acc.Asked.Frames)
	case acc.Asked.Speed > 0: // and a mean rate
		why = "flows begin at that rate and last on, so that a short load has less, and the few largest flows weigh much"
	}
	if acc.Asked.Pattern == "poisson" { // the mean of few arrivals varies
		enough -= 4 / math.Sqrt(float64(acc.Accepted.Frames+1))
	}
	if share < enough {
		say("%.1f %% of the load that was asked was offered: %s", 100*share, why)
	}
	if acc.Accepted.Frames == 0 && acc.Refused > 0 {
		say("%s took none of the %s that backend %s handed to it: choose another backend", acc.Port.Name, plural(acc.Refused, "frame"), acc.Backend)
	}
	if n := acc.Accepted.Frames; acc.Wire.Frames < n {
		say("%s counted %s less than were handed to it", acc.Port.Name, plural(n-acc.Wire.Frames, "frame"))
	}
	if gone := acc.Accepted.MeanSize - acc.Wire.MeanSize; acc.Port.Driver == "veth" && acc.Wire.Frames > 0 && math.Abs(gone-14) < 1 {
		say("%s counts frames without their Ethernet header (its other end has an XDP program): bit rates of wire are 14 octets a frame too low", acc.Port.Name)
	}
	return all
}

// rows are lines of an account, each with a name in front and at most textWidth wide.
type rows struct{ strings.Builder }

const (
	textWidth = 100
	nameWidth = 11
)

func (r *rows) add(name, format string, args ...any) {
	line := fmt.Sprintf("%-*s", nameWidth-1, name)
	for _, word := range strings.Fields(fmt.Sprintf(format, args...)) {
		if len([]rune(line))+1+len([]rune(word)) > textWidth && len([]rune(line)) >= nameWidth {
			r.WriteString(line + "\n")
			line = strings.Repeat(" ", nameWidth-1)
		}
		line += " " + word
	}
	r.WriteString(line + "\n")
}

// times is a line on a histogram of times.
func (r *rows) times(name string, h *result.Histogram) {
	if h == nil || h.Total() == 0 {
		return
	}
	r.add(name, "p50 %s, p99 %s, p99.9 %s, largest %s",
		shortTime(h.Quantile(0.5)), shortTime(h.Quantile(0.99)), shortTime(h.Quantile(0.999)), shortTime(h.Quantile(1)))
}

// text is the account for people.
func (acc sentAccount) text(w io.Writer) error {
	var b rows
	ask := acc.Asked.Text
	if acc.Asked.Frames > 0 && !strings.Contains(ask, " frame") {
		ask += ": " + plural(acc.Asked.Frames, "frame")
	}
	b.add("asked", "%s", ask)
	b.add("accepted", "%v", acc.Accepted)
	b.add("wire", "%v", acc.Wire)
	b.add("", "mean frame %.1f octets with FCS; %s", acc.Accepted.MeanSize, acc.Port.lineRate())
	b.add("time", "%.3f s from the first frame to the last", acc.Seconds)
	unsent := "not sent in time"
	if acc.Interrupted {
		unsent = "still to come"
	}
	b.add("refused", "%d; %d dropped by the port; %d %s", acc.Refused, acc.Dropped, acc.NotSent, unsent)
	late := fmt.Sprintf("%d; stalled for more than %s %s", acc.Late, shortTime(engine.StallFloor.Seconds()), plural(acc.Stalls, "time"))
	if acc.Stalls > 0 {
		late += ", at the longest for " + shortTime(acc.LongestStall)
	}
	b.add("late", "%s", late)
	if acc.Passes > 0 || acc.Asked.Passes > 0 {
		b.add("passes", "%d complete", acc.Passes)
	}
	if acc.Starved > 0 {
		b.add("starved", "the sender waited %s for its source", plural(acc.Starved, "time"))
	}
	if len(acc.Streams) > 1 {
		for _, s := range acc.Streams {
			b.add(fmt.Sprintf("stream %d", s.Stream), "CPU %d: %s, %v", s.CPU, plural(s.Accepted, "frame"), unit.FrameRate(s.FPS))
		}
	}
	b.times("gaps", acc.Gaps)
	b.times("gap error", acc.GapErrors)
	for _, n := range acc.Notes {
		b.add("note", "%s", n)
	}
	for _, n := range acc.Warnings {
		b.add("warning", "%s", n)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func shortTime(s float64) string { return unit.SI(s) + "s" }
