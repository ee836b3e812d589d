// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"io"

	"boxdyno/engine"
	"boxdyno/result"
	"boxdyno/unit"
)

// A receivedAccount is what meter ends with.
type receivedAccount struct {
	Type    string     `json:"type"` // "account"
	Command string     `json:"command"`
	Version string     `json:"version"`
	Port    portRecord `json:"port"`
	Backend string     `json:"backend"`
	Stamps  string     `json:"stamps"`  // what took the times
	Seconds float64    `json:"seconds"` // that the meter listened

	PortGone bool    `json:"port_gone,omitempty"`     // the port vanished meanwhile
	Known    float64 `json:"known_until_s,omitempty"` // then: seconds of listening up to which all that came is counted

	Total   amount           `json:"total"`   // all frames, from the first to the last
	Foreign amount           `json:"foreign"` // of no stream that was asked for
	Drops   uint64           `json:"drops"`   // frames that the meter itself lost
	Streams []receivedStream `json:"streams"` // those of which frames came
	Hash    string           `json:"hash,omitempty"`

	Warnings []string `json:"warnings,omitempty"`
}

// A receivedStream is what came of one stream. Sequence numbers begin with 0, so
// what is missing needs no word from the sender; only frames after the last one
// that came cannot be missed.
type receivedStream struct {
	Stream uint16 `json:"stream"`
	amount
	Missing   int64   `json:"missing"`    // sequence numbers below the highest that never came; below 0: numbers began anew
	LossRatio float64 `json:"loss_ratio"` // missing / (highest sequence number + 1)
	Duplicate uint64  `json:"duplicate"`
	Reordered uint64  `json:"reordered"`
	Broken    uint64  `json:"broken"` // signed, but with lengths that do not fit

	Runs []senderRun `json:"runs,omitempty"` // of the sender, where it was started anew: what is above is of all of them

	Gaps    *times `json:"gaps,omitempty"`    // between arrivals
	IPDV    *times `json:"ipdv,omitempty"`    // |delay - the delay of the frame before|, frames in sequence: no clocks need agree
	Latency *times `json:"latency,omitempty"` // one way, only with --shared-clock
	Bursts  *times `json:"bursts,omitempty"`  // frames of runs with gaps below 2 µs, not s
}

// A senderRun is what came of one run of a stream's sender.
type senderRun struct {
	From      float64 `json:"from_s"` // first and last frame, by the meter's clock since it listened
	To        float64 `json:"to_s"`
	Frames    uint64  `json:"frames"`
	Octets    uint64  `json:"octets"`
	Missing   int64   `json:"missing"`
	LossRatio float64 `json:"loss_ratio"`
	Duplicate uint64  `json:"duplicate"`
	Reordered uint64  `json:"reordered"`
}

// runsOf is nil where the sender ran once.
func runsOf(r engine.RxReport, armed unit.Instant) (all []senderRun) {
	if len(r.Runs) < 2 {
		return nil
	}
	for _, run := range r.Runs {
		s := senderRun{
			From: seconds(armed, run.First), To: seconds(armed, run.Last), Frames: run.Frames, Octets: run.Octets,
			Missing: missing(run.Span, run.Frames, run.Duplicate), Duplicate: run.Duplicate, Reordered: run.Reordered,
		}
		s.LossRatio = lossRatio(s.Missing, run.Span)
		all = append(all, s)
	}
	return all
}

// lossRatio is that of what is missing of span numbers; 0 where more came.
func lossRatio(missing int64, span uint64) float64 {
	if missing <= 0 {
		return 0
	}
	return float64(missing) / float64(span)
}

// times sums a histogram up: quantiles are upper edges of its buckets, in s.
type times struct {
	P50       float64           `json:"p50"`
	P99       float64           `json:"p99"`
	P999      float64           `json:"p999"`
	Max       float64           `json:"max"`
	Histogram *result.Histogram `json:"histogram,omitempty"` // with --gaps
}

func timesOf(h *result.Histogram, whole bool) *times {
	if h == nil || h.Total() == 0 {
		return nil
	}
	t := &times{P50: h.Quantile(0.5), P99: h.Quantile(0.99), P999: h.Quantile(0.999), Max: h.Quantile(1)}
	if whole {
		t.Histogram = h
	}
	return t
}

func receivedOf(port *trafficPort, p *portFlags, f *meterFlags, backend string, rep engine.MeterReport, armed, now unit.Instant) receivedAccount {
	line, _ := port.lineRate()
	acc := receivedAccount{
		Type: "account", Command: "meter", Version: Version(), Port: port.record(p.netns), Backend: backend,
		Stamps: rep.Stamps, Seconds: seconds(armed, now), Drops: rep.Drops, Hash: rep.Hash, Streams: []receivedStream{},
	}
	all := arrived(rep)
	span := seconds(rep.First, rep.Last)
	over := func(frames uint64) float64 {
		if frames < 2 {
			return 0
		}
		return finite(float64(frames) / span)
	}
	acc.Total = newAmount(all.frames, all.octets, over(all.frames), line)
	acc.Foreign = newAmount(rep.Foreign, rep.ForeignOctets, over(rep.Foreign), line)
	for _, r := range rep.Streams {
		if r.Frames == 0 && r.Broken == 0 {
			continue
		}
		s := receivedStream{
			Stream: r.Stream, amount: newAmount(r.Frames, r.Octets, finite(float64(r.Rate)), line),
			Missing: missing(r.Span, r.Frames, r.Duplicate), Duplicate: r.Duplicate, Reordered: r.Reordered, Broken: r.Broken,
			Gaps: timesOf(r.Gaps, p.gaps), IPDV: timesOf(r.IPDV, p.gaps), Bursts: timesOf(r.Bursts, p.gaps),
		}
		if f.sharedClock {
			s.Latency = timesOf(r.Latency, p.gaps)
		}
		s.LossRatio, s.Runs = lossRatio(s.Missing, r.Span), runsOf(r, armed)
		switch {
		case len(r.Runs) == engine.MaxRuns:
			acc.Warnings = append(acc.Warnings, fmt.Sprintf("stream %d began anew %d times or more, so later runs count as duplicates: start the meter again, and give simultaneous senders different --stream numbers", r.Stream, len(r.Runs)-1))
		case s.Missing < 0:
			acc.Warnings = append(acc.Warnings, fmt.Sprintf("stream %d has more frames than sequence numbers: senders share the stream, or one began anew unseen; start the meter again before each", r.Stream))
		}
		acc.Streams = append(acc.Streams, s)
	}
	if f.hash && rep.Hash == "" {
		acc.Warnings = append(acc.Warnings, "no hash: backend "+backend+" sees this port's queues apart; take --backend packet")
	}
	if rep.Drops > 0 {
		acc.Warnings = append(acc.Warnings, "the meter itself lost "+plural(rep.Drops, "frame")+": what is missing is not the link's alone")
	}
	return acc
}

func (acc receivedAccount) text(w io.Writer) error {
	var b rows
	b.add("received", "%v", acc.Total)
	b.add("", "mean frame %.1f octets with FCS; %s", acc.Total.MeanSize, acc.Port.lineRate())
	timed, latency := false, false
	for _, s := range acc.Streams {
		b.add(fmt.Sprintf("stream %d", s.Stream), "%s, %v, %v (L2)", plural(s.Frames, "frame"), unit.FrameRate(s.FPS), unit.BitRate(s.L2))
		b.add("", "%d missing (%.3g %%), %d duplicate, %d reordered, %d broken", s.Missing, 100*s.LossRatio, s.Duplicate, s.Reordered, s.Broken)
		for i, r := range s.Runs {
			b.add("", "run %d of the sender, %.2f–%.2f s: %s, %d missing (%.3g %%), %d duplicate, %d reordered",
				i+1, r.From, r.To, plural(r.Frames, "frame"), r.Missing, 100*r.LossRatio, r.Duplicate, r.Reordered)
		}
		for _, t := range []struct {
			name string
			of   *times
			show func(float64) string
		}{{"gaps", s.Gaps, shortTime}, {"IPDV", s.IPDV, shortTime}, {"latency", s.Latency, shortTime}, {"bursts", s.Bursts, inFrames}} {
			if t.of != nil {
				timed, latency = true, latency || t.name == "latency"
				b.add("", "%s p50 %s, p99 %s, p99.9 %s, largest %s", t.name, t.show(t.of.P50), t.show(t.of.P99), t.show(t.of.P999), t.show(t.of.Max))
			}
		}
	}
	b.add("foreign", "%v", acc.Foreign)
	b.add("meter", "lost %s itself; listened for %.2f s", plural(acc.Drops, "frame"), acc.Seconds)
	if timed {
		b.add("clock", "%s", acc.Stamps)
		if !latency {
			b.add("", "no latency: it needs a sender on this machine (--shared-clock)")
		}
	}
	if acc.Hash != "" {
		b.add("hash", "%s", acc.Hash)
	}
	for _, n := range acc.Warnings {
		b.add("warning", "%s", n)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func inFrames(n float64) string { return plural(uint64(n), "frame") }
