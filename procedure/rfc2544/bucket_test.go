// SPDX-License-Identifier: Apache-2.0

package rfc2544

import (
	"fmt"
	"math"
	"testing"

	"boxdyno/internal/testutil"
	"boxdyno/procedure/internal/roomtest"
	"boxdyno/result"
)

// What a token bucket of a rate and a burst does to a load is known: so many frames
// of a burst at load pass, and a share of a trial's frames is lost.
func bucketPasses(rate, burst, load float64) float64 { return burst * load / (load - rate) }

func bucketLoses(rate, burst, load, seconds float64) float64 {
	return 1 - rate/load - burst/(load*seconds)
}

// checkBucket holds what the suite's procedures say of a box with a token bucket
// against each other and against the truth, within tolerance.
func checkBucket(t *testing.T, b *roomtest.Bench, rate, burst, tolerance float64) {
	t.Helper()
	near := func(what string, got, want, tolerance float64) {
		t.Helper()
		if math.Abs(got/want-1) > tolerance {
			t.Errorf("bucket of %v and %v frames: %s is %v, and %v is true", rate, burst, what, got, want)
		}
	}
	bursts := b.Run(BackToBackSpec, nil)
	load := roomtest.Figure(t, bursts, "burst_rate_fps").Value
	near("back-to-back", roomtest.Figure(t, bursts, "back_to_back_frames").Value, bucketPasses(rate, burst, load), tolerance)

	through := b.Run(ThroughputSpec, nil)
	v := roomtest.Figure(t, through, "throughput_fps")
	if most := rate + burst/0.1; v.Hi == nil || *v.Lo > most*(1+tolerance) || *v.Hi < rate*(1-tolerance) {
		t.Errorf("bucket of %v and %v frames: throughput %+v", rate, burst, v)
	}

	b.Run(LossCurveSpec, nil)
	lossy := 0
	for _, r := range b.Recs {
		if result.Get(r.Config, "trial") != "loss-curve" || r.Status == result.Invalid {
			continue
		}
		offered := float64(r.Load.Offered)
		want := bucketLoses(rate, burst, offered, float64(r.Account.Accepted)/offered)
		got := float64(r.Account.Lost()) / float64(r.Account.Accepted)
		if want > 0.02 {
			lossy++
		}
		if math.Abs(got-max(want, 0)) > tolerance/2 {
			t.Errorf("bucket of %v and %v frames: at %v a share of %v is lost, and %v is true", rate, burst, offered, got, want)
		}
	}
	if lossy < 3 {
		t.Errorf("bucket of %v and %v frames: %d loads of the curve are lossy", rate, burst, lossy)
	}

	// A bucket keeps no frame: as soon as the load is below its rate none is lost.
	recovery := b.Run(RecoverySpec, nil)
	if recovery.Status != result.Passed {
		t.Errorf("recovery: %s: %s", recovery.Status, recovery.Reason)
	} else if v := roomtest.Figure(t, recovery, "recovery_s").Value; v > 1e-3 {
		t.Errorf("bucket of %v and %v frames: recovery takes %v s", rate, burst, v)
	}
}

// The suite agrees about a policer in memory, and moves as its burst does.
func TestSuiteOfATokenBucket(t *testing.T) {
	testutil.Computed(t)
	for _, burst := range []float64{50, 200, 1500} {
		t.Run(fmt.Sprint(burst), func(t *testing.T) {
			b := roomtest.NewBench(t, "mem", map[string]string{"capacity": "0", "ceiling": "1000000", "dut.policer": "187000", "dut.policer_burst": fmt.Sprint(burst)})
			checkBucket(t, b, 187e3, burst, 0.04)
		})
	}
}
