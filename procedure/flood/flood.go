// SPDX-License-Identifier: Apache-2.0

// Package flood has the procedure that floods a box amid benign traffic.
//
//	flood.go    rate given, or searched
//	   |
//	trial.go    one episode: before | flood | after, of one sender
//	   |
//	sample.go   the meter, read meanwhile     sensor.go  software that listens (capture.Sensor)
package flood

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"boxdyno/frame"
	"boxdyno/internal/limit"
	"boxdyno/lab"
	"boxdyno/procedure"
	"boxdyno/procedure/internal/param"
	"boxdyno/procedure/internal/trial"
	"boxdyno/result"
	"boxdyno/search"
	"boxdyno/unit"
)

// FloodSpec is the row of flood.
var FloodSpec = procedure.Spec{
	Name: "flood", Needs: lab.Ports,
	Quick: "a flood lasts 2 s, after 0.5 s and before 1 s without it, not 30 s, 5 s and 10 s",
	Doc:   "a flooded box: how much benign traffic survives, what becomes of the flood, and when the box recovers",
	Names: []string{"service", "kind", "rate", "benign", "frame_size"}, Metrics: floodMetrics, New: newFlood,
}

// Flood is what a box still does for benign traffic while it is flooded, and when it
// is back: benign frames cross the box all the time, and in their midst a flood does.
//
//	rate given:   self-test of the flood -> a trial
//	rate search:  self-test of the flood -> search -> a trial at the limit
//
// A trial (trial.go) is a frame.Episode: one sender, one schedule, one account.
type Flood struct {
	trial.Traffic
	kind    param.Choice
	port    param.Count
	rate    floodRate
	benign  param.OfferedRate
	sources param.Choice
	sensor  param.Word
	length  time.Duration
	may     lossShare

	target   param.Choice // throughBox, toBox
	requests param.Count  // a second, of toBox
	senders  param.Count
}

const (
	lineRate = "line"

	fromNetwork  = "network"
	fromAnywhere = "any"
)

// leastBenign is the least benign load, frame/s: below it phases are too few frames.
const leastBenign = 100

func newFlood() procedure.Procedure {
	p := &Flood{
		Traffic: trial.NewTraffic(trial.Forwarding), kind: param.Choice{Value: "syn"}, port: param.NewCount(0, 0, 65535),
		rate: floodRate{text: "100k", frames: 100e3}, benign: param.OfferedRate{Text: "20Mbps", Bits: 20e6},
		sources: param.NewChoice(fromNetwork, []string{fromNetwork, fromAnywhere}), sensor: param.NewWord(noSensor, "+_."), may: 0.001,
		target: param.NewChoice(throughBox, []string{throughBox, toBox}), requests: param.NewCount(100, 10, 500), senders: trial.NewSenders(),
	}
	for _, k := range frame.Floods {
		p.kind.Of = append(p.kind.Of, k.Name)
	}
	p.Direction.Of = []string{trial.LanToWAN, trial.WanToLAN}
	p.Mix.Mix = frame.Mix{Name: "512", Sizes: []unit.FrameSize{512}}
	p.Flows = param.NewCount(1, 1, frame.MaxEpisodeFlows)
	return p
}

// A floodRate is in frame/s; 0: all that the tester can send, or searched.
type floodRate struct {
	text   string
	frames unit.FrameRate
}

func (r *floodRate) String() string { return r.text }

func (r *floodRate) Set(s string) error {
	n := floodRate{text: s}
	if s != lineRate && s != param.SearchRate {
		var err error
		if n.frames, err = unit.ParseFrameRate(s); err != nil {
			return err
		}
		if n.frames < 1 || n.frames > 1e9 {
			return fmt.Errorf("rate %q: want 1 to 1G frame/s, line or search", s)
		}
	}
	*r = n
	return nil
}

// A lossShare is a share of frames, at least 0 and below 1.
type lossShare float64

func (l *lossShare) String() string { return strconv.FormatFloat(float64(*l), 'g', -1, 64) }

func (l *lossShare) Set(s string) error {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || !(v >= 0 && v < 1) {
		return fmt.Errorf("%q is no share of frames: want 0 or more and less than 1, such as 0.001", s)
	}
	*l = lossShare(v)
	return nil
}

// Flags leaves out what traffic has for several networks.
func (p *Flood) Flags(fs *flag.FlagSet) {
	fs.Var(&p.kind, "kind", "what floods: syn, ack, udp, icmp, dns or ntp amplification, or fragments that never become whole")
	fs.Var(&p.target, "target", "what is flooded: through (a network behind the box) or box (the box itself, while clients ask its HTTP server)")
	fs.Var(&p.requests, "requests", "target box: HTTP `requests` a second, each by a connection of its own")
	fs.Var(&p.senders, "senders", "CPUs of the tester that flood `together`, as far as it has so many: each has its part of the flood, and the first one all benign frames")
	fs.Var(&p.rate, "rate", "the flood's `frames` a second, such as 500k; line: all that the link or the tester carries; search: the highest that keeps benign_loss")
	fs.Var(&p.port, "port", "attacked `port` of syn, ack and udp; 0: 443, of udp any")
	fs.Var(&p.sources, "sources", "where the flood comes from: network (addresses of the sender's own side) or any (spoofed; a reverse-path filter drops them)")
	fs.Var(&p.benign, "benign", "benign `load` in layer-2 bit/s (20Mbps) or in frame/s (5k), UDP, all the time")
	fs.Var(&p.Mix, "frame_size", "of benign frames: "+param.FrameMixUsage)
	fs.Var(&p.Flows, "flows", "UDP `flows` that benign frames belong to in turn")
	fs.Var(&p.Service, "service", "what the box does: route, filter or nat")
	fs.Var(&p.Direction, "direction", "which way both go")
	fs.Var(&p.Rules, "rules", "filter: `rules` before the one that matches")
	fs.Var(&p.IP, "ip", "IP version")
	fs.Var(&p.sensor, "sensor", "`name` of software that captures on the box's port and counts benign frames (boxdyno list subjects), or none")
	fs.DurationVar(&p.length, "duration", p.length, "how `long` the flood lasts; 0s: as preset says")
	fs.Var(&p.may, "benign_loss", "`share` of the benign frames that may be lost during the flood")
	fs.Var(&p.Preset, "preset", "quick or standard: how long")
}

// Check refuses what suite does, rates that phases are too short for, and what would
// flood the box itself.
func (p *Flood) Check(bed *lab.Testbed) error {
	if p.length != 0 && (p.length < 100*time.Millisecond || p.length > time.Hour) {
		return fmt.Errorf("duration %v: want 100ms to 1h, or 0s", p.length)
	}
	if p.attacksBox() {
		return errors.Join(p.checkBox(bed), p.checkSensor(bed))
	}
	t := p.Traffic
	t.Mix.Mix, _ = trial.Signed(p.Mix.Mix, p.IPv6())
	if err := t.Check(bed); err != nil {
		return err
	}
	if p.Service.Value == "nat" && p.Direction.Value == trial.WanToLAN {
		return errors.New("direction wan-to-lan: behind service nat there is nobody to flood: use lan-to-wan, route or filter")
	}
	if p.port.Value != 0 && !slices.Contains([]string{"syn", "ack", "udp"}, p.kind.Value) {
		return fmt.Errorf("port %d: flood %s has no attacked port: syn, ack and udp have one", p.port.Value, p.kind.Value)
	}
	if p.benign.Searched() {
		return errors.New("benign search: the benign load is stated, and the flood's rate is searched")
	}
	if r := p.benignRate(); r < leastBenign || r > 1e8 {
		return fmt.Errorf("benign %s: that is %v of this size: want %d frame/s to 100 Mframe/s", p.benign.Text, r, leastBenign)
	}
	return p.checkSensor(bed)
}

// benignRate is the benign frames a second.
func (p *Flood) benignRate() unit.FrameRate {
	if p.attacksBox() {
		return 0
	}
	if p.benign.Bits > 0 {
		return unit.FrameRate(float64(p.benign.Bits) / 8 / p.Mix.Mean())
	}
	return p.benign.Frames
}

// A floodEffort is how long the phases last, and the flood of a search's trial.
type floodEffort struct{ before, flood, after, searched time.Duration }

func (p *Flood) effort() floodEffort {
	e := floodEffort{500 * time.Millisecond, 2 * time.Second, time.Second, time.Second}
	if p.Preset.Value == "standard" {
		e = floodEffort{5 * time.Second, 30 * time.Second, 10 * time.Second, 5 * time.Second}
	}
	if p.length > 0 {
		e.flood = p.length
	}
	e.searched = min(e.searched, e.flood)
	return e
}

// searching is how a flood's rate is searched: by halves, each rate decided by most of
// up to three trials.
func (p *Flood) searching(e floodEffort) search.Preset {
	return search.Preset{Name: param.SearchRate, Halves: true, Trials: 18, Goals: []search.Goal{{
		Name: "benign loss", Loss: unit.LossRatio(p.may), Initial: e.searched, Final: e.searched, Sum: 3 * e.searched, Exceed: 0.5, Width: 0.05,
	}}}
}

func (p *Flood) Estimate() (int, time.Duration) {
	const around = 300 * time.Millisecond // laying the frames out, arming, settling
	e := p.effort()
	trials, d := 1, e.before+e.flood+e.after+around+trial.EffortOf(p.Preset.Value).Settle
	if p.rate.text == param.SearchRate {
		n := p.searching(e).Trials
		trials += n
		d += time.Duration(n) * (e.before + e.searched + e.after + around + trial.EffortOf(p.Preset.Value).Settle)
	}
	return trials + 1, d + trial.EffortOf(p.Preset.Value).SelfTest
}

func (p *Flood) Run(ctx context.Context, env *procedure.Env) (_ procedure.Outcome, err error) {
	if env.Bed.Placement == "shared" {
		return procedure.Outcome{Status: result.Skipped, Reason: trial.SharedPlacement}, nil
	}
	mix, substituted := trial.Signed(p.Mix.Mix, p.IPv6())
	p.Mix.Mix = mix
	m := &floodPoint{Flood: p, env: env, effort: p.effort(), out: procedure.Outcome{Status: result.Passed}}
	if substituted != "" {
		m.out.Warnings = append(m.out.Warnings, substituted)
	}
	if few := trial.FewSenders(env.Bed, p.senders.Value); few != "" {
		m.out.Warnings = append(m.out.Warnings, few)
	}
	if p.sensor.Value != noSensor {
		s, err := p.newSensor(env.Bed).Software()
		if err == nil {
			err = env.Bed.Machine().Check(ctx, s)
		}
		if err != nil {
			return procedure.Outcome{}, err
		}
	}
	self, err := m.selfTest(ctx)
	if err != nil {
		return procedure.Outcome{}, err
	}
	if self.Status == result.Invalid {
		return procedure.Outcome{Status: result.Invalid, Reason: "the self-test is invalid: " + self.Reason}, nil
	}
	m.ceiling = self.Ceiling()
	m.mean = self.Load.MeanSize
	if err := m.open(ctx); err != nil {
		return procedure.Outcome{}, errors.Join(err, m.close())
	}
	defer func() { err = errors.Join(err, m.close()) }()
	switch p.rate.text {
	case param.SearchRate:
		err = m.highest(ctx)
	case lineRate:
		err = m.at(ctx, m.line())
	default:
		err = m.at(ctx, p.rate.frames)
	}
	return m.out, err
}

// lineShare is the part of the tester's ceiling that line is where no link is slower: a
// paced sender does not reach what one does that is not.
const lineShare = 0.9

// line is the highest rate of the flood that the link carries beside the benign load,
// or that the tester sends.
func (m *floodPoint) line() unit.FrameRate {
	rate := m.ceiling*lineShare - m.benignRate()
	if link := m.env.Bed.Ports[m.from()].Link; link > 0 {
		left := float64(link) - float64(unit.L1(m.benignRate(), m.Mix.Mean()))
		rate = min(rate, unit.FrameRate(left/8/(m.mean+unit.Overhead)))
	}
	return max(1, unit.FrameRate(math.Floor(float64(rate))))
}

// floodTries is how often a rate below the tester's ceiling is offered until its trial is
// valid: a stall of the machine towards the end of a flood cannot be made up.
const floodTries = 3

// at measures one rate.
func (m *floodPoint) at(ctx context.Context, rate unit.FrameRate) (err error) {
	var rec result.Record
	for n := range floodTries {
		if rec, err = m.trial(ctx, "flood", n, rate, m.effort.flood); err != nil {
			return err
		}
		if rec.Status != result.Invalid || rate+m.benignRate() > m.ceiling {
			break
		}
	}
	m.out.Status, m.out.Reason, m.out.Load, m.out.Account = rec.Status, rec.Reason, rec.Load, rec.Account
	if rec.Status != result.Invalid { // else it says nothing about the box
		m.out.Values = append(m.out.Values, rec.Values...)
	}
	for _, w := range rec.Warnings {
		if !slices.Contains(m.out.Warnings, w) {
			m.out.Warnings = append(m.out.Warnings, w)
		}
	}
	return nil
}

// highest searches the highest rate of the flood at which no more benign frames are
// lost than may be, and measures there.
func (m *floodPoint) highest(ctx context.Context) error {
	h := &limit.Hunt{Search: search.Search{Preset: m.searching(m.effort), Max: m.line(), Guess: m.line()}}
	h.Offer = func(ctx context.Context, n int, step search.Step) (now search.Seen, _ time.Duration, err error) {
		rec, err := m.trial(ctx, "search", n, step.Rate, step.Duration)
		now.Valid = rec.Status != result.Invalid
		if v := rec.Value("flood_offered_fps"); v != nil {
			now.Offered = unit.FrameRate(v.Value)
		}
		for _, survival := range []string{"benign_survival_ratio", "service_survival_ratio"} {
			if v := rec.Value(survival); v != nil {
				now.Loss = unit.LossRatio(1 - v.Value)
			}
		}
		return now, 0, err
	}
	l, err := limit.Find(ctx, h)
	if err != nil {
		return err
	}
	switch {
	case l.Clean+l.Lossy == 0:
		m.out.Status, m.out.Reason = result.Invalid, fmt.Sprintf("no limit: all %d trials of the search were invalid", l.Invalid)
		return nil
	case l.Lower == 0:
		m.out.Status, m.out.Reason = result.Failed, fmt.Sprintf("more than %s of the benign frames were lost at every rate of the flood tried", sharePercent(float64(m.may)))
		return nil
	}
	if err := m.at(ctx, l.Lower); err != nil {
		return err
	}
	v := figures.Interval("flood_borne_fps", l, 1)
	if v.Value > float64(m.ceiling)/1.2 {
		v.Limit()
	}
	if m.out.Status == result.Passed {
		m.out.Values = append([]result.Value{v}, m.out.Values...)
	} else if m.out.Status == result.Failed {
		m.out.Reason = fmt.Sprintf("the search ended at %v, and a longer trial did not confirm it: %s", l.Lower, m.out.Reason)
	}
	return nil
}

// sharePercent is a share in percent with three digits.
func sharePercent(v float64) string { return strconv.FormatFloat(v*100, 'g', 3, 64) + " %" }
