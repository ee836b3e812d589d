// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"boxdyno/engine"
	"boxdyno/engine/crew"
	"boxdyno/frame"
	"boxdyno/procedure"
	"boxdyno/procedure/internal/trial"
	"boxdyno/result"
	"boxdyno/unit"
)

// A point is one capture at one rate, or whose highest rate is searched.
type point struct {
	*Replay
	env     *procedure.Env
	effort  trial.Effort
	facts   *facts
	rig     *trial.Rig
	sources []frame.Source // of the senders; nil: each trial opens its own
	ceiling unit.FrameRate
	out     procedure.Outcome
}

// resident is the longest pass that every backend keeps whole, so that a source which was
// sent stands at a pass's beginning again.
const resident = 64 << 20

// stream is the number of the capture's; no frame bears it.
const stream = 1

// selfTest finds what the tester carries of this very capture from port to port, flat out.
func (m *point) selfTest(ctx context.Context) (invalid string, err error) {
	loop, alone := trial.SelfTestPorts(m.env.Bed)
	cfg := []result.Pair{{Key: "file", Value: m.name()}, {Key: "streams", Value: "1"}}
	if alone {
		cfg = append(cfg, result.Pair{Key: "path", Value: result.SenderAlone})
	}
	key := fmt.Sprintf("self-test/replay/%s/%d/%v", m.file, m.Replay.limit.Value, m.effort.SelfTest)
	n := m.together()
	box := alone && m.toBox()
	for _, more := range []struct {
		is         bool
		key, value string
	}{{n > 1, "senders", strconv.Itoa(n)}, {box, "target", toBox}, {m.vlan.Value > 0, "vlan", m.vlan.String()}} {
		if more.is {
			cfg = append(cfg, result.Pair{Key: more.key, Value: more.value})
			key += "/" + more.key + more.value
		}
	}
	rec, err := m.env.Once(ctx, key, cfg, func(ctx context.Context) (o procedure.Outcome, err error) {
		from, to, same := 0, 1, frame.SameBridged
		if alone { // a box is between
			same = m.sameness(m.env.Bed)
		}
		if box {
			to = 0
		}
		sources, err := m.divided(ctx, loop[from], loop[to], same, n)
		if err != nil {
			return o, err
		}
		defer closeAll(sources)
		roll, err := m.called(ctx, sources, same)
		if err != nil {
			return o, err
		}
		r, err := trial.NewRig(ctx, m.env, trial.RigSpec{Ports: loop, Loop: !alone, Ways: []trial.Way{{From: from, To: to}}, Settle: m.effort.Settle, Roll: roll, Box: box, Senders: n})
		if err != nil {
			return o, err
		}
		defer func() { err = errors.Join(err, r.Close()) }()
		r.Streams = []engine.Stream{streamOf(from, sources, nil)}
		o, _, _, err = r.Offer(ctx, engine.Load{Duration: m.effort.SelfTest}, false)
		return o, err
	})
	if err != nil {
		return "", err
	}
	if rec.Status == result.Invalid {
		return "the self-test is invalid: " + rec.Reason, nil
	}
	m.ceiling = rec.Ceiling()
	if n > 1 { // who has the most of the capture is at its own ceiling first
		m.ceiling *= unit.FrameRate(crew.PartEvenness(m.facts.parts))
	}
	return "", nil
}

// together is how many CPUs send.
func (m *point) together() int { return len(m.env.Bed.SenderCPUs(max(m.senders.Value, 1))) }

// called is the roll of sources.
func (m *point) called(ctx context.Context, sources []frame.Source, same frame.Sameness) (*frame.Roll, error) {
	roll, err := frame.NewRoll(ctx, same, sources...)
	if err != nil {
		return nil, fmt.Errorf("replay %s: %w", m.name(), err)
	}
	return roll, nil
}

// ready opens the rig, and the sources for the next trial.
func (m *point) ready(ctx context.Context) error {
	from, to := m.ends()
	ports, same := m.env.Bed.Ports, m.sameness(m.env.Bed)
	var err error
	if m.sources == nil {
		if m.sources, err = m.divided(ctx, ports[from], ports[to], same, m.together()); err != nil {
			m.sources = nil // they are closed
			return err
		}
	}
	if m.rig != nil {
		return nil
	}
	roll, err := m.called(ctx, m.sources, same)
	if err != nil {
		return err
	}
	m.rig, err = trial.NewRig(ctx, m.env, trial.RigSpec{Ports: ports, Ways: []trial.Way{{From: from, To: to}}, Settle: m.effort.Settle, Roll: roll, Box: m.toBox(), Senders: m.together()})
	return err
}

func (m *point) close() (err error) {
	if m.rig != nil {
		err = m.rig.Close()
	}
	return errors.Join(err, m.forget())
}

// forget closes the sources.
func (m *point) forget() error {
	err := closeAll(m.sources)
	m.sources = nil
	return err
}

// trial sends the capture once, as l says.
func (m *point) trial(ctx context.Context, kind string, n int, l engine.Load, intended unit.FrameRate, rest time.Duration) (result.Record, error) {
	cfg := []result.Pair{{Key: "trial", Value: kind}, {Key: "n", Value: strconv.Itoa(n)}}
	switch {
	case intended > 0:
		cfg = append(cfg, result.Pair{Key: "rate", Value: strconv.FormatFloat(float64(intended), 'f', 0, 64)})
	default:
		cfg = append(cfg, result.Pair{Key: "rate", Value: flatOut})
	}
	if l.Passes > 0 {
		cfg = append(cfg, result.Pair{Key: "passes", Value: strconv.FormatUint(l.Passes, 10)})
	} else {
		cfg = append(cfg, result.Pair{Key: "duration", Value: l.Duration.String()})
	}
	if rest > 0 {
		cfg = append(cfg, result.Pair{Key: "rest", Value: rest.String()})
	}
	return m.env.Trial(ctx, cfg, func(ctx context.Context) (o procedure.Outcome, err error) {
		if err := m.ready(ctx); err != nil {
			return o, err
		}
		if m.facts.octets > resident {
			defer func() { err = errors.Join(err, m.forget()) }()
		}
		if err := trial.Resting(ctx, m.env.Bed, rest); err != nil {
			return o, err
		}
		from, _ := m.ends()
		m.rig.Streams = []engine.Stream{streamOf(from, m.sources, m.facts.parts)}
		o, sent, _, err := m.rig.Offer(ctx, l, false)
		if err != nil {
			return o, err
		}
		o.Load.Intended, o.Ceiling = intended, m.ceiling
		m.judge(&o, sent[0])
		return o, nil
	})
}

// judge adds what became of the frames; where the tester cannot say it, the trial is
// invalid.
func (m *point) judge(o *procedure.Outcome, sent engine.TxReport) {
	c := m.rig.Called
	switch {
	case sent.Accepted == 0:
		o.Status, o.Reason = result.Invalid, "the tester sent no frame"
		return
	case sent.Refused > 0:
		o.Status, o.Reason = result.Invalid, fmt.Sprintf("the tester's own port refused %d frames, and nobody knows which of the capture's they were", sent.Refused)
		return
	case c.Unsure > 0:
		o.Status, o.Reason = result.Invalid, fmt.Sprintf("%d frames that are not as they were sent came beyond the %d that the meter had room to tell apart, so that altered and lost ones are not known: compare=nat if the box translates addresses", c.Unsure, frame.MostStrange)
		return
	}
	count := func(metric string, n uint64) { o.Values = append(o.Values, figures.Value(metric, float64(n))) }
	count("replay_sent_frames", c.Sent)
	count("replay_received_frames", c.Received)
	count("replay_missing_frames", c.Missing)
	count("replay_altered_frames", c.Altered)
	count("replay_duplicated_frames", c.Duplicated)
	count("replay_foreign_frames", c.Foreign)
	l := o.Load
	o.Values = append(o.Values,
		figures.Value("replay_loss_ratio", float64(c.Missing)/float64(c.Sent)),
		figures.Value("replay_offered_fps", float64(l.Offered)),
	)
	if l.Forwarded > 0 || c.Received+c.Altered == 0 { // else the clocks of tester and box do not tell
		o.Values = append(o.Values,
			figures.Value("replay_forwarded_fps", float64(l.Forwarded)),
			figures.Value("replay_forwarded_bps", float64(unit.L2(l.Forwarded, l.MeanSize))),
		)
	}
	if c.Altered > 0 && c.Missing == 0 && c.Altered == c.Sent {
		o.Warnings = append(o.Warnings, "every frame was altered: where the box translates addresses, give compare=nat")
	}
}
