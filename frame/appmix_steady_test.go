// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"math"
	"testing"
	"time"

	"boxdyno/unit"
)

// A pass with a duration is steady traffic: its frames are those of conversations
// that go on before it and behind it, and nothing else is missing.
func TestAppMixIsCutOutOfSteadyTraffic(t *testing.T) {
	s, err := NewAppMix(AppMix{Seed: 4, Rate: 200e6, Duration: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	var early, whole, open, flows int
	for _, f := range listen(t, s) {
		flows++
		switch {
		case f.early:
			early++
		case f.closed:
			whole++
			if f.class != 255 {
				if err := speak(s.Shape().Classes[f.class], f); err != nil {
					t.Fatal(err)
				}
			}
		case f.tcp:
			open++
		}
	}
	truth := s.Truth()
	if early < 20 || open < 20 || whole < 200 || uint64(flows) != truth.Early+truth.Flows {
		t.Errorf("%d conversations from before, %d whole, %d that go on, of %d; the truth is %d from before and %d", early, whole, open, flows, truth.Early, truth.Flows)
	}
}

// The rate that was asked holds in every second from the first on.
func TestAppMixIsSteady(t *testing.T) {
	const seconds, rate = 5, 1e9
	seeds := 4
	if testing.Short() {
		seeds = 1
	}
	var sum [seconds]float64
	for seed := range seeds {
		s, err := NewAppMix(AppMix{Seed: uint64(seed), Rate: rate, Duration: seconds * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		var bits [seconds]float64
		drain(t, s, 1<<20, 1<<14, 0, func(e Entry, b []byte) { bits[e.At/1e9] += float64(len(b)+unit.FCS) * 8 })
		t.Logf("seed %d: %.0f Mbit in each second", seed, bits)
		for i, n := range bits {
			sum[i] += n / rate
			if math.Abs(n/rate-1) > 0.15 { // one deviation is 4 %: a transfer of 10 MB is 8 % of a second's octets
				t.Errorf("seed %d: %.0f Mbit in second %d, asked %.0f", seed, n/1e6, i, rate/1e6)
			}
		}
	}
	for i, n := range sum {
		if mean := n / float64(seeds); seeds > 1 && math.Abs(mean-1) > 0.08 {
			t.Errorf("second %d has %.3f of what was asked, in the mean of %d seeds", i, mean, seeds)
		}
	}
}

func TestAppMixRates(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes half a minute on an emulated processor")
	}
	const seconds = 20
	for seed := range uint64(2) {
		s, err := NewAppMix(AppMix{Seed: seed, Rate: 1e9, Duration: seconds * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		truth := s.Truth()
		rate := float64(truth.Octets) * 8 / seconds
		size := float64(truth.Octets) / float64(truth.Frames)
		t.Logf("seed %d: %v, %d flows, mean frame %.0f octets, the last frame after %v", seed, unit.BitRate(rate), truth.Flows, size, truth.Ends)
		if math.Abs(rate-1e9) > 0.05e9 {
			t.Errorf("rate %v, asked 1 Gbit/s", unit.BitRate(rate))
		}
		if math.Abs(size-450) > 0.05*450 {
			t.Errorf("mean frame %.0f octets, want 450", size)
		}
		if truth.Ends >= seconds*time.Second || truth.Ends < (seconds-1)*time.Second {
			t.Errorf("the pass ends after %v", truth.Ends)
		}
		total, all := 0.0, float64(truth.Flows)
		for _, a := range apps {
			total += a.rate
		}
		if math.Abs(all/seconds/total-1) > 0.05 {
			t.Errorf("%.0f flows a second, the model has %.0f at this rate", all/seconds, total)
		}
		within := func(name string, got uint64, want float64) {
			if math.Abs(float64(got)-want) > 4.5*math.Sqrt(want) { // Poisson
				t.Errorf("%d flows of %s, want %.0f", got, name, want)
			}
		}
		within("alert", truth.Classes[len(apps)].Flows, 0.02*all)
		byApp := map[string]float64{}
		for i, a := range Alerts() {
			within(a.Name, truth.Alerts[i], 0.02*all/float64(len(alerts)))
			byApp[a.App] += 0.02 * all / float64(len(alerts))
		}
		for i, a := range apps {
			within(a.name, truth.Classes[i].Flows, 0.98*all*a.rate/total+byApp[a.name])
		}
	}
}

func TestTransferSizes(t *testing.T) {
	if m := transferSize(0.5); m != 12_000 {
		t.Errorf("median %d", m)
	}
	if d := math.Log(float64(transferSize(0.8413))/12_000) - 1.6; math.Abs(d) > 0.01 {
		t.Errorf("sigma is off by %v", d)
	}
	if a, b := transferSize(0.99), transferSize(0.990001); b < a || b > a+a/100 {
		t.Errorf("the tail begins with a step from %d to %d", a, b)
	}
	if m := transferSize(1 - 1e-12); m != 10_000_000 {
		t.Errorf("largest %d", m)
	}
}

// What flows come to is known for each MTU and version of IP by itself.
func TestFlowKindsAreNotMixedUp(t *testing.T) {
	last := 0.0
	for _, key := range []kindsKey{{3000, false}, {1500, false}, {1280, false}, {1280, true}} { // ever more headers
		octets := 0.0
		for _, m := range kindsOf(key).mean {
			octets += m
		}
		if octets <= last {
			t.Errorf("%+v: %v octets, and %v with fewer headers", key, octets, last)
		}
		last = octets
	}
}
