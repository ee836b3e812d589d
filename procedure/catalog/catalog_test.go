// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"errors"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"boxdyno/procedure"
	"boxdyno/result"
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
