// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"boxdyno/frame"
	"boxdyno/host"
	"boxdyno/internal/files"
	"boxdyno/lab"
	"boxdyno/procedure"
	"boxdyno/procedure/internal/metrics"
	"boxdyno/procedure/internal/param"
	"boxdyno/procedure/internal/trial"
	"boxdyno/result"
	"boxdyno/subject"
	"boxdyno/subject/ids"
	"boxdyno/unit"
)

// IDSSpec is the row of ids. It is no variable, so that programs without ids have none of its
// code: the agent on a board.
func IDSSpec() procedure.Spec {
	return procedure.Spec{
		Name: "ids", Needs: lab.Listener, Deviation: "the IDS's traffic has nobody's MAC addresses, as behind a mirror port, and ends in the box after its copy",
		Quick:   "ids offers loads for 2 s, not for 60 s, in a search of few trials: a limit set by memory, which fills slowly, is not seen",
		Doc:     "intrusion detection on the box: highest load with hardly a frame lost, and whether it still detects every planted attack",
		Names:   []string{"subject", "rules", "rules_file", "traffic", "rate"},
		Metrics: idsMetrics, Joules: idsJoules, New: newIDS,
	}
}

// IDS measures intrusion detection: it listens on the DUT's lan port as behind a mirror
// port, the tester replays traffic in which it knows every attack, and both its losses
// and what it detects are counted.
//
//	rules written -> self-test -> idle: does it see all there is? -> rate given:   a trial
//	                                                                 rate search:  overload, lowered -> search -> trial at the limit
//
// Each trial starts it anew, with traffic made for the trial's rate (ids_traffic.go).
type IDS struct {
	subject param.Choice
	rules   param.Count
	file    string // rulesAuto, rulesGenerated, or a file or folder
	machine string // folder of the machine's own rules
	sample  param.Count
	seed    param.Count
	traffic string
	attacks ratio
	flood   param.Choice
	share   ratio
	rate    param.OfferedRate
	top     param.OfferedRate
	idle    param.OfferedRate
	loss    ratio
	length  time.Duration
	runmode param.Choice
	capture param.Choice
	threads param.Count
	ring    param.Count
	senders param.Count
	preset  param.Choice

	specs    subject.Specs
	standing time.Duration // as Capture's, and patience
	patience time.Duration
}

const (
	appMix    = "appmix"
	noFlood   = "none"
	mostRules = 200_000

	rulesAuto      = "auto"
	rulesGenerated = "generated"

	// idsReadiness is how long an IDS may take to load its rules: 20,000 of them take a
	// small board minutes.
	idsReadiness = 10 * time.Minute
	idsPatience  = 30 * time.Second
)

func newIDS() procedure.Procedure { return newIDSOf(ids.Specs()) }

func newIDSOf(specs subject.Specs) *IDS {
	floods := []string{noFlood}
	for _, k := range frame.Floods {
		floods = append(floods, k.Name)
	}
	rate := func(text string) (r param.OfferedRate) {
		r.Text = text
		r.Bits, _ = unit.ParseBitRate(text)
		return r
	}
	return &IDS{
		subject: param.NewChoice("suricata", specs.Names()), file: rulesAuto, machine: ids.MachineRules, rules: param.NewCount(0, 0, mostRules), sample: param.NewCount(0, 0, mostRules), seed: param.NewCount(1, 0, 1<<30),
		traffic: appMix, attacks: ratio{0.1, 0, 1}, flood: param.NewChoice(noFlood, floods), share: ratio{0.3, 0.001, 0.999},
		rate: param.OfferedRate{Text: param.SearchRate}, top: rate("1Gbps"), idle: rate("20Mbps"), loss: ratio{1e-4, 0, 0.5},
		runmode: param.NewChoice(ids.Workers, []string{ids.Workers, ids.AutoFP, ids.Single}),
		capture: param.NewChoice(ids.AFPacket, []string{ids.AFPacket, ids.AFXDP}),
		threads: param.NewCount(0, 0, 256), ring: param.NewCount(ids.DefaultRing, 64, 1<<18), senders: trial.NewSenders(), preset: param.NewPreset(),
		specs: specs, standing: time.Second, patience: idsPatience,
	}
}

func (p *IDS) Flags(fs *flag.FlagSet) {
	fs.Var(&p.subject, "subject", "the IDS")
	fs.Var(&p.rules, "rules", "`number` of rules beside those of the planted attacks; 0: none, or all of a rules_file")
	fs.StringVar(&p.file, "rules_file", p.file, "where they come from: auto (the machine's own in "+ids.MachineRules+", where there are enough, else generated), generated, or a `file` or folder")
	fs.Var(&p.sample, "rules_sample", "`number` of rules of a rules_file, as rules; 0: as rules says")
	fs.Var(&p.seed, "rules_seed", "`seed` of generated rules, of the draw, and of the traffic")
	fs.StringVar(&p.traffic, "traffic", p.traffic, "appmix: conversations of many applications; or a capture `file`, replayed with addresses of each pass's own")
	fs.Var(&p.attacks, "attacks", "`share` of appmix's conversations that are planted attacks")
	fs.Var(&p.flood, "flood", "flood among the traffic")
	fs.Var(&p.share, "flood_share", "`share` of all frames that is the flood's")
	fs.Var(&p.rate, "rate", "`load` in layer-2 bit/s (200Mbps), or search: the highest at which no more than loss is lost")
	fs.Var(&p.top, "top", "`load` in bit/s above which none is searched")
	fs.Var(&p.idle, "idle", "`load` in bit/s at which all attacks must be detected")
	fs.Var(&p.loss, "loss", "`share` of the frames that may be lost")
	fs.DurationVar(&p.length, "duration", p.length, "how `long` traffic is sent; 0s: as preset says")
	fs.Var(&p.runmode, "runmode", "how the IDS divides its work among threads")
	fs.Var(&p.capture, "capture", "how it gets frames")
	fs.Var(&p.threads, "threads", "`threads` that detect; 0: as many as the DUT has CPUs")
	fs.Var(&p.ring, "ring", "`frames` that a thread's ring has room for")
	fs.Var(&p.senders, "senders", trial.SendersUsage)
	fs.Var(&p.preset, "preset", "quick or standard: how long")
}

func (p *IDS) Check(bed *lab.Testbed) error {
	switch {
	case p.file == "":
		return fmt.Errorf("rules_file is empty: want %s, %s, or a file of rules", rulesAuto, rulesGenerated)
	case p.rules.Value > 0 && p.sample.Value > 0:
		return fmt.Errorf("rules %d and rules_sample %d: both say how many rules: give one of them", p.rules.Value, p.sample.Value)
	case p.sample.Value > 0 && !p.named():
		return fmt.Errorf("rules_sample %d: it needs a rules_file that they are drawn from: give a file, or use rules", p.sample.Value)
	case p.length != 0 && (p.length < 100*time.Millisecond || p.length > 24*time.Hour):
		return fmt.Errorf("duration %v: want 100ms to 24h, or 0s", p.length)
	case p.flood.Value != noFlood && p.traffic != appMix:
		return fmt.Errorf("flood %s: only traffic %s has one beside it", p.flood.Value, appMix)
	}
	for _, r := range []struct {
		name string
		rate *param.OfferedRate
	}{{"rate", &p.rate}, {"top", &p.top}, {"idle", &p.idle}} {
		if r.rate.Layer != "" {
			return fmt.Errorf("%s %s: its frames are of many sizes: want bit/s of layer 2, such as 200Mbps", r.name, r.rate.Text)
		}
		if r.rate.Frames > 0 || r.name != "rate" && r.rate.Searched() {
			return fmt.Errorf("%s %s: want bit/s, such as 200Mbps", r.name, r.rate.Text)
		}
		if !r.rate.Searched() && (r.rate.Bits < 10_000 || r.rate.Bits > 100e9) {
			return fmt.Errorf("%s %s: want 10kbps to 100Gbps", r.name, r.rate.Text)
		}
	}
	if p.named() {
		if err := ids.CheckRules(p.file); err != nil {
			return err
		}
	}
	if p.traffic != appMix {
		if err := p.checkCapture(); err != nil {
			return fmt.Errorf("traffic: %w", err)
		}
	}
	if _, err := p.listener("").software(); err != nil {
		return err
	}
	if p.capture.Value == ids.AFXDP {
		return fmt.Errorf("capture %s: Suricata makes a thread for each combined queue of a port, and a veth has none: use capture=%s", p.capture.Value, ids.AFPacket)
	}
	if bed == nil {
		return nil
	}
	return trial.Fits(typical, false, bed.Ports[:1])
}

// checkCapture looks at the beginning of the capture, and whether a pass lasts too long.
func (p *IDS) checkCapture() error {
	f, err := files.Open(p.traffic) // never "-": each trial reads it anew
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	c, err := frame.OpenCaptureReader(io.MultiReader(f), p.traffic, frame.CaptureOptions{Longest: longestFrame, LongFrames: frame.Cut}) // as a stream: not read through
	if err != nil {
		return err
	}
	if err := c.Close(); err != nil {
		return err
	}
	// The least there is in it: packed, or a snapped capture, it is more.
	for _, rate := range []unit.BitRate{p.idle.Bits, p.rate.Bits} {
		if pass := passTime(uint64(info.Size()), rate); rate > 0 && pass > longestPass*11/10 {
			return &longPassError{p.traffic, rate, pass}
		}
	}
	return nil
}

// typical is a frame size about as long as the mean of an application mix.
var typical = frame.Mix{Name: "450", Sizes: []unit.FrameSize{450}}

// listener is the IDS as a capture, with the rules of a file; "": none.
func (p *IDS) listener(rules string) *Capture {
	c := newCaptureOf(p.specs)
	c.subject.Value, c.size, c.preset, c.rate.OfferedRate = p.subject.Value, param.FrameSize{FrameMix: param.FrameMix{Mix: typical}}, p.preset, p.rate
	c.senders.Value = p.senders.Value
	c.standing, c.patience, c.readiness, c.service = p.standing, p.patience, idsReadiness, "route"
	filter := idsFilter
	if p.capture.Value == ids.AFXDP { // it sees only what comes in, and has no filter
		c.service, filter = lab.Listening, ""
	}
	c.options = []result.Pair{
		{Key: "rules", Value: rules}, {Key: "runmode", Value: p.runmode.Value}, {Key: "capture", Value: p.capture.Value},
		{Key: "threads", Value: p.threads.String()}, {Key: "ring", Value: p.ring.String()}, {Key: "filter", Value: filter},
	}
	return c
}

// lasts is how long a trial's traffic is; at the idle load it is longer, for there are
// few attacks in it.
func (p *IDS) lasts() time.Duration {
	switch {
	case p.length > 0:
		return p.length
	case p.preset.Value == "standard":
		return 60 * time.Second
	}
	return 2 * time.Second
}

const idleLonger = 5 // times

// idsAround is what a trial takes beside its traffic: start, words once a second, and the
// end.
const idsAround = 6 * time.Second

func (p *IDS) Estimate() (int, time.Duration) {
	d := p.lasts()
	trials, length := 3, idleLonger*d+2*d
	if p.rate.Searched() {
		const before, fill, longer = 3, 1, 3
		trials = 1 + before + p.searching().Trials + fill + longer
		length = idleLonger*d + time.Duration(before+p.searching().Trials+2*(fill+longer))*d
	}
	return trials, length + time.Duration(trials)*idsAround
}

func (p *IDS) Run(ctx context.Context, env *procedure.Env) (_ procedure.Outcome, err error) {
	m := &idsPoint{IDS: p, out: procedure.Outcome{Status: result.Passed}}
	m.listen = &capturePoint{Capture: p.listener(""), env: env, effort: captureEffortOf(p.preset.Value), out: procedure.Outcome{Status: result.Passed}, emptied: -1}
	m.listen.more = m.told
	m.pause = m.rest
	defer func() { err = errors.Join(err, m.close()) }()
	err = m.measure(ctx)
	var left *leftError
	var long *longPassError
	switch {
	case errors.As(err, &left):
		return left.found, nil
	case errors.As(err, &long):
		m.listen.failed, err = "traffic: "+long.Error(), nil
	case errors.Is(err, errSubject):
		err = nil
	}
	return m.outcome(), err
}

// Visits implements Paused.
func (p *IDS) Visits() int {
	if !p.rate.Searched() {
		return 1
	}
	return 2 + p.searching().Trials
}

// measure checks the software, measures the tester's ceiling and what is detected when
// idle, and then at the load given or at the highest.
func (m *idsPoint) measure(ctx context.Context) error {
	if err := m.install(); err != nil {
		return err
	}
	env := m.listen.env
	s, err := m.listen.software()
	if err != nil {
		return err
	}
	var missing *host.Missing
	if err := env.Bed.Machine().Check(ctx, s); errors.As(err, &missing) || errors.Is(err, subject.ErrLost) || err != nil && ctx.Err() != nil {
		return err
	} else if err != nil {
		m.out.Status, m.out.Reason = result.Failed, m.listen.said(err)
		return nil
	}
	if few := trial.FewSenders(env.Bed, m.IDS.senders.Value); few != "" {
		m.listen.warn("%s", few)
	}
	self, err := trial.TesterCeiling(ctx, env, typical, false, false, m.IDS.senders.Value, trial.EffortOf(m.preset.Value))
	if err != nil {
		return err
	}
	if self.Status == result.Invalid {
		m.out.Status, m.out.Reason = result.Invalid, "the self-test is invalid: "+self.Reason
		return nil
	}
	m.ceiling = self.Ceiling()
	if err := m.open(ctx); err != nil {
		return err
	}
	if err := m.idleTrial(ctx); err != nil || m.listen.failed != "" {
		return err
	}
	if m.IDS.rate.Searched() {
		return m.hunt(ctx)
	}
	return m.at(ctx)
}

// install writes the rules to where the IDS reads them. It is undone by close, as open is.
func (m *idsPoint) install() (err error) {
	if m.dir, err = host.MakeScratch(); err != nil {
		return err
	}
	rules := filepath.Join(m.dir, "boxdyno.rules")
	if m.rules, err = m.writeRules(rules); err != nil {
		return err
	}
	if m.rules.Rules == 0 && m.IDS.traffic != appMix { // an empty file is no file of rules
		rules = ""
	}
	m.listen.options = m.listener(rules).options
	return nil
}

// open opens the ports.
func (m *idsPoint) open(ctx context.Context) error {
	err := m.listen.open(ctx)
	m.listen.stream.Frames.SrcMAC = idsClient
	return err
}

func (m *idsPoint) close() error {
	dir := m.dir
	m.dir = ""
	return errors.Join(m.listen.close(), os.RemoveAll(dir))
}

// rest lets the run's other points have their turn.
func (m *idsPoint) rest(ctx context.Context, found procedure.Outcome) error {
	return pauseClosed(ctx, m.listen.env, found, m.close, func(ctx context.Context) error {
		if err := m.install(); err != nil {
			return err
		}
		return m.open(ctx)
	})
}

// writeRules writes the rules that the IDS loads: those of the planted attacks, and what
// was asked for beside.
func (p *IDS) writeRules(path string) (set ids.RuleSet, err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return set, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if p.traffic == appMix {
		if err := frame.WriteRules(f); err != nil {
			return set, err
		}
	}
	n, seed := p.rules.Value, uint64(p.seed.Value)
	switch {
	case p.named():
		return ids.SampleRules(f, p.file, max(n, p.sample.Value), seed)
	case p.file == rulesAuto && n > 0:
		set, err := ids.SampleRules(f, p.machine, n, seed)
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, ids.ErrTooFewRules) {
			return set, err
		}
	}
	return ids.GenerateRules(f, n, seed)
}

// named reports whether rules_file is a file or folder.
func (p *IDS) named() bool { return p.file != rulesAuto && p.file != rulesGenerated }

// A ratio is a share as a parameter.
type ratio struct{ value, least, most float64 }

func (r *ratio) String() string { return strconv.FormatFloat(r.value, 'g', -1, 64) }

func (r *ratio) Set(s string) error {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || !(v >= r.least && v <= r.most) {
		return fmt.Errorf("%q is not a number from %v to %v", s, r.least, r.most)
	}
	r.value = v
	return nil
}

const attacksTable = "IDS: attacks planted and detected, at the load and idle"

var idsMetrics = append([]result.Metric{
	{Name: "ids_rate_bps", Label: "found bit/s", Group: "IDS: highest load of which hardly a frame is lost; lowest at which attacks go missing", Interval: "interval", Heads: true, Unit: "bit/s", Better: 1, Help: "rate search: highest load that lost at most the share loss, confirmed by a longer trial, layer 2 with FCS; interval up to the load from which every trial lost more"},
	{Name: "ids_rate_fps", Label: "frame/s", Unit: "frame/s", Better: 1, Help: "the same in frames"},
	{Name: "counting_overload_fps", Unit: "frame/s", Better: 1, Help: "rate search: frames that it counted a second at the highest load, where that was too much"},
	metrics.List(captureTrialMetrics).As("capture_offered_bps", "at bit/s", attacksTable),
	{Name: "attacks_planted", Label: "planted", Group: attacksTable, Unit: "1", Help: "attacks in the traffic, each of which a rule matches once; of a capture: alerts that it raised when idle, for as many passes"},
	{Name: "attacks_detected", Label: "detected", Heads: true, Unit: "1", Better: 1, Help: "of them, those that it raised an alert for; never more than were planted, rule by rule"},
	{Name: "detected_ratio", Label: "share", Share: true, Unit: "1", Better: 1, Help: "attacks_detected of attacks_planted"},
	{Name: "idle_detected_ratio", Label: "idle", Share: true, Unit: "1", Better: 1, Help: "the same at the idle load"},
	{Name: "blind_bps", Label: "blind from", Group: "IDS: highest load of which hardly a frame is lost; lowest at which attacks go missing", Unit: "bit/s", Better: 1, Help: "lowest load at which attacks went missing that it detected when idle, in a trial that counts"},
	{Name: "rules_loaded", Label: "rules loaded", Group: "Rules of an IDS", Unit: "1", Help: "rules that it loaded, those of the planted attacks among them"},
	{Name: "rules_failed", Label: "refused", Unit: "1", Better: -1, Help: "rules that it could not load, and runs without"},
	{Name: "memory_drops", Unit: "1", Better: -1, Help: "flows, segments and fragments that it ignored at its own memory limits; no lost frames, but attacks in them are missed"},
	{Name: "stream_gaps", Unit: "1", Better: -1, Help: "holes in TCP streams that it could not reassemble"},
}, slices.DeleteFunc(slices.Clone(captureTrialMetrics), func(m result.Metric) bool { return m.Name == "capture_offered_bps" })...)
