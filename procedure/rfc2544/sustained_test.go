// SPDX-License-Identifier: Apache-2.0

package rfc2544

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"boxdyno/internal/testutil"
	"boxdyno/procedure"
	"boxdyno/procedure/internal/roomtest"
	"boxdyno/result"
)

// A memoryBox is a box with a known limit and a known memory.
type memoryBox struct {
	kind          string
	rate, ceiling float64 // frame/s
	bucket, queue float64 // frames
	policed       bool
}

func (b memoryBox) set() map[string]string {
	s := map[string]string{"ceiling": fmt.Sprint(int(b.ceiling)), "capacity": fmt.Sprint(int(b.rate)), "queue": fmt.Sprint(max(1, int(b.queue)))}
	if b.policed {
		s["capacity"], s["dut.policer"], s["dut.policer_burst"] = "0", fmt.Sprint(int(b.rate)), fmt.Sprint(max(1, int(b.bucket)))
	}
	return s
}

func (b memoryBox) String() string {
	return fmt.Sprintf("%s of %.0f frame/s under %.0f, bucket %.0f, queue %.0f", b.kind, b.rate, b.ceiling, b.bucket, b.queue)
}

// randomBox has a limit of least to most frame/s and a memory of 0 to 250 ms.
func randomBox(rng *rand.Rand, least, most float64) memoryBox {
	b := memoryBox{rate: math.Round(least * math.Exp(rng.Float64()*math.Log(most/least)))}
	b.ceiling = math.Round(b.rate * math.Exp(math.Log(1.5)+rng.Float64()*math.Log(4)))
	memory := b.rate * []float64{0, 0.001, 0.01, 0.1, 0.25, 0.25 * rng.Float64()}[rng.IntN(6)]
	if memory < 8 { // of fewer, the gaps of an overload decide how many pass
		memory = float64(rng.IntN(9))
	}
	if b.policed = rng.IntN(2) == 0; b.policed {
		b.kind, b.bucket = "policer", memory
	} else {
		b.kind, b.queue = "queue", memory
	}
	return b
}

// judged says how far the throughput found is from the truth, and whether the
// outcome claims no more than is true: its interval holds the truth, or a note says
// that trials were too short to know.
func judged(t *testing.T, b memoryBox, out procedure.Outcome, within float64) (off float64, told bool) {
	t.Helper()
	for _, w := range out.Warnings {
		told = told || strings.Contains(w, "too short to know")
	}
	for _, v := range out.Values {
		if v.Metric == "throughput_fps" {
			high := math.Inf(1)
			if v.Hi != nil && v.Bound == result.Exactly {
				high = *v.Hi
			}
			return v.Value/b.rate - 1, told || v.Value <= b.rate*(1+within) && high >= b.rate*(1-within)
		}
	}
	return math.Inf(-1), told || out.Status != result.Passed
}

// Short overloads of a slow box, a frame of which is half a per cent, do not outvote the
// long one that filled it.
func TestSlowBoxWithASmallBucket(t *testing.T) {
	b := memoryBox{kind: "policer", rate: 2743, ceiling: 4437, bucket: 8, policed: true}
	bench := roomtest.NewBench(t, "mem", b.set())
	if off, _ := judged(t, b, bench.Run(ThroughputSpec, nil), 0.01); math.Abs(off) > 0.01 {
		t.Errorf("%v: off by %.4f", b, off)
	}
}

// Sustained limits are found whatever the box's buckets and queues swallow.
func TestSustainedLimits(t *testing.T) {
	testutil.Computed(t)
	for _, c := range []struct {
		search      string
		n           int
		least, most float64
		within      float64
	}{{"quick", 200, 1e3, 40e3, 0.01}, {"csit", 20, 1e3, 5e3, 0.005}} {
		const seed = 21
		rng := rand.New(rand.NewPCG(seed, seed))
		missed, wrong := 0, 0
		begin := time.Now()
		n := testutil.Cases(c.n)
		for i := range n {
			b := randomBox(rng, c.least, c.most)
			out, recs := bench(t, "mem", b.set(), map[string]string{"search": c.search})
			off, told := judged(t, b, out, c.within)
			if math.Abs(off) <= c.within {
				continue
			}
			missed++
			t.Logf("%s, %d: %v: off by %.4f, told %v: %d trials %v", c.search, i, b, off, told, len(recs), out.Warnings)
			if !told {
				wrong++
			}
		}
		t.Logf("%s: of %d limits %d not within %v, %d of them without a word; %v", c.search, n, missed, c.within, wrong, time.Since(begin))
		if missed*20 > n || wrong > 0 {
			t.Errorf("%s: of %d limits %d were missed, %d of them without a word", c.search, n, missed, wrong)
		}
	}
}
