// SPDX-License-Identifier: Apache-2.0

// Package capture has the procedures that put software under load which receives the
// frames of a port: capture, and ids on top of its trial.
//
//	ids      rules, planted attacks, alerts        Sensor  another room's frames, counted
//	  |                                            Loan    a trial for another room's subjects
//	capture  search.go -> trial.go -> subject.go: one start of the software, one load
package capture

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"boxdyno/engine"
	"boxdyno/engine/crew"
	"boxdyno/frame"
	"boxdyno/host"
	"boxdyno/lab"
	"boxdyno/procedure"
	"boxdyno/procedure/internal/param"
	"boxdyno/procedure/internal/trial"
	"boxdyno/result"
	"boxdyno/search"
	"boxdyno/subject"
	"boxdyno/subject/catalog"
	"boxdyno/unit"
)

// CaptureSpec is the row of capture. It is no variable, so that the agent on a board has none
// of the code that it does not need (GivenSpec).
func CaptureSpec() procedure.Spec {
	s := GivenSpec
	s.Quick = "capture offers rates for 1 s, in its search for 0.5 s at least, not for 10 s and 5 s: a buffer takes a larger share of them"
	s.Doc = "software that captures frames: what it counts at a rate, or the highest rate without loss, and its cost to the box"
	s.New = newCapture
	return s
}

// Capture measures software that captures frames: a subject listens on the DUT's lan
// port, on the DUT's CPU, and the tester sends it frames that nobody else wants.
//
//	rate given:    self-test -> the same load into the empty box -> a trial
//	rate search:   self-test -> ceiling, lowered -> search -> trial at the limit [-> overload]
//	rate overload: self-test -> overload
//
// Each trial starts the subject anew (trial.go).
type Capture struct {
	subject param.Word
	file    string
	payload param.Count
	size    param.FrameSize
	rate    captureRate
	packets param.Count
	length  time.Duration
	burst   param.Count
	buffer  param.Count
	method  param.Choice
	sender  param.Choice
	senders param.Count
	vlan    param.Count // 0: no tag
	window  time.Duration
	preset  param.Choice
	search  param.Choice

	opens     func(ctx context.Context, bed *lab.Testbed, cpus []int) (engine.Transmitter, error)
	other     func(ctx context.Context, bed *lab.Testbed, payload int) (generator, error) // nil: there is none but the engine
	specs     subject.Specs                                                               // that subject may name
	known     string                                                                      // the name that other machines know them by; "": their own
	options   []result.Pair                                                               // what else the subject is told: its flags
	service   string                                                                      // of the DUT's lan port
	standing  time.Duration                                                               // a count that has not moved for so long has come to rest
	patience  time.Duration                                                               // until the first probe frame is counted
	readiness time.Duration                                                               // until the subject is ready
}

const (
	methodOurs      = "ours"
	methodPublished = "published"

	// publishedWindow is how long the published study watched a process, from the
	// first frame on.
	publishedWindow = 50 * time.Second
	// publishedLength is how long it sent where no number of packets was given.
	publishedLength = 10 * time.Second
	// udpOverhead is a frame's octets beside its UDP payload: Ethernet, IPv4, UDP, FCS.
	udpOverhead = 14 + 20 + 8 + unit.FCS
	mostPayload = int(frame.MaxSize) - udpOverhead - 4 // with a VLAN tag
	mostPackets = 1_000_000_000
	mostBurst   = 1 << 16
)

func newCapture() procedure.Procedure { return newCaptureOf(catalog.Captures) }

func newCaptureOf(specs subject.Specs) *Capture {
	p := newGivenOf(specs)
	p.rate = captureRate{OfferedRate: param.OfferedRate{Text: param.SearchRate}}
	p.sender = param.NewChoice(generatorEngine, []string{generatorEngine, generatorIperf3})
	p.search = param.NewChoice(trial.AsPreset, append([]string{trial.AsPreset}, search.Names()...))
	p.other = newIperf3
	p.opens = func(ctx context.Context, bed *lab.Testbed, cpus []int) (engine.Transmitter, error) {
		return crew.Open(ctx, bed.Engine, []host.Port{bed.Ports[0].Port}, cpus)
	}
	return p
}

func (p *Capture) Flags(fs *flag.FlagSet) {
	p.given(fs)
	fs.Var(&p.rate, "rate", "`load` in frame/s (200k), in layer-2 bit/s (2Mbps; method published: of UDP payload), payload:2Mbps of UDP payload, line:1Gbps with preamble and gap; search: the highest without loss; overload: that of which most frames are counted")
	fs.StringVar(&p.file, "file", p.file, "`file` that describes a subject of your own, for subject own")
	fs.Var(&p.sender, "generator", "what sends: the engine, or iperf3, as in the published study: at a rate, with payload_size")
	fs.Var(&p.senders, "senders", trial.SendersUsage)
	fs.Var(&p.search, "search", "how the highest rate is found; preset: the search of the preset's name")
}

// given are the parameters of a load at a rate, but for the rate.
func (p *Capture) given(fs *flag.FlagSet) {
	fs.Var(&p.subject, "subject", "`name` of the software: boxdyno list subjects has them")
	fs.Var(&p.payload, "payload_size", "`octets` of UDP payload; 0: frame_size says how long frames are")
	fs.Var(&p.size, "frame_size", param.FrameMixUsage+"; 0: payload_size says it, or 64 without one, 68 with a tag")
	fs.Var(&p.packets, "packets", "`frames` to send; 0: as long as duration says")
	fs.DurationVar(&p.length, "duration", p.length, "how `long` frames are sent; 0s: as preset says, method published 10s")
	fs.Var(&p.burst, "burst", "`frames` that are sent back to back, bursts at equal gaps; 0: frames at equal gaps")
	fs.Var(&p.buffer, "buffer", "`octets` of the subject's capture buffer; 0: as it is by default")
	fs.Var(&p.method, "method", "ours: the whole process tree while there was work; published: also the main process over a fixed window, as in the published study")
	fs.DurationVar(&p.window, "window", p.window, "method published: how `long` the process is watched, from the first frame on; 0s: 50s")
	fs.Var(&p.vlan, "vlan", "`number` of the VLAN whose tag (802.1Q) every frame has; 0: no tag")
	fs.Var(&p.preset, "preset", "quick or standard: how long, how often")
}

// mix is how long frames are.
func (p *Capture) mix() frame.Mix {
	size := frame.SmallestIn(uint16(p.vlan.Value), false)
	switch {
	case p.payload.Value > 0:
		size = unit.FrameSize(p.payload.Value+udpOverhead) + size - frame.Smallest(false)
	case p.size.Name != "":
		return p.size.Mix
	}
	return frame.Mix{Name: strconv.Itoa(int(size)), Sizes: []unit.FrameSize{size}}
}

// framesPerSecond is the rate given.
func (p *Capture) framesPerSecond() unit.FrameRate {
	return p.rate.Of(p.mix().Mean(), p.payload.Value, p.method.Value == methodPublished)
}

// spec is the subject's row.
func (p *Capture) spec() (subject.Spec, error) {
	i := slices.IndexFunc(p.specs, func(s subject.Spec) bool { return s.Name == p.subject.Value })
	if i < 0 {
		return subject.Spec{}, fmt.Errorf("subject %s: it captures nothing, or is not known: there are %s", p.subject.Value, strings.Join(p.specs.Names(), ", "))
	}
	return p.specs[i], nil
}

// software is the subject with the parameters that it has.
func (p *Capture) software() (s subject.Named, err error) {
	spec, err := p.spec()
	if err != nil {
		return s, err
	}
	s = subject.Named{Name: cmp.Or(p.known, spec.Name), Subject: spec.New()}
	fs := flag.NewFlagSet(spec.Name, flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	s.Flags(fs)
	set := func(name, value string) error {
		if fs.Lookup(name) == nil {
			return fmt.Errorf("%s %s: subject %s has no such parameter", name, value, spec.Name)
		}
		return fs.Set(name, value)
	}
	if p.buffer.Value > 0 {
		err = set("buffer", strconv.Itoa(p.buffer.Value))
	}
	if p.file != "" {
		err = errors.Join(err, set("file", p.file))
	}
	if p.sender.Value == generatorIperf3 {
		err = errors.Join(err, set("filter", iperfFilter))
	}
	for _, o := range p.options {
		err = errors.Join(err, set(o.Key, o.Value))
	}
	return s, err
}

// Needs implements Needing: iperf3 sends over sockets of both ends' kernels.
func (p *Capture) Needs() (need lab.Capability, service string) {
	if p.sender.Value == generatorIperf3 {
		need = lab.Sockets
	}
	return need, ""
}

func (p *Capture) Check(bed *lab.Testbed) error {
	if p.payload.Value > 0 && p.size.Name != "" {
		return fmt.Errorf("payload_size %d and frame_size %s: give one of them", p.payload.Value, p.size.Name)
	}
	if err := p.mix().SignedIn(uint16(p.vlan.Value), false); err != nil {
		return err
	}
	if p.packets.Value > 0 && p.length > 0 {
		return fmt.Errorf("packets %d and duration %v: give one of them", p.packets.Value, p.length)
	}
	if p.length != 0 && (p.length < 10*time.Millisecond || p.length > 24*time.Hour) {
		return fmt.Errorf("duration %v: want 10ms to 24h, or 0s", p.length)
	}
	if p.rate.Searched() && (p.packets.Value > 0 || p.length > 0) {
		return fmt.Errorf("rate search: how long it offers a rate is the search's to say: leave packets and duration out")
	}
	if p.rate.Layer == param.LayerPayload && p.payload.Value == 0 {
		return fmt.Errorf("rate %s: it is of UDP payload: give payload_size", &p.rate)
	}
	if err := p.checkPublished(); err != nil {
		return err
	}
	if err := p.checkIperf3(); err != nil {
		return err
	}
	s, err := p.software()
	if err != nil {
		return err
	}
	if v, ok := s.Subject.(interface{ Valid() error }); ok {
		if err := v.Valid(); err != nil {
			return err
		}
	}
	if bed == nil {
		return nil
	}
	return trial.FitsIn(p.mix(), uint16(p.vlan.Value), false, bed.Ports[:1])
}

// checkPublished says what method and window do not allow.
func (p *Capture) checkPublished() error {
	if p.method.Value != methodPublished {
		if p.window != 0 {
			return fmt.Errorf("window %v: only method %s has one", p.window, methodPublished)
		}
		return nil
	}
	switch {
	case p.payload.Value == 0:
		return fmt.Errorf("method %s: it counts UDP payload: give payload_size", methodPublished)
	case p.rate.Bits == 0 || p.rate.Layer == param.LayerLine:
		return fmt.Errorf("method %s: its rates are in bit/s of UDP payload: give a rate such as 2Mbps", methodPublished)
	case p.window < 0 || p.window > time.Hour:
		return fmt.Errorf("window %v: want up to 1h", p.window)
	}
	if need := p.loadOf(p.framesPerSecond()); p.watched() < lasts(need) {
		return fmt.Errorf("window %v: the frames take %v to send", p.watched(), lasts(need).Round(time.Millisecond))
	}
	return nil
}

// checkIperf3 says what generator iperf3 does not allow.
func (p *Capture) checkIperf3() error {
	const name = "generator " + generatorIperf3
	switch {
	case p.sender.Value != generatorIperf3:
		return nil
	case p.payload.Value == 0:
		return fmt.Errorf("%s: give payload_size", name)
	case p.rate.Searched():
		return fmt.Errorf("%s: its pace is not exact enough for a search: give a rate", name)
	case p.burst.Value > 1:
		return fmt.Errorf("%s: burst %d: its own are all that it sends", name, p.burst.Value)
	case p.vlan.Value > 0:
		return fmt.Errorf("%s: vlan %d: its frames have no tag", name, p.vlan.Value)
	case p.senders.Value > 1:
		return fmt.Errorf("%s: senders %d: several are the engine's", name, p.senders.Value)
	}
	return nil
}

// watched is method published's window, 0 without.
func (p *Capture) watched() time.Duration {
	if p.method.Value != methodPublished {
		return 0
	}
	if p.window == 0 {
		return publishedWindow
	}
	return p.window
}

// A captureEffort is how long a preset offers frames.
type captureEffort struct{ trial, least time.Duration }

func captureEffortOf(preset string) captureEffort {
	if preset == "standard" {
		return captureEffort{trial: 10 * time.Second, least: 5 * time.Second}
	}
	return captureEffort{trial: time.Second, least: 500 * time.Millisecond}
}

// loadOf is the load that the parameters describe, at a rate.
func (p *Capture) loadOf(rate unit.FrameRate) engine.Load {
	l := engine.Load{Rate: rate, Count: uint64(p.packets.Value)}
	if p.burst.Value > 1 {
		l.Pattern, l.Burst = engine.Bursts, p.burst.Value
	}
	switch {
	case l.Count > 0:
	case p.length > 0:
		l.Duration = p.length
	case p.method.Value == methodPublished:
		l.Duration = publishedLength
	default:
		l.Duration = captureEffortOf(p.preset.Value).trial
	}
	return l
}

// lasts is how long a load takes to be sent.
func lasts(l engine.Load) time.Duration {
	if l.Count > 0 && l.Rate > 0 {
		return time.Duration(float64(l.Count) / float64(l.Rate) * float64(time.Second))
	}
	return l.Duration
}

func (p *Capture) searching() search.Preset {
	return trial.SearchOf(p.search.Value, p.preset.Value)
}

// captureAround is what a trial takes beside its traffic: start, probes, and the
// two seconds in which a count that is not complete must stand still, and the end.
const captureAround = 3 * time.Second

// lasting is about how long a trial at the given rate takes.
func (p *Capture) lasting() time.Duration {
	return max(lasts(p.loadOf(p.framesPerSecond())), p.watched()) + captureAround
}

func (p *Capture) Estimate() (int, time.Duration) {
	e := captureEffortOf(p.preset.Value)
	if !p.rate.Searched() {
		return 1, p.lasting()
	}
	const before, longer, climbed, counted = 5, 2, 6, 3 * overloads
	trials, _ := p.searching().Estimate()
	n, d := before+trials+trial.FillEstimate+2*longer, time.Duration(before+trials)*e.least
	d += (1<<trial.FillEstimate-1)*e.least + 2*longer*max(e.trial, confirming) // each longer one into the empty box, too
	if p.rate.overload {
		n, d = 0, 0
	}
	if p.rate.overload || p.preset.Value != "quick" {
		n += climbed + counted
		d += (climbed + counted) * max(e.trial, overloadLeast)
	}
	return n, d + time.Duration(n)*captureAround
}

// Once implements Sharing: the load into the empty box.
func (p *Capture) Once() (key string, trials int, d time.Duration) {
	if p.rate.Searched() {
		return "", 0, 0
	}
	l := p.loadOf(p.framesPerSecond())
	return fmt.Sprint("empty-box", p.mix().Name, p.vlan.Value, l, p.sender.Value, p.senders.Value), 1, lasts(l)
}

func (p *Capture) Run(ctx context.Context, env *procedure.Env) (_ procedure.Outcome, err error) {
	m, o, err := p.enter(ctx, env)
	if m == nil {
		return o, err
	}
	self, err := trial.TesterCeiling(ctx, env, p.mix(), false, false, p.senders.Value, trial.EffortOf(p.preset.Value))
	if err != nil {
		return procedure.Outcome{}, err
	}
	if self.Status == result.Invalid {
		return procedure.Outcome{Status: result.Invalid, Reason: "the self-test is invalid: " + self.Reason}, nil
	}
	m.ceiling = self.Ceiling()
	if err := m.open(ctx); err != nil {
		return procedure.Outcome{}, err
	}
	defer func() { err = errors.Join(err, m.close()) }()
	if p.rate.Searched() {
		err = m.highest(ctx)
	} else {
		err = m.at(ctx, "rate", p.loadOf(p.framesPerSecond()))
	}
	var left *leftError
	switch {
	case errors.As(err, &left):
		return left.found, nil
	case errors.Is(err, errSubject):
		err = nil
	}
	return m.out, err
}

// enter is a point whose subject can run; nil: the outcome, or the error, says why not.
func (p *Capture) enter(ctx context.Context, env *procedure.Env) (*capturePoint, procedure.Outcome, error) {
	m := &capturePoint{Capture: p, env: env, effort: captureEffortOf(p.preset.Value), out: procedure.Outcome{Status: result.Passed}, emptied: -1}
	m.pause = m.rest
	s, err := p.software()
	if err != nil {
		return nil, procedure.Outcome{}, err
	}
	var missing *host.Missing
	if err := env.Bed.Machine().Check(ctx, s); errors.As(err, &missing) || errors.Is(err, subject.ErrLost) || err != nil && ctx.Err() != nil {
		return nil, procedure.Outcome{}, err
	} else if err != nil {
		return nil, procedure.Outcome{Status: result.Failed, Reason: m.said(err)}, nil
	}
	if few := trial.FewSenders(env.Bed, p.senders.Value); few != "" {
		m.warn("%s", few)
	}
	return m, procedure.Outcome{}, nil
}

// rest lets the run's other points have their turn: what takes a CPU away for a minute
// then spoils no point whole.
func (m *capturePoint) rest(ctx context.Context, found procedure.Outcome) error {
	return pauseClosed(ctx, m.env, found, m.close, m.open)
}

// Visits implements Paused.
func (p *Capture) Visits() int {
	if !p.rate.Searched() || p.rate.overload {
		return 1
	}
	const fill, longer = 1, 3
	return 1 + p.searching().Trials/huntTrials + fill + longer
}

// said is an error of the subject's in one sentence.
func (p *Capture) said(err error) string {
	text := procedure.Sentence(err)
	if strings.Contains(text, p.subject.Value) {
		return text
	}
	return p.subject.Value + ": " + text
}

// mostAt is how often a load is offered until a trial is valid.
const mostAt = 3

// at measures one load, with the empty box under the same one before it. A trial in which
// the tester could not do its part is replaced, unless others carry it out together: they do
// not wait again.
func (m *capturePoint) at(ctx context.Context, kind string, l engine.Load) error {
	if err := m.empty(ctx, l); err != nil {
		return err
	}
	return m.offerAt(kind, func(n int) (result.Record, error) { return m.trial(ctx, kind, n, l) })
}

// offerAt offers one load until a trial of that kind is valid, or no time is left for another,
// and takes that trial, or else the last.
func (m *capturePoint) offerAt(kind string, offer func(n int) (result.Record, error)) error {
	var rec result.Record
	for n := 0; n < mostAt; n++ {
		if n > 0 && m.env.Spent != nil && m.env.Spent(kind) {
			break
		}
		var err error
		if rec, err = offer(n); err != nil {
			return err
		}
		if rec.Status != result.Invalid || m.env.Together != nil {
			break
		}
	}
	m.take(rec)
	return nil
}

// take makes a trial's figures and verdict those of the point.
func (m *capturePoint) take(rec result.Record) {
	m.out.Status, m.out.Reason = rec.Status, rec.Reason
	m.out.Load, m.out.Account, m.out.Usage = rec.Load, rec.Account, rec.Usage
	for _, w := range rec.Warnings {
		if !slices.Contains(m.out.Warnings, w) {
			m.out.Warnings = append(m.out.Warnings, w)
		}
	}
	m.out.Values = append(m.out.Values, rec.Values...)
}

func (m *capturePoint) warn(format string, args ...any) {
	m.out.Warnings = append(m.out.Warnings, fmt.Sprintf(format, args...))
}
