// SPDX-License-Identifier: Apache-2.0

package reference

import (
	"bytes"
	"math"
	"os"
	"testing"
)

// Every figure is whole and has a source, every source has figures, and what is known
// to be unfair in a figure is said with it.
func TestFigures(t *testing.T) {
	used := map[string]bool{}
	for i, f := range Figures() {
		if f.Source == "" || f.Experiment == "" || f.Subject == "" || f.Metric == "" || math.IsNaN(f.Value) || math.IsInf(f.Value, 0) {
			t.Errorf("figure %d is not whole: %+v", i+1, f)
		}
		s, ok := SourceOf(f.Source)
		if !ok {
			t.Errorf("figure %d: source %q does not exist", i+1, f.Source)
		}
		used[f.Source] = true
		for _, l := range f.Levels {
			if l.Value == "" {
				t.Errorf("figure %d: factor %s has no level", i+1, l.Factor)
			}
		}
		if said := f.Said(); len(f.Note) > 0 && len(said) < len(f.Note) || s.Caution != "" && len(said) < len(s.Caution) {
			t.Errorf("figure %d: %q leaves out its note %q or %q", i+1, said, f.Note, s.Caution)
		}
	}
	if len(Figures()) < 1000 {
		t.Errorf("%d figures", len(Figures()))
	}
	for _, s := range sources() {
		if !used[s.ID] || s.What == "" || s.Where == "" {
			t.Errorf("source %+v: it has no figures (%v), or does not say what and where", s, used[s.ID])
		}
	}
	if _, ok := SourceOf("nobody"); ok {
		t.Error("a source that nobody published exists")
	}
}

// Figures are found by what they were measured at.
func TestOf(t *testing.T) {
	for _, c := range []struct {
		experiment, subject string
		levels              []Level
		metric              string
		want                float64
	}{
		{"capture_fixed_count", "pyshark", []Level{{"packets", "4000"}, {"udp_payload_bytes", "724"}}, "packets_counted_mean", 2192.4},
		{"capture_fixed_rate_10s", "scapy", []Level{{"rate_mbit", "1"}, {"udp_payload_bytes", "48"}}, "cpu_percent_mean", 20.92},
		{"capture_fixed_count", "Pypcap-dpkt", []Level{{"packets", "1000"}, {"udp_payload_bytes", "148"}}, "packets_counted_mean", 0},
	} {
		found := 0
		for _, f := range Of(c.experiment, c.subject, c.levels...) {
			if f.Metric != c.metric {
				continue
			}
			if found++; c.want != 0 && f.Value != c.want {
				t.Errorf("%s of %s is %v, not %v", c.metric, c.subject, f.Value, c.want)
			}
			if f.Said() == "" {
				t.Errorf("%s of %s: nothing is said of it", c.metric, c.subject)
			}
		}
		if found != 1 {
			t.Errorf("%v: %d figures", c, found)
		}
	}
	if fs := Of("capture_fixed_count", "tcpdump"); len(fs) != 0 {
		t.Errorf("figures of a subject that was not measured: %v", fs)
	}
}

// The figures are those that were handed to the project, where those are at hand.
func TestHandedOver(t *testing.T) {
	want, err := os.ReadFile("../../shared/reference/figures.csv")
	if os.IsNotExist(err) {
		t.Skip("the file that the figures were taken from is not here")
	}
	if err != nil {
		t.Fatal(err)
	}
	got, err := files.ReadFile("figures.csv")
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("figures.csv is not the file that was handed over (%v)", err)
	}
}
