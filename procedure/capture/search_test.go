// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"boxdyno/internal/testutil"
	"boxdyno/lab"
	"boxdyno/procedure"
	"boxdyno/procedure/internal/roomtest"
	"boxdyno/procedure/internal/trial"
	"boxdyno/result"
	"boxdyno/search"
	"boxdyno/unit"
)

// Under overload there is one figure, the median of what was counted at the load of which
// most is, or at the most that the tester can offer. That frames are lost is no failure, and
// a subject that fails leaves a limit.
func TestCaptureOverload(t *testing.T) {
	const (
		ceiling  = 12e6 // of the tester: 250 kframe/s are tried first
		statuses = 3    // every third trial is held up
	)
	for _, c := range []struct {
		name              string
		counts, offers    float64 // at most: the subject, and the tester evenly
		noise             float64 // share by which two of four counts are lower
		disturbed         int     // number of a trial that counts a tenth; 0: none
		slow, fails       bool    // counts a fifth of it in two seconds, and the rest later; is broken
		rate              string
		least, most, want float64
		trials            int
		bound             result.Bound
		status            result.Status
	}{
		{"at once", 125_000, 1e9, 0, 0, false, false, "overload", 250_000, 250_000, 125_000, 6, result.Exactly, result.Passed},
		{"counts later", 125_000, 1e9, 0, 0, true, false, "overload", 250_000, 250_000, 125_000, 6, result.Exactly, result.Passed},
		{"counts later, and more is needed", 1e6, 1e9, 0, 0, true, false, "overload", 1.26e6, 1.27e6, 1e6, 6, result.Exactly, result.Passed},
		{"counts differ a little", 125_000, 1e9, 0.015, 0, false, false, "overload", 250_000, 250_000, 124_062, 6, result.Exactly, result.Passed},
		{"counts differ", 125_000, 1e9, 0.1, 0, false, false, "overload", 250_000, 250_000, 112_500, 21, result.Exactly, result.Passed},
		{"more is needed", 1e6, 1e9, 0, 0, false, false, "overload", 1.26e6, 1.27e6, 1e6, 6, result.Exactly, result.Passed},
		{"a load is just too much", 400_000, 1e9, 0, 0, false, false, "overload", 562_000, 563_000, 400_000, 6, result.Exactly, result.Passed},
		{"a trial is disturbed", 1e6, 1e9, 0, 5, false, false, "overload", 1.26e6, 1.27e6, 1e6, 6, result.Exactly, result.Passed},
		{"less can be offered", 25_000, 175_000, 0, 0, false, false, "overload", 166_000, 167_000, 25_000, 6, result.Exactly, result.Passed},
		{"the tester is slower than the subject", 1e9, 400_000, 0, 0, false, false, "overload", 375_000, 375_000, 375_000, 6, result.AtLeast, result.Passed},
		{"nothing is too much", 1e9, 1e9, 0, 0, false, false, "overload", 9.6e6, 9.7e6, 9_610_840, 6, result.AtLeast, result.Passed},
		{"nothing can be offered", 1e9, 0, 0, 0, false, false, "overload", 0, 250_000, 0, 6, result.Exactly, result.Invalid},
		{"the subject fails", 125_000, 1e9, 0, 0, false, true, "overload", 250_000, 250_000, 0, 6, result.Exactly, result.Failed},
		{"the subject fails after a search", 125_000, 1e9, 0, 0, false, true, "search", 250_000, 250_000, 0, 6, result.Exactly, result.Passed},
	} {
		t.Run(c.name, func(t *testing.T) {
			n, last := 0, 0.0
			trial := func(_ context.Context, cfg []result.Pair, _ func(context.Context) (procedure.Outcome, error)) (result.Record, error) {
				n++
				rate, err := strconv.ParseFloat(result.Get(cfg, "rate"), 64)
				if err != nil || rate > ceiling || result.Get(cfg, "receiving") != "without precedence" {
					t.Fatalf("%v", cfg)
				}
				last = rate
				if c.fails {
					return result.Record{Status: result.Failed, Reason: "sniffer was ended"}, nil
				}
				rec := result.Record{
					Status: result.Failed, Load: &result.Load{Offered: unit.FrameRate(min(rate, c.offers))}, Account: &result.Account{Accepted: 1000},
					Values: []result.Value{figures.Value("counting_rate_fps", min(rate, c.counts*(1-c.noise*float64(n/2%2)))), figures.Value("frames_lost", 10)},
				}
				if n == c.disturbed {
					rec.Values[0].Value /= 10
				}
				if short := result.Get(cfg, "duration") == "2s"; c.slow && short {
					rec.Values[0].Value /= 5
					rec.Values = append(rec.Values, figures.Value("frames_counted", 900), figures.Value("frames_lag", 720))
				} else if !c.slow && !short {
					t.Fatalf("%v", cfg)
				}
				if n%statuses == 0 || rate > c.offers {
					rec.Status = result.Invalid
				}
				return rec, nil
			}
			m := &capturePoint{Capture: newCaptureOf(nil), ceiling: ceiling, env: &procedure.Env{Bed: &lab.Testbed{}, Trial: trial}, out: procedure.Outcome{Status: result.Passed}}
			roomtest.Assign(t, m.Flags, map[string]string{"rate": c.rate})
			for m.over == nil || !m.over.done() {
				if err := m.overload(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if m.out.Status != c.status || last < c.least || last > c.most {
				t.Errorf("%v at %v frame/s after %d trials, want %v at %v to %v", m.out.Status, last, n, c.status, c.least, c.most)
			}
			rec := result.Record{Values: m.out.Values}
			v := rec.Value("counting_overload_fps")
			if (v != nil) != (c.want > 0) || v != nil && (int(v.Value) != int(c.want) || v.N != c.trials || v.Bound != c.bound) {
				t.Errorf("%+v", v)
			}
			if c.fails && len(m.out.Warnings)+len(m.out.Reason) == 0 {
				t.Error("nobody is told that the subject failed")
			}
		})
	}
}

// Runs whose testers differ overload a program alike.
func TestOverloadBegins(t *testing.T) {
	for ceiling, want := range map[unit.FrameRate]unit.FrameRate{100e6: 250_000, 6.9e6: 250_000, 1.488e6: 250_000, 1e6: 250_000, 999_999: 62_500, 81_274: 15_625, 1: 0.2384185791015625, 0: 0} {
		if got := firstOverload(ceiling); got != want {
			t.Errorf("a tester of %v frame/s begins with %v, want %v", ceiling, float64(got), float64(want))
		}
	}
}

// The limit of a subject of known speed is found.
func TestCaptureSearch(t *testing.T) {
	testutil.Long(t)
	testutil.Privileged(t)
	testutil.Alone(t)
	testutil.TwoCPUs(t)                 // on one, no limit is searched
	const cost = 500 * time.Microsecond // a sleep takes some 60 us more
	o, recs := captureBench(t, &fakeSniffer{sleep: cost, stop: new(int)}, map[string]string{"buffer": "65536"})
	if o.Status == result.Invalid {
		t.Skipf("the tester was held up: %s", o.Reason)
	}
	v := roomtest.Figure(t, o, "lossless_fps")
	if v.Value < 200 || v.Value > 1.3/cost.Seconds() {
		t.Errorf("%v frame/s without loss, and it can count 2000 at most (%d trials)", v.Value, len(recs))
	}
}

// A subject of known cost counts what the CPU that receiving leaves suffices for, which is
// a third at least.
func TestCaptureUnderOverload(t *testing.T) {
	testutil.Long(t)
	testutil.Privileged(t)
	testutil.Alone(t)
	testutil.TwoCPUs(t)
	const cost = 500e-6 // CPU seconds a frame
	p := ownProgram(t, `while True:
    s.recv(2048)
    n += 1
    print("seen=%d" % n, flush=True)
    end = time.thread_time() + 500e-6
    while time.thread_time() < end:
        pass
`)
	p.standing, p.patience = 300*time.Millisecond, time.Second // it tells its count at once
	roomtest.Assign(t, p.Flags, map[string]string{"rate": "overload"})
	visits := 2
	if testutil.Full() {
		visits = overloadVisits
	}
	o, recs, err := captureVisited(t, roomtest.Build(t, "sandbox", nil), p, visits)
	if err != nil {
		t.Fatal(err)
	}
	rates := []float64{}
	for _, r := range recs {
		if r.Status == result.Invalid || r.Value("counting_rate_fps") == nil {
			continue // the tester was held up, or tried what it can
		}
		of := func(metric string) float64 {
			return roomtest.Figure(t, procedure.Outcome{Values: r.Values}, metric).Value
		}
		rate, each, own := of("counting_rate_fps"), of("subject_cpu_per_frame_s"), of("subject_cpu_share")
		receiving := of("receive_cpu_s") * of("capture_offered_fps") / of("frames_offered")
		if each < cost || each > 1.2*cost {
			t.Errorf("a frame took %v s of CPU", each)
		}
		if sum := own + receiving; own < 0.35 || sum < 0.85 || sum > 1.05 {
			t.Errorf("of a CPU the subject had %v and receiving %v", own, receiving)
		}
		if could := own / each; rate < 0.9*could || rate > 1.1*could {
			t.Errorf("%v frame/s counted, and its CPU sufficed for %v", rate, could)
		}
		rates = append(rates, rate)
	}
	if fps := roomtest.Measured(t, o, "counting_overload_fps"); len(rates) < 6 || fps < 700 || fps < slices.Min(rates) || fps > slices.Max(rates) {
		t.Errorf("%v frame/s counted, of trials that counted %v", fps, rates)
	}
}

// A load that is given is offered again where the tester could not do its part, while there is
// time. A wait for the CPU, or time that the hypervisor took, excuses no loss.
func TestOfferAt(t *testing.T) {
	lost := func(n int64) result.Record {
		r := result.Record{Status: result.Passed, DUT: &result.DUTWork{Waited: 0.1}, CPUs: []result.CPU{{Role: "dut", Steal: 0.1}}, Account: &result.Account{Accepted: 1000, Received: 1000 - n, Drops: []result.Term{{Place: result.DUTNIC, N: n}}}}
		if n > 0 {
			r.Status = result.Failed
		}
		return r
	}
	invalid := result.Record{Status: result.Invalid}
	for i, c := range []struct {
		recs   []result.Record
		spent  bool
		trials int
		status result.Status
	}{
		{[]result.Record{lost(0)}, false, 1, result.Passed},
		{[]result.Record{lost(30), lost(0)}, false, 1, result.Failed},
		{[]result.Record{invalid, lost(20)}, false, 2, result.Failed},
		{[]result.Record{invalid, lost(0)}, true, 1, result.Invalid},
		{[]result.Record{invalid, invalid, invalid}, false, 3, result.Invalid},
	} {
		m := &capturePoint{Capture: newCaptureOf(nil), env: &procedure.Env{Spent: func(string) bool { return c.spent }}}
		trials := 0
		if err := m.offerAt("rate", func(n int) (result.Record, error) { trials++; return c.recs[n], nil }); err != nil {
			t.Fatal(err)
		}
		if trials != c.trials || m.out.Status != c.status {
			t.Errorf("case %d: %d trials, %s", i, trials, m.out.Status)
		}
	}
}

// A box whose CPU is held up gives a rate with an interval: TestIDSOfAStallingBox for frames
// of one size, and whenever the run ends.
func TestCaptureOfAStallingBox(t *testing.T) {
	for seed := range uint64(12) {
		chance := rand.New(rand.NewPCG(seed, 8))
		b := &stallingBox{inspects: 8e5 * math.Exp(-2*chance.Float64()), ring: 256, often: 500 * time.Millisecond, chance: chance, share: 1, frameBits: 1}
		b.lasts = time.Duration((0.5 + 12*chance.Float64()) * float64(time.Millisecond))
		least, want := b.carries(0), b.carries(0)
		if seed%2 == 1 {
			b.share, want = 0.2, b.inspects
		}
		env := &procedure.Env{Bed: &lab.Testbed{Settings: []result.Pair{{Key: "ring", Value: "256"}}}}
		env.Trial = func(_ context.Context, cfg []result.Pair, _ func(context.Context) (procedure.Outcome, error)) (result.Record, error) {
			rate, err := strconv.ParseFloat(result.Get(cfg, "rate"), 64)
			d, derr := time.ParseDuration(result.Get(cfg, "duration"))
			return b.offer(rate, math.Round(rate*d.Seconds())), errors.Join(err, derr)
		}
		m := &capturePoint{Capture: newCaptureOf(nil), ceiling: 4e6, effort: captureEffortOf("quick"), env: env, out: procedure.Outcome{Status: result.Passed}, emptied: -1}
		m.pause = func(_ context.Context, o procedure.Outcome) error {
			v := (&result.Record{Values: o.Values}).Value("lossless_fps")
			if v == nil && o.Status != result.Invalid || v != nil && v.Bound != result.AtMost && *v.Lo > 1.3*b.inspects || v != nil && v.Bound == result.AtMost && v.Value < 0.97*least {
				t.Errorf("seed %d: %s after %d trials: %+v, and %v is carried", seed, o.Status, b.trials, v, want)
			}
			return nil
		}
		if err := m.highest(t.Context()); err != nil {
			t.Fatal(err)
		}
		v := (&result.Record{Values: m.out.Values}).Value("lossless_fps")
		if v == nil || v.Lo == nil || v.Bound == result.AtMost || *v.Lo > 1.03*want || *v.Lo < 0.85*least || v.Hi != nil && *v.Hi < least || b.trials > 70 {
			t.Errorf("seed %d: %+v after %d trials, and %v is carried: %v", seed, v, b.trials, want, m.out.Warnings)
		}
	}
}

// Where a search could not confirm an upper bound, loads that lost beyond doubt tell one.
func TestLossyFrom(t *testing.T) {
	trial := func(offered unit.FrameRate, loss, doubt unit.LossRatio) search.Seen {
		return search.Seen{Valid: true, Offered: offered, Loss: loss, Doubt: doubt}
	}
	for _, c := range []struct {
		seen []search.Seen
		want unit.FrameRate
	}{
		{nil, 0},
		{[]search.Seen{trial(100, 0, 0), trial(120, 0.1, 0.01)}, 0},
		{[]search.Seen{trial(100, 0, 0), trial(150, 0.3, 0.01), trial(120, 0.1, 0.01), trial(130, 0.2, 0.01)}, 130},
		{[]search.Seen{trial(100, 0.1, 0), trial(90, 0.1, 0), trial(110, 0, 0), trial(120, 0.1, 0.2), trial(130, 0.1, 0.01), {Offered: 125, Loss: 0.5}, trial(140, 0.1, 0.01)}, 140},
	} {
		if got := lossyFrom(c.seen); got != c.want {
			t.Errorf("%+v: %v, want %v", c.seen, got, c.want)
		}
	}
}

// Frames that are counted long after they were sent are lost to a search.
func TestCaptureLags(t *testing.T) {
	m := &capturePoint{Capture: &Capture{}}
	rec := result.Record{Status: result.Failed, Load: &result.Load{Offered: 1000}, Account: &result.Account{Accepted: 1000, Received: 1000}, Values: []result.Value{figures.Value("frames_lag", 400)}}
	if got := m.saw(rec); got.Loss != 0.4 || !got.Valid || got.Doubt != 0 {
		t.Errorf("%+v", got)
	}
	rec.Status = result.Passed
	if got := m.saw(rec); got.Loss != 0 {
		t.Errorf("it keeps up: %+v", got)
	}
}

// What a full ring lost while a program or the hypervisor had the DUT's CPU.
func TestKeptOff(t *testing.T) {
	for _, c := range []struct {
		waited, stolen float64
		ring, want     float64
	}{{0, 0, 50, 0}, {0.02, 0, 50, 20}, {0, 0.03, 50, 30}, {0.02, 0.03, 50, 50}, {0.5, 0.5, 50, 50}} {
		r := result.Record{
			Account: &result.Account{Accepted: 1000, Drops: []result.Term{{Place: result.DUTNIC, N: int64(c.ring)}, {Place: result.SubjectAt, N: 7}}},
			DUT:     &result.DUTWork{Waited: c.waited},
			CPUs:    []result.CPU{{Role: "tester", Steal: 0.9}, {CPU: 1, Role: "dut", Steal: c.stolen}},
		}
		if got := trial.KeptOff(r); int64(got+0.5) != int64(c.want) {
			t.Errorf("waited %v, stolen %v: %v frames, want %v", c.waited, c.stolen, got, c.want)
		}
	}
}
