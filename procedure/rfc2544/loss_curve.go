// SPDX-License-Identifier: Apache-2.0

package rfc2544

import (
	"context"
	"time"

	"boxdyno/engine"
	"boxdyno/lab"
	"boxdyno/procedure"
	"boxdyno/procedure/internal/trial"
	"boxdyno/result"
	"boxdyno/unit"
)

// LossCurveSpec is the row of loss-curve.
var LossCurveSpec = procedure.Spec{
	Name: "loss-curve", Needs: lab.Ports, Standard: "RFC 2544 section 26.3",
	Quick: "each load of the loss curve is offered for 50 ms (RFC 2544 section 24 asks for 60 s)",
	Doc:   "share of frames lost against the load, from the highest downwards to two clean trials",
	Names: suiteNames, Metrics: lossCurveMetrics, New: newLossCurve,
}

// LossCurve is RFC 2544 section 26.3: the share of frames lost at the highest
// load that the tester or the link has, and at ever lower ones, until two trials
// in a row lose nothing.
type LossCurve struct{ trial.Suite }

func newLossCurve() procedure.Procedure { return &LossCurve{trial.NewSuite()} }

const (
	// lossStep is a load as a share of the one before: steps of 10 % of the highest
	// load at first, as RFC 2544 allows at most, and ever finer ones.
	lossStep = 0.9
	// lossFloor is the share of what the box forwards under overload below which no
	// load is tried: it loses frames whatever is offered.
	lossFloor = 1.0 / 50
)

func (p *LossCurve) Estimate() (int, time.Duration) {
	const trials = 22 // from five times the throughput
	return p.InAll(trials, trials*suiteEffortOf(p.Preset.Value).loss)
}

func (p *LossCurve) Run(ctx context.Context, env *procedure.Env) (procedure.Outcome, error) {
	e := suiteEffortOf(p.Preset.Value)
	return p.OnThroughput(ctx, env, func(m *trial.Point, _ unit.FrameRate) error {
		if !m.Can(1) {
			return nil
		}
		top, paced := m.Highest()
		least := min(top, unit.FrameRate(figures.Spread("forwarding_rate_fps", m.Rates()).Value)/m.Streams()) * lossFloor
		rate := top
		if !paced {
			rate = 0 // flat out
		}
		var c lossCurve
		for n := 0; c.clean < 2 && (n == 0 || rate > least); n++ {
			rec, err := m.Own(ctx, "loss-curve", n, engine.Load{Rate: rate, Duration: e.loss}, false)
			if err != nil {
				return err
			}
			if rate == 0 {
				rate = top
				if rec.Status != result.Invalid {
					rate = rec.Load.Offered / m.Streams()
				}
			}
			c.add(rec)
			if rec.Status == result.Invalid && rec.Load != nil { // what the tester could not offer, it need not be asked for again
				rate = min(rate, rec.Load.Offered/m.Streams())
			}
			rate *= lossStep
		}
		c.outcome(m)
		return nil
	})
}

// A lossCurve is what its trials say, in order of falling load.
type lossCurve struct {
	trials, invalid int
	clean           int // in a row, up to now
	highest, ratio  float64
	free, lossy     float64 // of the trials in a row the highest load; the lowest that lost
}

func (c *lossCurve) add(rec result.Record) {
	c.trials++
	if rec.Status == result.Invalid || rec.Load == nil || rec.Account == nil {
		c.invalid++
		return
	}
	offered := float64(rec.Load.Offered)
	lost := float64(rec.Account.Lost()+rec.Load.Broken) / float64(rec.Account.Accepted)
	if c.highest == 0 {
		c.highest, c.ratio = offered, lost
	}
	if lost > 0 {
		c.lossy, c.clean = offered, 0
		return
	}
	if c.clean++; c.clean == 1 {
		c.free = offered
	}
}

func (c *lossCurve) outcome(m *trial.Point) {
	switch {
	case c.highest == 0:
		m.Out.Status, m.Out.Reason = result.Invalid, "every trial of the loss curve is invalid, for the tester was held up"
		return
	case c.clean < 2:
		m.Out.Status, m.Out.Reason = result.Failed, "frames were lost down to the lowest load tried"
	}
	highest, ratio := figures.Value("loss_highest_fps", c.highest), figures.Value("loss_ratio", c.ratio)
	highest.N = c.trials - c.invalid
	m.Add(highest, ratio)
	if c.clean == 2 {
		free := figures.Value("loss_free_fps", c.free)
		if c.lossy == 0 {
			free.Bound = result.AtLeast
		}
		m.Add(free)
	}
	if c.lossy > 0 {
		m.Add(figures.Value("loss_onset_fps", c.lossy))
	}
	if c.invalid > 0 {
		m.Warn("%d of %d trials of the loss curve were invalid and are not in it", c.invalid, c.trials)
	}
}

var lossCurveMetrics = []result.Metric{
	{Name: "loss_highest_fps", Label: "from frame/s", Group: "Loss curve: downwards from the highest load to two clean trials", Heads: true, Unit: "frame/s", Help: "the highest load of the curve, as offered, all streams together: line rate, or what the tester can offer"},
	{Name: "loss_ratio", Label: "lost there", Heads: true, Share: true, Unit: "1", Better: -1, Help: "share of the frames offered that were lost at that load"},
	{Name: "loss_free_fps", Label: "clean from", Heads: true, Unit: "frame/s", Better: 1, Help: "the higher of the first two loads in a row, downwards, at which none was lost"},
	{Name: "loss_onset_fps", Label: "lowest lossy", Unit: "frame/s", Better: 1, Help: "the lowest load of the curve at which frames were lost"},
}
