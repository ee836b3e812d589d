// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"fmt"
	"math"
	"time"

	"boxdyno/agent"
	"boxdyno/link"
	"boxdyno/result"
	"boxdyno/telemetry"
	"boxdyno/unit"
)

const (
	// telemetryPatience is how long a reading may take; a sampler waits for it.
	telemetryPatience = 250 * time.Millisecond
	// clockKept is how long a comparison of clocks counts, unless a better one comes.
	clockKept = 10 * unit.Instant(time.Second)
)

// WatchBox is the collectors of the box behind c as one collector here: names of them
// without what the user gave (telemetry.Own; none: those by default), and the offset of its
// clock. It reads them when it is read. machine is the value of their label machine; "": none.
func WatchBox(c *link.Conn, names []string, machine string, warn func(string)) telemetry.Spec {
	return telemetry.Spec{Name: "box", Doc: "what the box says of itself", New: func(ctx context.Context, _ *telemetry.Machine) (telemetry.Collector, error) {
		opened, err := agent.TelemetryOpen.Call(ctx, c, agent.TelemetryArgs{Collectors: telemetry.Own(names)})
		if err != nil {
			return nil, err
		}
		w := &boxWatch{remote: c, warn: warn, theirs: len(opened.Series), error: math.MaxInt64}
		for _, a := range opened.Absent {
			w.absent = append(w.absent, c.Name+": "+a)
		}
		w.series = append(opened.Series,
			result.Series{Name: "boxdyno_clock_offset_seconds", Unit: "s", Help: "how far the box's monotonic clock is ahead of the tester's, by the best comparison of the last 10 s"},
			result.Series{Name: "boxdyno_clock_offset_error_seconds", Unit: "s", Help: "at most so far off is that: half of the comparison's round trip"},
			result.Series{Name: "boxdyno_control_sent_bytes_total", Unit: "B", Counter: true, Help: "octets of messages to the box, before ssh encrypts them"},
			result.Series{Name: "boxdyno_control_received_bytes_total", Unit: "B", Counter: true, Help: "octets of messages of the box, before ssh encrypts them"})
		if machine != "" {
			w.series = telemetry.Label(w.series, machine)
		}
		return w, nil
	}}
}

// A boxWatch is read in the sampler's goroutine alone.
type boxWatch struct {
	remote *link.Conn
	series []result.Series
	theirs int // of them, the box's own
	absent []string
	warn   func(string)

	compared, offset, error unit.Instant // clocks
}

func (w *boxWatch) Series() []result.Series { return w.series }

// Absent are the box's collectors that are not read, each with why.
func (w *boxWatch) Absent() []string { return w.absent }

// Read implements telemetry.Collector: it waits for the box, for telemetryPatience at most.
func (w *boxWatch) Read(dst []float64) error {
	ctx, cancel := context.WithTimeout(context.Background(), telemetryPatience)
	defer cancel()
	before := unit.Now()
	r, err := agent.TelemetryRead.Call(ctx, w.remote, agent.None{})
	if ctx.Err() != nil {
		return fmt.Errorf("%s did not answer within %v", w.remote.Name, telemetryPatience)
	}
	if err != nil {
		return err
	}
	if len(r.Values) != w.theirs {
		return fmt.Errorf("%s answers with %d values of %d", w.remote.Name, len(r.Values), w.theirs)
	}
	for _, text := range r.Warnings {
		w.warn(w.remote.Name + ": " + link.Cut(text, 300))
	}
	after := unit.Now()
	if half := (after - before + 1) / 2; half < w.error || after-w.compared > clockKept {
		w.compared, w.offset, w.error = after, r.At-before-(after-before)/2, half
	}
	copy(dst, r.Values)
	sent, received := w.remote.Octets()
	copy(dst[w.theirs:], []float64{float64(w.offset) / 1e9, float64(w.error) / 1e9, float64(sent), float64(received)})
	return nil
}

// Close lets the box's collectors go.
func (w *boxWatch) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_, err := agent.TelemetryClose.Call(ctx, w.remote, agent.None{})
	if w.remote.Err() != nil {
		return nil // the connection ended before, and the collectors with it
	}
	return err
}
