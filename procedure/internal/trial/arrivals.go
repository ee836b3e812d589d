// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"math"
	"slices"
	"time"

	"boxdyno/engine"
	"boxdyno/result"
	"boxdyno/stat"
	"boxdyno/unit"
)

// arrivals returns the sustained rate of what came at all meters, and the course it
// was read from; nil where a meter kept no course, or its end is not stationary.
func arrivals(l engine.Load, sent []engine.TxReport, seen []engine.MeterReport) (rate unit.FrameRate, sum *result.Arrivals) {
	for _, m := range seen {
		if len(m.Streams) == 0 {
			continue
		}
		var mine []engine.TxReport
		for _, t := range sent {
			if slices.ContainsFunc(m.Streams, func(s engine.RxReport) bool { return s.Stream == t.Stream }) {
				mine = append(mine, t)
			}
		}
		one, a := course(l, mine, m)
		if a == nil {
			return 0, nil
		}
		rate += one
		if sum == nil {
			sum = a
			continue
		}
		sum.Settled, sum.Steady = max(sum.Settled, a.Settled), min(sum.Steady, a.Steady)
		sum.Falling = sum.Falling || a.Falling
		sum.Beyond, sum.Drained, sum.Lag = sum.Beyond+a.Beyond, sum.Drained+a.Drained, max(sum.Lag, a.Lag)
	}
	return rate, sum
}

// course is arrivals of one meter, at which the frames of sent were to arrive.
func course(l engine.Load, sent []engine.TxReport, m engine.MeterReport) (unit.FrameRate, *result.Arrivals) {
	var accepted, frames, twice uint64
	var changed unit.Instant
	for _, t := range sent {
		accepted += t.Accepted
		changed = max(changed, t.Changed)
	}
	for _, s := range m.Streams {
		frames, twice = frames+s.Frames, twice+s.Duplicate
	}
	begin, end := span(sent)
	if len(m.Marks) == 0 || frames == twice || end <= begin {
		return 0, nil
	}
	once := float64(frames-twice) / float64(frames)
	way := max(0, m.Marks[0].At-begin) // how long the first frame took
	var at, n []float64
	for _, k := range m.Marks {
		if k.At >= changed+way && k.At <= end+way {
			at, n = append(at, float64(k.At-begin)/1e9), append(n, float64(k.Frames)*once)
		}
	}
	p, ok := stat.Steady(at, n)
	if !ok {
		return 0, nil
	}
	total, last := float64(frames-twice), len(at)-1
	came := n[last] + p.Rate*max(0, float64(end+way-begin)/1e9-at[last]) // up to the last frame's time
	return unit.FrameRate(p.Rate), &result.Arrivals{
		Settled: inSeconds(at[p.From] - at[0]),
		Steady:  inSeconds(p.Time),
		Falling: p.Falling,
		Beyond:  int64(math.Round(total - p.Rate*float64(end-begin)/1e9)),
		Drained: max(0, int64(math.Round(total-came))),
		Lag:     lag(l, accepted, uint64(total), begin, end, m.Marks),
	}
}

func inSeconds(s float64) time.Duration { return time.Duration(s * 1e9) }

// lag returns by how much more the frames of the last quarter were delayed than
// those of the second, the least delay of each; 0 where frames are missing or were
// not due evenly.
func lag(l engine.Load, accepted, frames uint64, begin, end unit.Instant, marks []engine.Mark) time.Duration {
	if l.Rate == 0 || l.Then != 0 || l.Pattern != engine.Constant || frames != accepted || accepted < 8 {
		return 0
	}
	gap := float64(end-begin) / float64(accepted-1)
	least := [4]float64{}
	for i := range least {
		least[i] = math.Inf(1)
	}
	for _, k := range marks {
		if k.Frames < accepted {
			q := &least[k.Frames*4/accepted]
			*q = min(*q, float64(k.At-begin)-gap*float64(k.Frames))
		}
	}
	if d := least[3] - least[1]; !math.IsInf(d, 0) && !math.IsNaN(d) && d > 0 {
		return time.Duration(d)
	}
	return 0
}
