// SPDX-License-Identifier: Apache-2.0

package security

import (
	"context"
	"flag"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"boxdyno/internal/testutil"
	"boxdyno/lab"
	"boxdyno/procedure"
	"boxdyno/procedure/internal/roomtest"
	"boxdyno/result"
)

// phasesOf is the trial with the phases.
func phasesOf(t *testing.T, b *roomtest.Bench) result.Record {
	t.Helper()
	for _, r := range b.Recs {
		if result.Get(r.Config, "trial") == "phases" {
			return r
		}
	}
	t.Fatal("there is no trial with phases")
	return result.Record{}
}

// checkTurns holds what the sender reports of each stage against its schedule. Good
// and known-bad frames take turns, a good one first, in every stage anew: so of an
// odd number one more is good, and of an even number as many are bad, wherever the
// stage ends.
func checkTurns(t *testing.T, b *roomtest.Bench, r result.Record) {
	t.Helper()
	stages := securityEffortOf("quick").stages(1)
	var a result.Account
	for i, part := range b.Sent[len(b.Sent)-len(stages):] {
		var issued, intended [2]uint64
		for j, s := range part.Reports {
			issued[j], intended[j] = s.Accepted+s.Refused, s.Intended
			if issued[j]+s.NotSent != intended[j] {
				t.Errorf("stage %d, stream %d: %d issued and %d not sent of %d", i, j, issued[j], s.NotSent, intended[j])
			}
			a.Intended, a.Accepted = a.Intended+int64(s.Intended), a.Accepted+int64(s.Accepted)
			a.Refused, a.NotSent = a.Refused+int64(s.Refused), a.NotSent+int64(s.NotSent)
		}
		if all := issued[0] + issued[1]; issued[0] != all-all/2 {
			t.Errorf("%s, stage %d: %d good and %d bad frames do not take turns", stages[i].phase, i, issued[0], issued[1])
		}
		// A frame is due each 1/rate from 0 on, as long as the stage lasts; a stage may
		// round them to whole turns.
		due := 2 * float64(part.Load.Rate) * part.Load.Duration.Seconds()
		if all := float64(intended[0] + intended[1]); math.Abs(all-due) > 1+1e-6*due || intended[0]-intended[1] > 1 {
			t.Errorf("%s, stage %d: %d good and %d bad frames are intended, and %v are due", stages[i].phase, i, intended[0], intended[1], due)
		}
	}
	if got := r.Account; a.Intended != got.Intended || a.Accepted != got.Accepted || a.Refused != got.Refused || a.NotSent != got.NotSent {
		t.Errorf("the stages come to %+v, and the account says %+v", a, got)
	}
}

// checkPhases holds the figures of a security point against its trial's.
func checkPhases(t *testing.T, b *roomtest.Bench, o procedure.Outcome) result.Record {
	t.Helper()
	r := phasesOf(t, b)
	if r.Account.Unexplained != 0 {
		t.Errorf("%d unexplained: %+v", r.Account.Unexplained, r.Account)
	}
	var names []string
	var sent, bad, lost, leaked int64
	for i, k := range r.KPIs {
		names = append(names, k.Phase)
		sent, bad, lost, leaked = sent+k.Sent, bad+k.BadSent, lost+k.Lost, leaked+k.BadArrived
		if k.End <= k.Begin || i > 0 && k.Begin < r.KPIs[i-1].End {
			t.Errorf("phase %s from %d to %d", k.Phase, k.Begin, k.End)
		}
	}
	if got := fmt.Sprint(names); got != "[initialise ramp up sustain ramp down]" {
		t.Fatalf("phases %s", got)
	}
	checkTurns(t, b, r)
	if a := r.Account; sent+bad != a.Accepted || sent-lost+leaked != a.Received-a.Duplicate {
		t.Errorf("the phases sent %d good and %d bad frames of %d, and %d arrived of %d", sent, bad, a.Accepted, sent-lost+leaked, a.Received)
	}
	if roomtest.Figure(t, o, "known_bad_sent").Value != float64(bad) || roomtest.Figure(t, o, "known_bad_arrived").Value != float64(leaked) {
		t.Errorf("%d good, %d bad, %d came through: %+v of %+v", sent, bad, leaked, o.Values, r.Account)
	}
	var sampled, sampledLost, sampledLeaked int64
	for i, s := range r.Samples {
		sampled, sampledLost, sampledLeaked = sampled+s.Sent, sampledLost+s.Lost, sampledLeaked+s.BadArrived
		if s.End <= s.Begin || i > 0 && s.Begin != r.Samples[i-1].End {
			t.Errorf("sample %d of %d is from %d to %d", i, len(r.Samples), s.Begin, s.End)
		}
	}
	// What was under way at the end was not sampled.
	if sampled > sent || float64(sampled) < 0.98*float64(sent) || sampledLost > lost || sampledLeaked > leaked {
		t.Errorf("samples have %d of %d frames, %d of %d lost, %d of %d bad", sampled, sent, sampledLost, lost, sampledLeaked, leaked)
	}
	return r
}

// A box in memory forwards what is good and blocks what is bad.
func TestSecurity(t *testing.T) {
	testutil.Computed(t)
	for name, set := range map[string]map[string]string{
		"share": nil, "rate": {"load": "90k", "flows": "1500"}, "ipv6": {"ip": "6", "load": "50k"}, "back": {"direction": "wan-to-lan", "load": "50k", "frame_size": "imix"},
	} {
		t.Run(name, func(t *testing.T) {
			b := roomtest.NewBench(t, "mem", map[string]string{"capacity": "200000", "delay": "100us"})
			o := b.Run(SecuritySpec, set)
			if o.Status != result.Passed || len(o.Warnings) > 1 {
				t.Fatalf("%s: %s %v", o.Status, o.Reason, o.Warnings)
			}
			r := checkPhases(t, b, o)
			if v := roomtest.Figure(t, o, "known_bad_blocked").Value; v != roomtest.Figure(t, o, "known_bad_sent").Value || v == 0 {
				t.Errorf("%v blocked", v)
			}
			load := map[string]float64{"": 0.8 * 200e3, "90k": 90e3, "50k": 50e3}[set["load"]]
			offered := roomtest.Figure(t, o, "sustain_offered_fps")
			if math.Abs(offered.Value/(load/2)-1) > 0.05 {
				t.Errorf("%v good frames a second are half of %v", offered.Value, load)
			}
			if v := roomtest.Figure(t, o, "sustain_loss_ratio").Value; v != 0 {
				t.Errorf("loss ratio %v", v)
			}
			low, high := roomtest.Figure(t, o, "sustain_latency_min_s").Value, roomtest.Figure(t, o, "sustain_latency_max_s").Value
			if low < 100e-6 || low > 115e-6 || high < low || high > 150e-6 {
				t.Errorf("delays from %v to %v of a box that delays by 100 us and 5 us a frame", low, high)
			}
			if searched := set["load"] == ""; searched != (b.Own["throughput"] > 0) {
				t.Errorf("%d trials of the throughput", b.Own["throughput"])
			}
			if len(r.Samples) < len(r.KPIs) { // virtual time passes between two looks
				t.Errorf("%d samples", len(r.Samples))
			}
		})
	}
}

// A box that lets some known-bad frames through has failed, and it is said how many.
func TestSecurityOfALeakyBox(t *testing.T) {
	b := roomtest.NewBench(t, "mem", map[string]string{"capacity": "200000"})
	b.Serving(func(ctx context.Context, inner lab.Server, s lab.Service) error {
		s.Block = false
		return inner.Serve(ctx, s)
	})
	o := b.Run(SecuritySpec, map[string]string{"load": "50k"})
	checkPhases(t, b, o)
	want := fmt.Sprintf("%.0f of %.0f known-bad frames came through", roomtest.Figure(t, o, "known_bad_arrived").Value, roomtest.Figure(t, o, "known_bad_sent").Value)
	if o.Status != result.Failed || o.Reason != want || roomtest.Figure(t, o, "known_bad_arrived").Value == 0 || roomtest.Figure(t, o, "known_bad_blocked").Value != 0 {
		t.Errorf("%s: %s; want %s: %+v", o.Status, o.Reason, want, o.Values)
	}
	if !strings.Contains(strings.Join(o.Warnings, "\n"), "the ledger says where") {
		t.Errorf("%v", o.Warnings)
	}
}

// A box that is overloaded, or loses at random, has failed; one that loses fewer
// than one frame in 100,000 has not.
func TestSecurityOfALossyBox(t *testing.T) {
	testutil.Computed(t)
	for _, c := range []struct {
		bed  map[string]string
		load string
		want result.Status
		loss float64
	}{
		{map[string]string{"capacity": "200000"}, "300k", result.Failed, 1.0 / 3},
		{map[string]string{"lose_every": "1001"}, "50k", result.Failed, 1.0 / 1001},
		{map[string]string{"lose_every": "200001"}, "100k", result.Passed, 1.0 / 200001},
	} {
		b := roomtest.NewBench(t, "mem", c.bed)
		o := b.Run(SecuritySpec, map[string]string{"load": c.load})
		r := checkPhases(t, b, o)
		if o.Status != c.want {
			t.Errorf("%v: %s: %s", c, o.Status, o.Reason)
		}
		// The count of every Nth may fall on the bad frames a little more often.
		if v := roomtest.Figure(t, o, "sustain_loss_ratio").Value; v > 2*c.loss || c.loss > 1e-4 && v < 0.9*c.loss {
			t.Errorf("%v: loss ratio %v", c, v)
		}
		for _, k := range r.KPIs {
			if k.Phase == "initialise" && k.Lost > 5 {
				t.Errorf("%v: %d of %d frames were lost at a hundredth of the load", c, k.Lost, k.Sent)
			}
		}
	}
}

func TestSecurityChecks(t *testing.T) {
	p := newSecurity()
	fs := flag.NewFlagSet("", flag.ContinueOnError)
	p.Flags(fs)
	for _, bad := range []string{"", "0", "0%", "-5%", "5", "2000%", "2G", "fast", "80 % of it"} {
		if fs.Set("load", bad) == nil {
			t.Errorf("load=%s was taken", bad)
		}
	}
	for in, want := range map[string]string{"80%": "80%", "12.5%": "12.5%", "200k": "200000", "1k": "1000", "150.5k": "150500"} {
		if err := fs.Set("load", in); err != nil || fs.Lookup("load").Value.String() != want {
			t.Errorf("load=%s is %s (%v)", in, fs.Lookup("load").Value, err)
		}
	}
	if err := fs.Set("direction", "both"); err != nil {
		t.Fatal(err)
	}
	if err := p.Check(nil); err == nil || !strings.Contains(err.Error(), "one way") {
		t.Errorf("direction both: %v", err)
	}
	if e := securityEffortOf("standard"); e.sustain < 300*time.Second || e.sample > 2*time.Second {
		t.Errorf("the standard sustains for %v with samples of %v", e.sustain, e.sample)
	}
}

// In the sandbox nft throws exactly the known-bad frames away.
func TestSandboxSecurity(t *testing.T) {
	testutil.Privileged(t)
	testutil.Alone(t)
	testutil.TwoCPUs(t) // on one, no load is sustained
	for _, set := range []map[string]string{{"load": "20k", "rules": "10"}, {"load": "20k", "ip": "6", "frame_size": "84", "direction": "wan-to-lan", "flows": "5000"}} {
		t.Run(fmt.Sprint(set), func(t *testing.T) {
			if set["ip"] == "6" {
				testutil.Long(t)
			}
			b := roomtest.NewBench(t, "sandbox", nil)
			o := b.Run(SecuritySpec, set)
			r := checkPhases(t, b, o)
			sent, arrived := roomtest.Figure(t, o, "known_bad_sent").Value, roomtest.Figure(t, o, "known_bad_arrived").Value
			if arrived != 0 || sent == 0 {
				t.Errorf("%v known-bad frames of %v came through", arrived, sent)
			}
			if v := roomtest.Figure(t, o, "sustain_forwarded_fps"); v.N < 3 || *v.Lo > *v.Hi || *v.Hi < v.Value*0.9 {
				t.Errorf("%d of %d samples lie within the phase sustain: %+v", v.N, len(r.Samples), v)
			}
			// Those that a stall of the machine lost on the way did not come to the rule.
			var elsewhere int64
			for _, d := range r.Account.Drops {
				if d.Place != result.NFT {
					elsewhere += d.N
				}
			}
			if blocked := roomtest.Figure(t, o, "known_bad_blocked").Value; blocked > sent || blocked < sent-float64(elsewhere) {
				t.Errorf("%v of %v blocked, %d dropped elsewhere: %+v", blocked, sent, elsewhere, r.Account.Drops)
			}
		})
	}
}
