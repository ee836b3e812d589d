// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"boxdyno/engine"
	"boxdyno/frame"
	"boxdyno/host"
	"boxdyno/lab"
	"boxdyno/result"
	"boxdyno/runner"
	"boxdyno/stat"
	"boxdyno/telemetry"
	"boxdyno/unit"
)

// What telemetry at 10 Hz may cost.
const (
	observerCPU    = 0.005 // of one core, for ten samples a second
	observerMemory = 25e6  // octets of anonymous memory, of the whole process
	observerRate   = 0.01  // of the forwarding rate, either way
)

// observedRuns are those whose records tell what sampling cost.
const observedRuns = 6

// observed measures the forwarding rate n times with telemetry and n times without, in
// pairs in shuffled order in one sandbox, and returns how many of its claims fail: the
// interval of the pairs' ratio lies within observerRate of 1, and the records of runs
// say that sampling cost no more than it may.
func observed(ctx context.Context, binary, dir string, n int, seed uint64) (failed int, err error) {
	ratios, err := pairs(ctx, dir, n, rand.New(rand.NewPCG(seed, 2)))
	if err != nil {
		return 0, err
	}
	var shares, tens, often []float64
	var memory uint64
	for i := range observedRuns {
		out := filepath.Join(dir, "observe-"+strconv.Itoa(i))
		if _, err := timed(ctx, binary, "run", "forward", "--quick", "--quiet", "--repeat", "12", "--set", "frame_size=64", "--set", "search=none", "--out", out); err != nil {
			return 0, err
		}
		run, _, err := result.Open(out)
		if err != nil {
			return 0, err
		}
		for _, t := range run.Telemetry {
			perSecond := float64(t.Samples) / (float64(t.To-t.From) / 1e9)
			shares, often, tens = append(shares, t.CPUShare), append(often, perSecond), append(tens, t.CPUShare*t.Rate/perSecond)
			memory = max(memory, t.Memory)
		}
	}
	s := stat.Summarize(ratios)
	most := slices.Max(tens)
	fmt.Printf("telemetry at 10 Hz in %d pairs, seed %d: the forwarding rate with it is %.4f of that without (%.4f to %.4f); in runs ten samples a second take %.2f %% of a core at most, %.2f %% in the median; all samples, those at the ends of trials too, %.2f %% in the median, at %.0f a second; %.1f MB of anonymous memory at most\n\n",
		len(ratios), seed, s.Center, s.Lo, s.Hi, most*100, stat.Summarize(tens).Center*100, stat.Summarize(shares).Center*100, stat.Summarize(often).Center, float64(memory)/1e6)
	for _, holds := range []bool{s.Sure && s.Lo >= 1-observerRate && s.Hi <= 1+observerRate, most < observerCPU, memory < observerMemory} {
		if !holds {
			failed++
		}
	}
	return failed, nil
}

// observedFar measures the forwarding rate of a box behind virtual cables in n pairs of runs
// in shuffled order, one with telemetry of the box and one without. Its claim is that the
// interval of the pairs' ratio has 1 in it, or lies within observerRate of it.
func observedFar(ctx context.Context, dir string, n int, seed uint64) (failed int, err error) {
	const name = "o"
	if _, err := board(ctx, "--start", name, "--nic", cables, "--nic", cables); err != nil {
		return 0, err
	}
	defer func() {
		_, stopped := board(context.WithoutCancel(ctx), "--stop", name)
		err = errors.Join(err, stopped)
	}()
	for _, words := range [][]string{{"add", name, "--ssh", name}, {"cables", name}} {
		if _, err := board(ctx, append([]string{"--in", "boxdyno", "box"}, words...)...); err != nil {
			return 0, err
		}
	}
	run := func(telemetry string, k int) (rate, control float64, err error) {
		out := filepath.Join(dir, fmt.Sprintf("far-%s-%d", telemetry, k))
		if _, err := board(ctx, "--in", "boxdyno", "run", "forward", "--box", name, "--quick", "--quiet", "--repeat", "6", "--telemetry", telemetry,
			"--set", "service=route", "--set", "frame_size=64", "--set", "search=none", "--out", out); err != nil {
			return 0, 0, err
		}
		_, recs, err := result.Open(out)
		if err != nil {
			return 0, 0, err
		}
		var rates []float64
		for _, r := range recs {
			if v := r.Value("forwarding_rate_fps"); v != nil && r.Parent == "" && r.Procedure == "forward" {
				rates = append(rates, v.Value)
			}
		}
		if len(rates) == 0 {
			return 0, 0, fmt.Errorf("%s: nothing was forwarded", out)
		}
		if telemetry != "off" {
			control, err = controlRate(out)
		}
		return stat.Summarize(rates).Center, control, err
	}
	random := rand.New(rand.NewPCG(seed, 3))
	var ratios, controls []float64
	for k := range n {
		var with, without, control float64
		for _, i := range random.Perm(2) {
			if i == 0 {
				without, _, err = run("off", k)
			} else {
				with, control, err = run("10", k)
			}
			if err != nil {
				return 0, err
			}
		}
		ratios, controls = append(ratios, with/without), append(controls, control)
	}
	s := stat.Summarize(ratios)
	fmt.Printf("telemetry of a far box at 10 Hz in %d pairs of runs, seed %d: the forwarding rate with it is %.4f of that without (%.4f to %.4f); messages of both ways take %.0f kbit/s before encryption\n\n", n, seed, s.Center, s.Lo, s.Hi, stat.Summarize(controls).Center/1e3)
	if !s.Sure || (s.Lo > 1 || s.Hi < 1) && (s.Lo < 1-observerRate || s.Hi > 1+observerRate) {
		failed++
	}
	return failed, nil
}

// controlRate is the bits a second of messages between tester and box during the run in dir.
func controlRate(dir string) (float64, error) {
	r, err := result.OpenTelemetry(dir)
	if err != nil {
		return 0, err
	}
	defer r.Close()
	first, last := map[string]float64{}, map[string]float64{}
	var from, to unit.Instant
	for {
		b, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return 0, err
		}
		for i, v := range b.Values {
			name := r.Head.Series[b.First+i].Name
			if !strings.HasPrefix(name, "boxdyno_control_") {
				continue
			}
			if _, ok := first[name]; !ok {
				first[name], from = v, b.At
			}
			last[name], to = v, b.At
		}
	}
	octets := 0.0
	for name := range last {
		octets += last[name] - first[name]
	}
	return octets * 8 / (float64(to-from) / 1e9), nil
}

// pairs are n ratios of the forwarding rate with telemetry to that without.
func pairs(ctx context.Context, dir string, n int, random *rand.Rand) (ratios []float64, err error) {
	bed, err := sandbox(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, bed.Close()) }()
	from, to := bed.Ports[0], bed.Ports[1]
	tx, err := bed.Engine.OpenTransmitter(ctx, []host.Port{from.Port}, bed.TesterCPU)
	if err != nil {
		return nil, err
	}
	defer tx.Close()
	rx, err := bed.Engine.OpenMeter(ctx, to.Port)
	if err != nil {
		return nil, err
	}
	defer rx.Close()
	stream := engine.Stream{ID: 1, Frames: frame.Spec{Sizes: []unit.FrameSize{64}, Flows: 1, SrcMAC: from.MAC, DstMAC: from.GatewayMAC, Src: from.Addr4, Dst: to.Addr4, SrcPort: frame.FirstPort, DstPort: frame.Port}}
	rate := func() (float64, error) {
		if err := rx.Arm(ctx, false, stream.ID); err != nil {
			return 0, err
		}
		if _, err := tx.Transmit(ctx, engine.Load{Duration: 200 * time.Millisecond}, stream); err != nil {
			return 0, err
		}
		r, err := rx.Read(ctx)
		if err != nil {
			return 0, err
		}
		return float64(r.Streams[0].Rate), nil
	}
	b, err := result.Create(filepath.Join(dir, "pairs"), result.Run{Schema: result.Schema})
	if err != nil {
		return nil, err
	}
	defer b.Close()
	watched := func() (r float64, err error) {
		s, err := runner.Watching{}.Start(ctx, bed, telemetry.Options{Origin: unit.Now(), Start: time.Now(), Every: time.Second, Write: b.Sample})
		if err != nil {
			return 0, err
		}
		defer func() { _, cerr := s.Close(); err = errors.Join(err, cerr) }()
		s.Begin()
		s.Traffic(true)
		r, err = rate()
		s.Traffic(false)
		s.End()
		return r, err
	}
	for range n {
		var with, without float64
		for _, k := range random.Perm(2) {
			if k == 0 {
				without, err = rate()
			} else {
				with, err = watched()
			}
			if err != nil {
				return nil, err
			}
		}
		if without == 0 {
			return nil, errors.New("nothing was forwarded")
		}
		ratios = append(ratios, with/without)
	}
	return ratios, nil
}

// sandbox is the routing DUT between the tester's ports.
func sandbox(ctx context.Context) (*lab.Testbed, error) {
	i := slices.IndexFunc(lab.All, func(s lab.Spec) bool { return s.Name == "sandbox" })
	bed, err := lab.All[i].New().Build(ctx)
	if err != nil {
		return nil, err
	}
	if err := bed.Serve(ctx, lab.Service{Kind: "route", Flows: 1}); err != nil {
		return nil, errors.Join(err, bed.Close())
	}
	return bed, nil
}
