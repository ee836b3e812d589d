// SPDX-License-Identifier: Apache-2.0

package result

import "testing"

func TestQuantile(t *testing.T) {
	h := &Histogram{Upper: []float64{1e-6, 2e-6, 5e-6}, Count: []uint64{50, 49, 1}}
	for q, want := range map[float64]float64{0: 1e-6, 0.5: 1e-6, 0.501: 2e-6, 0.99: 2e-6, 0.999: 5e-6, 1: 5e-6} {
		if got := h.Quantile(q); got != want {
			t.Errorf("quantile %v: %v, want %v", q, got, want)
		}
	}
	if n := h.Total(); n != 100 {
		t.Errorf("total %d", n)
	}
	if got := (&Histogram{Upper: []float64{1, 2}, Count: []uint64{0, 3}}).Quantile(0); got != 2 {
		t.Errorf("an empty bucket has the least sample: %v", got)
	}
	for _, none := range []*Histogram{{}, {Upper: []float64{1}, Count: []uint64{0}}} {
		if got := none.Quantile(0.5); got != 0 {
			t.Errorf("no samples: %v", got)
		}
	}
}

func TestAccountSums(t *testing.T) {
	a := Account{Accepted: 100, Received: 90, Drops: []Term{
		{Place: DUTNIC, N: 4}, {Place: NFT, N: 5}, {Place: DUTNIC, N: 3}, {Place: Qdisc, N: -2},
	}, Passed: []Term{{Place: DUTNIC, N: 96}}}
	if n := a.Dropped(); n != 10 {
		t.Errorf("dropped %d", n)
	}
	for place, want := range map[Place]int64{DUTNIC: 7, NFT: 5, Qdisc: -2, Socket: 0} {
		if n := a.DroppedAt(place); n != want {
			t.Errorf("dropped at %s: %d, want %d", place, n, want)
		}
	}
	if n := a.Lost(); n != 10 {
		t.Errorf("lost %d", n)
	}
	if n := (&Account{Accepted: 1, Received: 2}).Lost(); n != -1 {
		t.Errorf("one too many arrived: lost %d", n)
	}
}

func TestGet(t *testing.T) {
	ps := []Pair{{"size", "64"}, {"empty", ""}, {"size", "128"}}
	for key, want := range map[string]string{"size": "64", "empty": "", "siz": ""} {
		if got := Get(ps, key); got != want {
			t.Errorf("%s: %q, want %q", key, got, want)
		}
	}
}

func TestRecordValue(t *testing.T) {
	r := Record{Values: []Value{{Metric: "a", Value: 1}, {Metric: "b", Value: 2}}}
	if v := r.Value("b"); v == nil || v != &r.Values[1] {
		t.Errorf("b: %+v", v)
	}
	if v := r.Value("c"); v != nil {
		t.Errorf("c: %+v", v)
	}
}

func TestFinished(t *testing.T) {
	for status, want := range map[Status]bool{Running: false, Aborted: false, Passed: true, Failed: true, Invalid: true, Skipped: true} {
		if r := (Record{Status: status}); r.Finished() != want {
			t.Errorf("%s: %v", status, !want)
		}
	}
}
