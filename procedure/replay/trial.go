// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"boxdyno/engine"
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
	source  frame.Source // nil: each trial opens its own
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
	rec, err := m.env.Once(ctx, key, cfg, func(ctx context.Context) (o procedure.Outcome, err error) {
		from, to := 0, 1
		open := func() (frame.Source, error) { return m.open(ctx, loop[from], loop[to], frame.SameBridged) }
		source, roll, err := called(ctx, open, frame.SameBridged)
		if err != nil {
			return o, err
		}
		defer source.Close()
		r, err := trial.NewRig(ctx, m.env, trial.RigSpec{Ports: loop, Loop: !alone, Ways: []trial.Way{{From: from, To: to}}, Settle: m.effort.Settle, Roll: roll})
		if err != nil {
			return o, err
		}
		defer func() { err = errors.Join(err, r.Close()) }()
		r.Streams = []engine.Stream{{ID: stream, Source: source}}
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
	return "", nil
}

// called opens a source with its roll.
func called(ctx context.Context, open func() (frame.Source, error), same frame.Sameness) (frame.Source, *frame.Roll, error) {
	source, err := open()
	if err != nil {
		return nil, nil, err
	}
	roll, err := frame.NewRoll(ctx, source, same)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("replay: %w", err), source.Close())
	}
	return source, roll, nil
}

// ready opens the rig, and the source for the next trial.
func (m *point) ready(ctx context.Context) error {
	from, to := m.ends()
	ports, same := m.env.Bed.Ports, m.sameness(m.env.Bed)
	open := func() (frame.Source, error) { return m.open(ctx, ports[from], ports[to], same) }
	if m.rig != nil && m.source != nil {
		return nil
	}
	var err error
	if m.rig != nil {
		m.source, err = open()
		return err
	}
	var roll *frame.Roll
	if m.source, roll, err = called(ctx, open, same); err != nil {
		return err
	}
	m.rig, err = trial.NewRig(ctx, m.env, trial.RigSpec{Ports: ports, Ways: []trial.Way{{From: from, To: to}}, Settle: m.effort.Settle, Roll: roll})
	return err
}

func (m *point) close() (err error) {
	if m.rig != nil {
		err = m.rig.Close()
	}
	return errors.Join(err, m.forget())
}

// forget closes the source.
func (m *point) forget() error {
	if m.source == nil {
		return nil
	}
	err := m.source.Close()
	m.source = nil
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
		m.rig.Streams = []engine.Stream{{ID: stream, Lane: from, Source: m.source}}
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
		figures.Value("replay_forwarded_fps", float64(l.Forwarded)),
		figures.Value("replay_forwarded_bps", float64(unit.L2(l.Forwarded, l.MeanSize))),
	)
	if c.Altered > 0 && c.Missing == 0 && c.Altered == c.Sent {
		o.Warnings = append(o.Warnings, "every frame was altered: where the box translates addresses, give compare=nat")
	}
}
