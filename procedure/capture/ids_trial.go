// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"boxdyno/engine/crew"
	"boxdyno/frame"
	"boxdyno/procedure"
	"boxdyno/procedure/internal/trial"
	"boxdyno/result"
	"boxdyno/subject"
	"boxdyno/subject/ids"
	"boxdyno/unit"
)

// An idsPoint is one IDS with its rules and traffic, at one load, or whose limit is
// searched.
type idsPoint struct {
	*IDS
	rules   ids.RuleSet
	listen  *capturePoint
	ceiling unit.FrameRate // of the tester, whose senders have as much each
	traffic *idsTraffic    // of the trial at hand
	ahead   *idsTraffic    // of the trial to come, whose length is known; nil: it is not made yet
	idles   bool           // the trial at hand is at the idle load
	blind   float64        // lowest load in bit/s at which attacks were missed; 0: none
	idle    result.Record
	found   *idsHunt // nil: the search has not begun
	passes  uint64   // over a capture that it had; 0: there was none, or its trial is invalid
	out     procedure.Outcome
	dir     string                                                   // of its rules
	pause   func(ctx context.Context, found procedure.Outcome) error // rest
}

// prepare makes the traffic of the trial to come; the function that it returns ends it.
func (m *idsPoint) prepare(ctx context.Context, rate unit.BitRate, d time.Duration) (end func() error, err error) {
	l := m.listen
	t, err := m.trafficFor(ctx, rate, d)
	if err != nil {
		return nil, err
	}
	t.stream(&l.stream)
	m.traffic, l.mean = t, t.mean()
	l.ceiling = m.ceiling * unit.FrameRate(crew.PartEvenness(t.parts)) // who has the most frames is at its own ceiling first
	l.intended = unit.FrameRate(float64(t.frames) / t.lasts().Seconds())
	l.words = []result.Pair{{Key: "rate", Value: fmt.Sprintf("%.0f", float64(rate))}, {Key: "frames", Value: fmt.Sprint(t.frames)}, {Key: "rules", Value: m.rules.Label}}
	return t.close, nil
}

// trafficFor is the traffic of a trial of that load for about d, which may have been made ahead.
func (m *idsPoint) trafficFor(ctx context.Context, rate unit.BitRate, d time.Duration) (*idsTraffic, error) {
	of := idsLoad{rate, d, 1, len(m.listen.cpus())}
	if m.idles {
		of.passes = idlePasses
	}
	if t := m.ahead; t != nil && t.of == of {
		m.ahead = nil
		return t, nil
	}
	if err := m.forget(); err != nil {
		return nil, err
	}
	t, err := m.make(ctx, of)
	if err != nil {
		return nil, fmt.Errorf("make the traffic: %w", err)
	}
	return t, nil
}

// forget closes traffic that was made ahead, and is not sent.
func (m *idsPoint) forget() (err error) {
	if m.ahead != nil {
		err = m.ahead.close()
	}
	m.ahead = nil
	return err
}

// length is how long the trial to come is, of that load for about d: conversations are whole.
// It makes the traffic ahead, which forget closes where no trial follows.
func (m *idsPoint) length(ctx context.Context, rate unit.BitRate, d time.Duration) (time.Duration, error) {
	t, err := m.trafficFor(ctx, rate, d)
	if err != nil {
		return 0, err
	}
	m.ahead = t
	return t.lasts(), nil
}

// trial offers a load in bit/s for about d. errSubject: the IDS failed.
func (m *idsPoint) trial(ctx context.Context, kind string, n int, rate unit.BitRate, d time.Duration) (rec result.Record, err error) {
	end, err := m.prepare(ctx, rate, d)
	if err != nil {
		return rec, err
	}
	defer func() { err = errors.Join(err, end()) }()
	if rec, err = m.listen.trial(ctx, kind, n, m.traffic.load); err != nil {
		return rec, err
	}
	if m.listen.failed != "" {
		return rec, errSubject
	}
	m.missed(rec)
	return rec, nil
}

// missed notes the load of a trial in which attacks were missed.
func (m *idsPoint) missed(rec result.Record) {
	if v := rec.Value("detected_ratio"); v != nil && v.Value < 1 && rec.Status != result.Invalid {
		if bps := offeredBits(rec); m.blind == 0 || bps < m.blind {
			m.blind = bps
		}
	}
}

func offeredBits(rec result.Record) float64 {
	if v := rec.Value("capture_offered_bps"); v != nil {
		return v.Value
	}
	return 0
}

// empty measures what the load costs the box without the IDS.
func (m *idsPoint) empty(ctx context.Context, rate unit.BitRate, d time.Duration) (err error) {
	end, err := m.prepare(ctx, rate, d)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	return m.listen.emptyAs(ctx, append(m.mixture(), m.listen.words[:2]...), m.traffic.load)
}

// mixture is the traffic's part of a trial's identity.
func (m *idsPoint) mixture() []result.Pair {
	p := m.IDS
	return []result.Pair{{Key: "traffic", Value: p.traffic}, {Key: "attacks", Value: p.attacks.String()}, {Key: "flood", Value: p.flood.Value}, {Key: "flood_share", Value: p.share.String()}, {Key: "seed", Value: p.seed.String()}}
}

// idleTrial finds once a run whether the IDS detects all there is when it has time.
func (m *idsPoint) idleTrial(ctx context.Context) (err error) {
	p := m.IDS
	d := idleLonger * p.lasts()
	m.idles = true
	defer func() { m.idles = false }()
	end, err := m.prepare(ctx, p.idle.Bits, d)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	cfg := slices.Concat([]result.Pair{{Key: "subject", Value: p.subject.Value}}, m.mixture(),
		[]result.Pair{{Key: "loss", Value: p.loss.String()}, {Key: "runmode", Value: p.runmode.Value}, {Key: "capture", Value: p.capture.Value}, {Key: "threads", Value: p.threads.String()}, {Key: "ring", Value: p.ring.String()}}, m.listen.words)
	if n := len(m.listen.cpus()); n > 1 {
		cfg = append(cfg, result.Pair{Key: "senders", Value: strconv.Itoa(n)})
	}
	key := "ids-idle"
	for _, c := range cfg {
		key += "/" + c.Value
	}
	m.idle, err = m.listen.env.Once(ctx, key, cfg, func(ctx context.Context) (procedure.Outcome, error) {
		o, err := m.listen.carryOut(ctx, m.traffic.load)
		o.Ceiling = m.listen.ceiling
		return o, err
	})
	if err != nil {
		return err
	}
	if m.idle.Load == nil && m.idle.Status == result.Failed {
		m.listen.failed = m.idle.Reason
		m.out.Status, m.out.Reason = m.idle.Status, m.idle.Reason
		return nil
	}
	if m.idle.Status == result.Invalid {
		m.listen.warn("what it detects when idle is not known, for the trial at the idle load is invalid: %s", m.idle.Reason)
		return nil
	}
	if m.traffic.planted == nil {
		m.passes = m.traffic.passes
		var rules []string
		for _, a := range m.idle.Alerts {
			if m.irregular(a) {
				rules = append(rules, strconv.Itoa(a.Rule))
			}
		}
		if len(rules) > 0 {
			m.listen.warn("%d rules raised alerts in at most half of the passes when idle and are not expected at other loads: they limit their alerts or match addresses of one pass: %s", len(rules), strings.Join(rules, ", "))
		}
	}
	return nil
}

// irregular says of what a rule raised when idle that it was in at most half of the
// passes over the capture.
func (m *idsPoint) irregular(a result.Alert) bool { return 2*uint64(a.Raised) <= m.passes }

// idlePasses are the fewest passes over a capture when idle, which tell what a rule finds
// in each from what it finds once.
const idlePasses = 2

// keepsUpBlind ends the reason of a trial that failed for its attacks alone.
const keepsUpBlind = "it keeps up and does not see"

// told adds what the IDS detected in the trial at hand, and judges it: a share of the
// frames may be lost, and an IDS that keeps up and does not see is none.
func (m *idsPoint) told(ctx context.Context, o *procedure.Outcome, run subject.Running) error {
	add := func(name string, v float64) { figures.Add(&o.Values, name, v) }
	a := o.Account
	lost := a.Accepted - a.Received
	o.Warnings = append(o.Warnings, m.traffic.notes...)
	if o.Status == result.Failed && lost > 0 && float64(lost) <= m.loss.value*float64(a.Accepted) {
		o.Warnings = append(o.Warnings, o.Reason)
		o.Status, o.Reason = result.Passed, ""
	}
	if t, ok := run.(interface{ IDS() ids.Totals }); ok {
		m.tell(o, t.IDS())
	}
	alerter, ok := run.(ids.Alerter)
	if !ok {
		return fmt.Errorf("subject %s: it counts no alerts", m.subject.Value)
	}
	alerts, err := alerter.Alerts(ctx)
	if err != nil {
		return fault("its alerts are not known: %w", err)
	}
	if a.NotSent > 0 || a.Refused > 0 {
		o.Warnings = append(o.Warnings, "not all of the traffic was sent, so how many attacks were in it is not known")
		return nil
	}
	m.tally(o, alerts)
	var planted, detected, raised int64
	for _, a := range o.Alerts {
		planted += a.Planted
		detected += min(a.Planted, a.Raised) // two alerts for one attack do not stand for another
		raised += a.Raised
	}
	if m.traffic.planted == nil && m.idles { // whatever it found is an attack
		add("attacks_detected", float64(raised))
		return nil
	}
	if planted == 0 {
		return nil
	}
	add("attacks_planted", float64(planted))
	add("attacks_detected", float64(detected))
	add("detected_ratio", float64(detected)/float64(planted))
	if missed := planted - detected; o.Status == result.Passed && missed > max(0, lost) {
		o.Status = result.Failed
		o.Reason = fmt.Sprintf("%s missed %d of %d attacks, and lost %d of %d frames: %s", m.subject.Value, missed, planted, max(0, lost), a.Accepted, keepsUpBlind)
	}
	return nil
}

// expected are the attacks in the traffic at hand by the sid of their rule: of a capture,
// those that were detected when idle, for as many passes, without irregular ones.
func (m *idsPoint) expected() map[int]int64 {
	if m.traffic.planted != nil {
		return m.traffic.planted
	}
	planted := map[int]int64{}
	for _, a := range m.idle.Alerts {
		if m.passes > 0 && !m.irregular(a) {
			planted[a.Rule] = int64(math.Round(float64(a.Raised) * float64(m.traffic.passes) / float64(m.passes)))
		}
	}
	return planted
}

// tally lays what was raised beside what was expected, rule by rule.
func (m *idsPoint) tally(o *procedure.Outcome, alerts map[int]int64) {
	expected := m.expected()
	rules := slices.Concat(slices.Collect(maps.Keys(expected)), slices.Collect(maps.Keys(alerts)))
	slices.Sort(rules)
	for _, rule := range slices.Compact(rules) {
		o.Alerts = append(o.Alerts, result.Alert{Rule: rule, Planted: expected[rule], Raised: alerts[rule]})
	}
	if m.traffic.planted == nil {
		return
	}
	names := map[int]string{}
	for _, a := range frame.Alerts() {
		names[a.SID] = a.Name
	}
	var twice []string
	var others int64
	for _, a := range o.Alerts {
		name, ours := names[a.Rule]
		switch {
		case !ours:
			others += a.Raised
		case a.Raised > a.Planted:
			twice = append(twice, fmt.Sprintf("%d alerts of %q for %d attacks", a.Raised, name, a.Planted))
		}
	}
	if len(twice) > 0 {
		o.Warnings = append(o.Warnings, "more alerts than attacks: "+strings.Join(twice, ", "))
	}
	if others > 0 {
		o.Warnings = append(o.Warnings, fmt.Sprintf("%d alerts of rules that are not of the planted attacks", others))
	}
}

// tell adds the IDS's own figures.
func (m *idsPoint) tell(o *procedure.Outcome, t ids.Totals) {
	if t.RulesLoaded >= 0 {
		o.Values = append(o.Values, figures.Value("rules_loaded", float64(t.RulesLoaded)), figures.Value("rules_failed", float64(max(0, t.RulesFailed))))
	}
	if t.RulesFailed > 0 {
		which := ""
		if t.RulesRefused != "" {
			which = " (sids " + t.RulesRefused + ")"
		}
		o.Warnings = append(o.Warnings, fmt.Sprintf("%s could not load %d rules%s; the first: %s", m.subject.Value, t.RulesFailed, which, t.RulesError))
	}
	memory := t.FlowMemcap + t.SessionMemcap + t.SegmentMemcap + t.DefragTrackers
	o.Values = append(o.Values, figures.Value("memory_drops", float64(memory)), figures.Value("stream_gaps", float64(t.ReassemblyGaps)))
	if memory > 0 {
		o.Warnings = append(o.Warnings, fmt.Sprintf("%s reached its own memory limits %d times: what it did not follow it does not see", m.subject.Value, memory))
	}
	if t.AlertQueueOverflow > 0 {
		o.Warnings = append(o.Warnings, fmt.Sprintf("%d alerts were left out, for a frame matched more rules than %s keeps for one", t.AlertQueueOverflow, m.subject.Value))
	}
}

// at measures the load that was given.
func (m *idsPoint) at(ctx context.Context) error {
	if err := m.empty(ctx, m.rate.Bits, m.lasts()); err != nil {
		return err
	}
	err := m.listen.offerAt("rate", func(n int) (result.Record, error) { return m.trial(ctx, "rate", n, m.rate.Bits, m.lasts()) })
	m.onceIdle()
	return err
}

// take makes a trial's figures and verdict those of the point.
func (m *idsPoint) take(rec result.Record) {
	m.listen.take(rec)
	m.onceIdle()
}

// onceIdle leaves out what trials at a load have of the idle one: the outcome has it.
func (m *idsPoint) onceIdle() {
	m.listen.out.Values = slices.DeleteFunc(m.listen.out.Values, func(v result.Value) bool { return v.Metric == "idle_detected_ratio" })
}

// outcome is the point's, with what was found when idle.
func (m *idsPoint) outcome() procedure.Outcome {
	o := m.listen.out
	o.Values = slices.Concat(m.out.Values, o.Values)
	if m.out.Status != result.Passed && m.out.Status != "" {
		o.Status, o.Reason = m.out.Status, m.out.Reason
	}
	if m.listen.failed != "" {
		o.Status, o.Reason = result.Failed, m.listen.failed
	}
	if v := m.idle.Value("detected_ratio"); v != nil && m.idle.Status != result.Invalid {
		o.Values = append(o.Values, figures.Value("idle_detected_ratio", v.Value))
	}
	if m.blind > 0 {
		o.Values = append(o.Values, figures.Value("blind_bps", m.blind))
	}
	if m.idle.Status == result.Failed && o.Status == result.Passed {
		o.Status, o.Reason = result.Failed, "at the idle load: "+m.idle.Reason
	}
	return o
}

var idsJoules = trial.OfSubject("inspected megabit", func(trial result.Record) float64 {
	return float64(unit.L2(trial.Load.Forwarded, trial.Load.MeanSize)) / 1e6
})
