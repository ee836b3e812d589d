// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"errors"
	"flag"
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
