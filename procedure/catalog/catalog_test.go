// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"errors"
	"flag"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"boxdyno/procedure"
	"boxdyno/result"
	"boxdyno/unit"
)

// Every procedure has the parameters, but those that say that they stand alone; a
// dependent one stays dependent.
func TestAllTakeALoadBeside(t *testing.T) {
	var alone []string
	for _, s := range All {
		p := s.New()
		fs := flag.NewFlagSet("", flag.ContinueOnError)
		p.Flags(fs)
		for _, q := range result.Alone {
			f := fs.Lookup(q.Key)
			if (f == nil) != s.Alone || f != nil && f.DefValue != q.Value {
				t.Errorf("%s: parameter %s is %+v", s.Name, q.Key, f)
			}
		}
		d, ok := p.(procedure.Dependent)
		if on := ok && d.Upon() == "throughput"; on != slices.Contains([]string{"throughput", "latency", "loss-curve", "back-to-back", "recovery", "security"}, s.Name) {
			t.Errorf("%s builds upon the throughput: %v", s.Name, on)
		}
		if s.Alone {
			alone = append(alone, s.Name)
			continue
		}
		trials, d0 := p.Estimate()
		if err := errors.Join(fs.Set("heat", "10m"), fs.Set("beside", "cpu:1")); err != nil {
			t.Fatal(err)
		}
		if n, d := p.Estimate(); n != trials || d < d0+10*time.Minute {
			t.Errorf("%s heated takes %d trials and %v, and else %d and %v", s.Name, n, d, trials, d0)
		}
	}
	if want := strings.Fields("self-test infer cpu hash memory codec hpl crypto storage soak stream vpn"); !slices.Equal(slices.Sorted(slices.Values(alone)), slices.Sorted(slices.Values(want))) {
		t.Errorf("procedures stand alone: %v, want %v", alone, want)
	}
}

// A budget divides a point's time by its visits: what surrounds a procedure must not hide
// them.
func TestAllTellTheirVisits(t *testing.T) {
	for name, most := range map[string]int{"forward": 2, "capture": 2, "ids": 2, "latency": 1} {
		i := slices.IndexFunc(All, func(s procedure.Spec) bool { return s.Name == name })
		p, ok := All[i].New().(procedure.Paused)
		if !ok || most > 1 && p.Visits() < most || most == 1 && p.Visits() != 1 {
			t.Errorf("%s: %v visits", name, p)
		}
	}
}

// What joules are spent on is shown as it is declared.
func TestJoulesAreOfWords(t *testing.T) {
	for _, s := range All {
		for _, j := range s.Joules {
			if strings.Trim(j.Per, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ ") != "" || j.Per == "" || j.Rate == nil {
				t.Errorf("%s: joules for each %q", s.Name, j.Per)
			}
		}
	}
}

// What joules are divided by: the work that a trial did a second while its load ran.
func TestJoulesOfTrials(t *testing.T) {
	point := result.Record{Values: []result.Value{{Metric: "throughput_fps", Value: 100e3}}}
	of := func(status result.Status, words string, intended, forwarded unit.FrameRate) result.Record {
		r := result.Record{Status: status, Load: &result.Load{Intended: intended, Forwarded: forwarded, MeanSize: 500},
			Account: &result.Account{Drops: []result.Term{{Place: result.NFT, N: 600}}}, Phases: []result.Phase{{Name: "traffic", Begin: 1e9, End: 1.5e9}}}
		for _, w := range strings.Split(words, ", ") {
			k, v, _ := strings.Cut(w, "=")
			r.Config = append(r.Config, result.Pair{Key: k, Value: v})
		}
		return r
	}
	with := func(status result.Status, words, metric string, value float64) result.Record {
		r := of(status, words, 0, 0)
		r.Values = []result.Value{{Metric: metric, Value: value}}
		return r
	}
	const overload, near, carried, set = "under overload", "without loss, within 5 % of the throughput", "at the highest load carried", "at the load that was set"
	for _, c := range []struct {
		procedure, per, when string
		trial                result.Record
		want                 float64
	}{
		{"forward", "frame", overload, of(result.Failed, "trial=overload, service=route", 0, 120e3), 120e3},
		{"forward", "frame", overload, of(result.Failed, "trial=overload, service=drop-nft", 0, 0), 1200},
		{"forward", "frame", overload, of(result.Invalid, "trial=overload, service=route", 0, 120e3), 0},
		{"forward", "frame", overload, of(result.Passed, "trial=search, service=route", 98e3, 98e3), 0},
		{"throughput", "frame", near, of(result.Passed, "trial=search, service=route", 98e3, 98e3), 98e3},
		{"throughput", "frame", near, of(result.Passed, "trial=search, service=route", 90e3, 90e3), 0},
		{"throughput", "frame", near, of(result.Failed, "trial=search, service=route", 98e3, 98e3), 0},
		{"capture", "frame", set, of(result.Failed, "trial=rate", 0, 50e3), 50e3},
		{"capture", "frame", carried, of(result.Passed, "trial=limit", 0, 50e3), 50e3},
		{"capture", "frame", carried, of(result.Failed, "trial=limit", 0, 50e3), 0},
		{"ids", "inspected megabit", overload, of(result.Failed, "trial=overload", 0, 1e3), 4},
		{"connections", "connection", overload, of(result.Failed, "trial=overload", 0, 700), 700},
		{"crypto", "encrypted MiB", "while it encrypted", with(result.Passed, "", "encrypt_bytes_per_s", 10<<20), 10},
		{"crypto", "encrypted MiB", "while it encrypted", with(result.Invalid, "", "encrypt_bytes_per_s", 10<<20), 0},
		{"storage", "encrypted MiB", "while it was written", with(result.Passed, "", "luks2_write_octet_rate", 5<<20), 5},
		{"vpn", "tunnel gigabyte", "while streams ran", with(result.Passed, "trial=stream", "goodput_bps", 4e9), 0.5},
		{"vpn", "tunnel gigabyte", "while streams ran", with(result.Passed, "trial=stream without", "goodput_bps", 4e9), 0},
		{"stream", "gigabyte", "while streams ran", with(result.Passed, "", "goodput_bps", 4e9), 0.5},
		{"hpl", "GFLOP", "", with(result.Passed, "", "hpl_rate", 7e9), 7},
		{"cpu", "million Dhrystones", "", with(result.Passed, "", "dhrystones_per_s", 3e6), 3},
		{"hash", "gigabyte", "", with(result.Passed, "", "hash_rate", 2e9), 2},
		{"memory", "gigabyte", "", with(result.Passed, "", "memory_copy_rate", 2e9), 2},
		{"codec", "second of music", "", with(result.Passed, "", "codec_speed", 40), 40},
	} {
		i := slices.IndexFunc(All, func(s procedure.Spec) bool { return s.Name == c.procedure })
		got, found := 0.0, false
		for _, j := range All[i].Joules {
			if j.Per == c.per && j.When == c.when {
				found = true
				got += j.Rate(point, c.trial)
			}
		}
		if !found || math.Abs(got-c.want) > 1e-9*c.want {
			t.Errorf("%s: %g %s a second %s of %v, want %g (declared: %v)", c.procedure, got, c.per, c.when, c.trial.Config, c.want, found)
		}
	}
}

// parameters are those that records have had since runs are kept: their names, by procedure.
const parametersFile = "testdata/parameters.txt"

// A parameter that a procedure gained later is one of result.Unsaid with its default. Else
// no run of before could be compared with one of now, and no history would go on.
func TestNewParametersAreUnsaid(t *testing.T) {
	data, err := os.ReadFile(parametersFile)
	if err != nil {
		t.Fatal(err)
	}
	since := map[string][]string{}
	for line := range strings.Lines(string(data)) {
		name, keys, _ := strings.Cut(strings.TrimSpace(line), ":")
		since[name] = strings.Fields(keys)
	}
	for _, s := range All {
		first, ok := since[s.Name]
		if !ok {
			t.Errorf("%s has no line in %s", s.Name, parametersFile)
		}
		fs := flag.NewFlagSet("", flag.ContinueOnError)
		s.New().Flags(fs)
		fs.VisitAll(func(f *flag.Flag) {
			if !slices.Contains(first, f.Name) && !slices.Contains(result.Unsaid, result.Pair{Key: f.Name, Value: f.DefValue}) {
				t.Errorf("%s has the new parameter %s=%s, which is not in result.Unsaid", s.Name, f.Name, f.DefValue)
			}
		})
	}
}
