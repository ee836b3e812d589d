// SPDX-License-Identifier: Apache-2.0

package rfc2544

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"boxdyno/internal/testutil"
	"boxdyno/procedure"
	"boxdyno/procedure/internal/roomtest"
	"boxdyno/result"
)

// All procedures of the suite agree about a box of known capacity and queue, and
// search its throughput once.
func TestSuiteOfAKnownBox(t *testing.T) {
	testutil.Computed(t)
	for _, c := range []struct{ capacity, queue, ceiling float64 }{{100e3, 256, 1e6}, {400e3, 1000, 1e6}, {250e3, 64, 500e3}} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			b := roomtest.NewBench(t, "mem", map[string]string{"capacity": fmt.Sprint(c.capacity), "queue": fmt.Sprint(c.queue), "ceiling": fmt.Sprint(c.ceiling)})
			outs := map[string]procedure.Outcome{}
			for _, spec := range []procedure.Spec{BackToBackSpec, ThroughputSpec, LatencySpec, LossCurveSpec, RecoverySpec} {
				outs[spec.Name] = b.Run(spec, nil)
				if o := outs[spec.Name]; o.Status != result.Passed {
					t.Fatalf("%s: %s: %s", spec.Name, o.Status, o.Reason)
				}
			}
			searched := 0
			for _, r := range b.Recs {
				if kind := result.Get(r.Config, "trial"); r.Parent == "throughput" && slices.Contains([]string{"burst", "latency", "loss-curve", "recovery"}, kind) {
					t.Fatalf("a trial %s is kept as one of the throughput's", kind)
				}
				if result.Get(r.Config, "trial") == "search" {
					searched++
				}
				if r.Account.Unexplained != 0 {
					t.Errorf("%v: %d unexplained", r.Config, r.Account.Unexplained)
				}
			}
			if searched == 0 || searched > 26 {
				t.Errorf("%d search trials of one configuration", searched)
			}
			near := func(o procedure.Outcome, metric string, want, tolerance float64) {
				t.Helper()
				if v := roomtest.Figure(t, o, metric); math.Abs(v.Value/want-1) > tolerance {
					t.Errorf("%s is %v, and %v is true", metric, v.Value, want)
				}
			}
			// A queue of q frames lets q/T more through in a trial of T: 0.2 s confirm.
			v := roomtest.Figure(t, outs["throughput"], "throughput_fps")
			if most := c.capacity + c.queue/0.1; *v.Lo > most || v.Hi == nil || *v.Hi < c.capacity || *v.Lo < 0.9*c.capacity {
				t.Errorf("throughput %v to %v of a box of %v", *v.Lo, *v.Hi, c.capacity)
			}
			near(outs["throughput"], "forwarding_rate_fps", c.capacity, 0.01+20*c.queue/c.capacity/1)

			lost := func(offered, seconds float64) float64 { return 1 - (c.capacity+c.queue/seconds)/offered }
			near(outs["loss-curve"], "loss_highest_fps", c.ceiling, 1e-3)
			near(outs["loss-curve"], "loss_ratio", lost(c.ceiling, 0.05), 0.01)
			free, onset := roomtest.Figure(t, outs["loss-curve"], "loss_free_fps").Value, roomtest.Figure(t, outs["loss-curve"], "loss_onset_fps").Value
			if limit := c.capacity + c.queue/0.05; free > limit*1.001 || onset < limit*0.999 || free < 0.9*0.999*onset {
				t.Errorf("the loss curve ends at %v and %v, and the limit in 50 ms is %v", free, onset, limit)
			}

			// The queue fills up at the difference of the rates.
			near(outs["back-to-back"], "back_to_back_frames", c.queue*c.ceiling/(c.ceiling-c.capacity), 0.03)
			near(outs["back-to-back"], "burst_rate_fps", c.ceiling, 0.05)
			buffer := c.queue / c.ceiling
			near(outs["back-to-back"], "buffer_time_corrected_s", buffer, 0.15)

			// When the load drops, the last frame that the full queue took is
			// forwarded a whole queue later; none is lost from then on.
			near(outs["recovery"], "recovery_s", c.queue/c.capacity, 0.08)
			if v := roomtest.Figure(t, outs["latency"], "latency_max_s").Value; v < 1/c.capacity || v > c.queue/c.capacity*1.1 {
				t.Errorf("latency up to %v of a box whose queue lasts %v", v, c.queue/c.capacity)
			}
		})
	}
}

// A box that loses at every load has no throughput, no recovery, and a loss curve.
func TestSuiteOfALossyBox(t *testing.T) {
	testutil.Computed(t)
	b := roomtest.NewBench(t, "mem", map[string]string{"capacity": "200000", "loss": "0.1"})
	for _, spec := range []procedure.Spec{ThroughputSpec, LatencySpec, RecoverySpec, LossCurveSpec} {
		if o := b.Run(spec, nil); o.Status != result.Failed || o.Reason == "" {
			t.Errorf("%s: %s: %s", spec.Name, o.Status, o.Reason)
		}
	}
	o := b.Run(LossCurveSpec, nil)
	if v := roomtest.Figure(t, o, "loss_ratio").Value; math.Abs(v-0.8) > 0.05 {
		t.Errorf("loss ratio %v", v)
	}
	for _, v := range o.Values {
		if v.Metric == "loss_free_fps" {
			t.Errorf("a box that loses at every load is free of loss at %v", v.Value)
		}
	}
}

// A box that the tester cannot overload says so.
func TestSuiteOfAFastBox(t *testing.T) {
	testutil.Computed(t)
	b := roomtest.NewBench(t, "mem", map[string]string{"capacity": "900000", "ceiling": "100000"})
	if v := roomtest.Figure(t, b.Run(BackToBackSpec, nil), "back_to_back_frames"); v.Bound != result.AtLeast || v.Value != 10_000 {
		t.Errorf("back-to-back %+v, and 0.1 s at 100 kframe/s is the longest that was tried", v)
	}
	if v := roomtest.Figure(t, b.Run(LossCurveSpec, nil), "loss_free_fps"); v.Bound != result.AtLeast {
		t.Errorf("loss-free at %+v", v)
	}
	if o := b.Run(RecoverySpec, nil); o.Status != result.Invalid || !strings.Contains(o.Reason, "lost nothing") {
		t.Errorf("recovery: %s: %s", o.Status, o.Reason)
	}
}

// On a link with a stated rate, bursts and the curve begin at line rate.
func TestSuiteAtLineRate(t *testing.T) {
	testutil.Computed(t)
	b := roomtest.NewBench(t, "mem", map[string]string{"capacity": "100000", "queue": "300", "link_rate": "100Mbps"})
	const line = 100e6 / 8 / 84
	if v := roomtest.Figure(t, b.Run(LossCurveSpec, nil), "loss_highest_fps").Value; math.Abs(v/line-1) > 1e-3 {
		t.Errorf("the loss curve begins at %v, and line rate is %v", v, line)
	}
	if v := roomtest.Figure(t, b.Run(BackToBackSpec, nil), "back_to_back_frames").Value; math.Abs(v/(300*line/(line-100e3))-1) > 0.04 {
		t.Errorf("back-to-back %v", v)
	}
}

// Frames too small for IPv6 are substituted, and the outcome says so.
func TestSuiteSubstitutes(t *testing.T) {
	testutil.Computed(t)
	b := roomtest.NewBench(t, "mem", nil)
	o := b.Run(ThroughputSpec, map[string]string{"ip": "6", "frame_size": "64"})
	if !strings.Contains(strings.Join(o.Warnings, "\n"), "84 octets take the place") {
		t.Errorf("%v", o.Warnings)
	}
	for _, r := range b.Recs {
		if r.Load.MeanSize != 84 {
			t.Fatalf("%v: frames of %v octets", r.Config, r.Load.MeanSize)
		}
	}
}

func TestBurstSearch(t *testing.T) {
	for _, guess := range []uint64{0, 1, 90, 5000} {
		for _, limit := range []uint64{0, 1, 2, 63, 64, 65, 100, 999, 9_999, 10_000} {
			s := burstSearch{most: 10_000, width: 0.01, guess: guess}
			n := 0
			for ; !s.over() && n < 100; n++ {
				at := s.next()
				if at < 1 || at > s.most {
					t.Fatalf("limit %d, guess %d: a burst of %d", limit, guess, at)
				}
				s.add(at <= limit)
			}
			if n > 24 || s.clean > limit || float64(limit-s.clean) > max(1, 0.01*float64(limit)) {
				t.Errorf("limit %d, guess %d: %d after %d trials", limit, guess, s.clean, n)
			}
		}
	}
}
