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

// BackToBackSpec is the row of back-to-back.
var BackToBackSpec = procedure.Spec{
	Name: "back-to-back", Needs: lab.Ports, Standard: "RFC 9004",
	Quick: "back-to-back searches 10 times, not 50, to 2 %, with bursts of 0.1 s at most, not 2 s (RFC 9004, RFC 2544 section 26.4)",
	Doc:   "longest burst at the highest frame rate without loss, and the box's buffer",
	Names: suiteNames, Metrics: backToBackMetrics, New: newBackToBack,
}

// BackToBack is RFC 9004 (which updates RFC 2544 section 26.4): the longest burst
// at the highest frame rate of which nothing is lost, searched again and again,
// and the buffer that it tells of.
type BackToBack struct{ trial.Suite }

func newBackToBack() procedure.Procedure { return &BackToBack{trial.NewSuite()} }

// burstTries is how often a burst is sent again whose trial was invalid.
const burstTries = 3

func (p *BackToBack) Estimate() (int, time.Duration) {
	e := suiteEffortOf(p.Preset.Value)
	const steps = 6
	return p.InAll(e.bursts*steps, time.Duration(e.bursts*steps)*e.burst/20)
}

func (p *BackToBack) Run(ctx context.Context, env *procedure.Env) (procedure.Outcome, error) {
	e := suiteEffortOf(p.Preset.Value)
	return p.OnThroughput(ctx, env, func(m *trial.Point, carried unit.FrameRate) error {
		if !m.Can(1) {
			return nil
		}
		top, paced := m.Highest()
		load := engine.Load{}
		if paced {
			load.Rate = top
		}
		most := max(uint64(float64(top)*e.burst.Seconds()), 2)
		var lengths, rates []float64
		n, invalid, bounded := 0, 0, false
		for guess := uint64(0); len(lengths) < e.bursts && invalid < burstTries; {
			s := burstSearch{most: most, width: e.width, guess: guess}
			for !s.over() && invalid < burstTries {
				load.Count = s.next()
				rec, err := m.Own(ctx, "burst", n, load, false)
				if err != nil {
					return err
				}
				if n++; rec.Status == result.Invalid || rec.Load == nil {
					invalid++
					continue
				}
				invalid = 0
				s.add(rec.Account.Lost()+rec.Load.Broken == 0)
				if load.Count >= 64 { // of shorter ones the rate is not known well
					rates = append(rates, float64(rec.Load.Offered))
				}
				m.Out.Load, m.Out.Account = rec.Load, rec.Account
			}
			if s.over() {
				lengths, guess = append(lengths, float64(s.clean)), s.clean
				bounded = bounded || s.clean == most
			}
		}
		if len(lengths) == 0 {
			m.Out.Status, m.Out.Reason = result.Invalid, "no burst could be sent as asked, for the tester was held up"
			return nil
		}
		if len(lengths) < e.bursts {
			m.Warn("the longest burst was found %d times, not %d: the tester was held up too often", len(lengths), e.bursts)
		}
		long := average("back_to_back_frames", lengths)
		if bounded {
			long.Bound = result.AtLeast
			m.Warn("no frame was lost of the longest burst tried, %v at the highest frame rate", e.burst)
		}
		m.Add(long)
		if len(rates) == 0 {
			return nil
		}
		rate := figures.Spread("burst_rate_fps", rates)
		m.Add(rate)
		implied := long.Value * float64(m.Streams()) / rate.Value
		buffer := func(metric string, factor float64) {
			v := figures.Value(metric, implied*factor)
			v.N, v.Bound = long.N, long.Bound
			m.Add(v)
		}
		buffer("buffer_time_s", 1)
		if c := float64(carried * m.Streams()); c > 0 && c < rate.Value && !bounded {
			buffer("buffer_time_corrected_s", 1-c/rate.Value)
		}
		return nil
	})
}

// A burstSearch looks for the longest burst without loss, in frames: upwards and
// downwards from a guess in growing steps, then by halves.
type burstSearch struct {
	most  uint64 // the longest worth sending
	width float64
	guess uint64 // 0: none

	clean uint64 // the longest so far without loss
	lossy uint64 // the shortest so far with; 0: none
	step  uint64
}

func (s *burstSearch) over() bool {
	if s.lossy == 0 {
		return s.clean == s.most
	}
	return s.lossy-s.clean <= max(1, uint64(float64(s.clean)*s.width))
}

func (s *burstSearch) next() uint64 {
	if s.guess == 0 {
		s.guess = min(64, s.most)
	}
	if s.step == 0 {
		s.step = max(1, uint64(float64(s.guess)*2*s.width))
	}
	switch {
	case s.clean == 0 && s.lossy == 0:
		return s.guess
	case s.lossy == 0:
		return min(s.clean+s.step, s.most)
	case s.clean == 0 && s.lossy > s.step:
		return s.lossy - s.step
	}
	return (s.clean + s.lossy) / 2
}

// add tells what became of the burst that next asked for.
func (s *burstSearch) add(clean bool) {
	n := s.next()
	if clean {
		s.clean = n
	} else {
		s.lossy = n
	}
	if n != s.guess || s.step > s.guess {
		s.step *= 2
	}
	if s.clean > 0 && s.lossy == 0 && s.step < s.clean/64 {
		s.step = s.clean / 64
	}
}

var backToBackMetrics = []result.Metric{
	{Name: "back_to_back_frames", Label: "frames", Group: "Back-to-back: longest burst without loss", Interval: "range", Heads: true, Unit: "frame", Better: 1, Help: "longest burst at the highest frame rate without loss, in each direction: average of the repeats; interval is their range"},
	{Name: "burst_rate_fps", Label: "at frame/s", Unit: "frame/s", Help: "rate at which bursts of 64 frames and more left, all streams together"},
	{Name: "buffer_time_s", Label: "lasts", Unit: "s", Better: 1, Help: "the time that such a burst lasts (RFC 9004: implied DUT buffer time)"},
	{Name: "buffer_time_corrected_s", Label: "corrected", Unit: "s", Better: 1, Help: "the same less what the box forwards meanwhile: buffer_time_s x (1 - throughput / burst_rate_fps)"},
}
