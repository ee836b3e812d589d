// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"context"
	"flag"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"boxdyno/host"
	"boxdyno/result"
	"boxdyno/subject"
)

// A Sysbench is sysbench's test cpu in one thread: an event is all primes up to a limit,
// by trial division with 64-bit integers.
type Sysbench struct {
	For    time.Duration // whole seconds
	Primes int           // the limit
}

const sysbenchProgram = "sysbench"

// NewSysbench has sysbench's own limit.
func NewSysbench() *Sysbench { return &Sysbench{For: time.Second, Primes: 10_000} }

// Flags implements Subject.
func (s *Sysbench) Flags(fs *flag.FlagSet) {
	fs.DurationVar(&s.For, "for", s.For, "how `long` it runs, in whole seconds")
	fs.IntVar(&s.Primes, "primes", s.Primes, "`limit` of the primes of an event: 3 to 1000000")
}

// Check implements Subject.
func (s *Sysbench) Check(_ context.Context, h *host.Local) error {
	if s.For < time.Second || s.For%time.Second != 0 || s.For > time.Hour {
		return fmt.Errorf("sysbench for %v: want whole seconds up to 1h", s.For)
	}
	if s.Primes < 3 || s.Primes > 1_000_000 {
		return fmt.Errorf("primes %d: want 3 to 1000000", s.Primes)
	}
	return h.Has(sysbenchProgram)
}

// Identify implements Worker.
func (s *Sysbench) Identify(ctx context.Context, h *host.Local) ([]result.Pair, error) {
	out, err := h.Run(ctx, "", sysbenchProgram, "--version")
	return []result.Pair{{Key: "sysbench", Value: strings.TrimPrefix(strings.TrimSpace(string(out)), "sysbench ")}, {Key: "primes", Value: strconv.Itoa(s.Primes)}}, err
}

// Prove implements Worker. sysbench does not tell the primes that it finds: it makes as
// many events as it is asked for, of the limit that it is asked for.
func (s *Sysbench) Prove(ctx context.Context, h *host.Local) error {
	const events = 7
	out, err := h.Run(ctx, "", append(s.argv(time.Minute), "--events="+strconv.Itoa(events), "run")...)
	if err != nil {
		return err
	}
	if n, ok := sysbenchFind(sysbenchEvents, string(out)); !ok || n != events {
		return fmt.Errorf("sysbench made %v events instead of %d", n, events)
	}
	if n, ok := sysbenchFind(sysbenchLimit, string(out)); !ok || n != float64(s.Primes) {
		return fmt.Errorf("sysbench looked for primes up to %v instead of %d", n, s.Primes)
	}
	return nil
}

func (s *Sysbench) argv(length time.Duration) []string {
	return []string{sysbenchProgram, "cpu", "--threads=1", fmt.Sprintf("--time=%.0f", length.Seconds()), "--cpu-max-prime=" + strconv.Itoa(s.Primes)}
}

// Start implements Subject.
func (s *Sysbench) Start(ctx context.Context, e subject.Env) (subject.Running, error) {
	return subject.Command{
		Name: sysbenchProgram, Argv: append(s.argv(s.For), "run"),
		Read: func(w subject.Worked) ([]result.Value, error) {
			v, ok := sysbenchFind(sysbenchRate, w.Stdout)
			if !ok || v <= 0 {
				return nil, fmt.Errorf("it printed no events per second: %.80q", w.Stdout)
			}
			return []result.Value{{Metric: "sysbench_events_per_s", Unit: "1/s", Value: v}}, nil
		},
	}.Start(ctx, e)
}

var (
	sysbenchRate   = regexp.MustCompile(`events per second: +([0-9.]+)`)
	sysbenchEvents = regexp.MustCompile(`total number of events: +([0-9]+)`)
	sysbenchLimit  = regexp.MustCompile(`Prime numbers limit: +([0-9]+)`)
)

func sysbenchFind(re *regexp.Regexp, text string) (float64, bool) {
	m := re.FindStringSubmatch(text)
	if m == nil {
		return 0, false
	}
	v, err := strconv.ParseFloat(m[1], 64)
	return v, err == nil
}

// SysbenchMetrics are those of a Sysbench.
var SysbenchMetrics = []result.Metric{
	{Name: "sysbench_events_per_s", Label: "events", Interval: "range", Heads: true, Unit: "1/s", Better: 1, Help: "sysbench cpu: events a second, each all primes up to the limit"},
}
