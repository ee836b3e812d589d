// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"boxdyno/agent"
	"boxdyno/link"
	"boxdyno/result"
	"boxdyno/telemetry"
	"boxdyno/unit"
)

const (
	// telemetryPatience is how long a reading may take beside four round trips; a sampler
	// waits for it.
	telemetryPatience = 250 * time.Millisecond
	// mostPatience is below the silence after which a connection is taken for dead.
	mostPatience = 4 * time.Second
	// clockKept is how long a comparison of clocks counts, unless a better one comes.
	clockKept = 10 * unit.Instant(time.Second)
)

// WatchBox is the collectors of the box behind c as one collector here: names of them
// without what the user gave (telemetry.Own; nil: those by default), and the offset of its
// clock. It reads them when it is read. machine is the value of their label machine; "": none,
// and nobody else has a named collector that the box lacks.
func WatchBox(c *link.Conn, names []string, machine string, warn func(string)) telemetry.Spec {
	return telemetry.Spec{Name: "box", Doc: "what the box says of itself", New: func(ctx context.Context, _ *telemetry.Machine) (telemetry.Collector, error) {
		opened, err := agent.TelemetryOpen.Call(ctx, c, agent.TelemetryArgs{Collectors: telemetry.Own(names), Any: machine != ""})
		if err != nil {
			return nil, err
		}
		clock, err := c.Clock(ctx, clockReadings)
		if err != nil {
			return nil, err
		}
		w := &boxWatch{remote: c, warn: warn, theirs: len(opened.Series), compared: unit.Now(), offset: unit.Instant(clock.Offset), error: unit.Instant(clock.Error)}
		w.patience = patienceFor(2 * clock.Error)
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

	patience                time.Duration
	compared, offset, error unit.Instant // clocks
}

// patienceFor is how long a reading may take where a round trip takes so long.
func patienceFor(trip time.Duration) time.Duration {
	return min(telemetryPatience+4*trip, mostPatience)
}

func (w *boxWatch) Series() []result.Series { return w.series }

// Absent are the box's collectors that are not read, each with why.
func (w *boxWatch) Absent() []string { return w.absent }

// Reads says whether the box has a collector that was asked for.
func (w *boxWatch) Reads(name string) bool {
	return !slices.ContainsFunc(w.absent, func(a string) bool { return strings.HasPrefix(a, w.remote.Name+": "+name+": ") })
}

// Read implements telemetry.Collector: it waits for the box as long as its round trips
// suggest, and twice as long after a reading that was late.
func (w *boxWatch) Read(dst []float64) error {
	patience := w.patience
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	before := unit.Now()
	r, err := agent.TelemetryRead.Call(ctx, w.remote, agent.None{})
	if ctx.Err() != nil {
		w.patience = min(2*patience, mostPatience)
		return fmt.Errorf("%s did not answer within %v", w.remote.Name, patience.Round(time.Millisecond))
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
	w.patience = patienceFor(time.Duration(after - before))
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
