// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"

	"golang.org/x/perf/benchfmt"

	"boxdyno/report"
	"boxdyno/report/text"
	"boxdyno/result"
)

// TestBenchReadsBack reads what Bench writes with the package that benchstat
// reads with: every figure of every valid point, under its own unit.
func TestBenchReadsBack(t *testing.T) {
	sides := inTurn(rand.New(rand.NewPCG(1, 1)), 3, 0.9, 0.02)
	sides[0].Runs[1].Records[0].Status = result.Invalid
	sides[0].Runs[2].Records[0].Value("forwarding_rate_fps").Bound = result.AtLeast
	sides[1].Runs[0].Document.Environment = append(sides[1].Runs[0].Document.Environment, report.Setting{Key: "CPUs online", Before: "0-1"})
	var b bytes.Buffer
	if err := text.BenchSides(&b, sides); err != nil {
		t.Fatal(err)
	}
	var want []*result.Record
	var side, online []string
	for i, s := range sides {
		for j, k := range s.Runs {
			for n := range k.Records {
				if report.Fit(k.Records[n]) {
					want, side = append(want, &k.Records[n]), append(side, s.Name)
					online = append(online, map[bool]string{true: "0-1"}[i == 1 && j == 0])
				}
			}
		}
	}
	if len(want) != 11 {
		t.Fatalf("%d valid points", len(want))
	}
	r := benchfmt.NewReader(bytes.NewReader(b.Bytes()), "x")
	n := 0
	for r.Scan() {
		switch rec := r.Result().(type) {
		case *benchfmt.SyntaxError:
			t.Fatal(rec)
		case *benchfmt.Result:
			p := want[n]
			if got, want := rec.Name.String(), "Forward/service=route/frame_size="+result.Get(p.Config, "frame_size"); got != want {
				t.Errorf("point %d is %s, want %s", n, got, want)
			}
			if rec.GetConfig("side") != side[n] || rec.GetConfig("governor") != "performance" || rec.GetConfig("kernel") != "6.1 x86_64" || rec.GetConfig("cpus-online") != online[n] {
				t.Errorf("point %d has configuration %+v", n, rec.Config)
			}
			if len(rec.Values) != len(p.Values) {
				t.Errorf("point %d has %d figures, want %d", n, len(rec.Values), len(p.Values))
			}
			for i, v := range p.Values {
				if got := rec.Values[i]; got.Value != v.Value {
					t.Errorf("point %d: %s is %v %s, want %v", n, v.Metric, got.Value, got.Unit, v.Value)
				}
			}
			n++
		}
	}
	if err := r.Err(); err != nil || n != len(want) {
		t.Fatalf("%d points read back, want %d (%v)", n, len(want), err)
	}
	units := r.Units()
	for u, better := range map[string]int{"throughput-frame/s": 1, "throughput-bit/s": 1, "forwarding-rate-frame/s": 1, "forwarding-rate-at-least-frame/s": 1, "latency-p50-sec": -1} {
		if got := units.GetBetter(u); got != better {
			t.Errorf("better of %s is %d, want %d", u, got, better)
		}
	}
}

func TestBenchOfHostileNames(t *testing.T) {
	run, recs := report.Hostile()
	for i := range recs {
		recs[i].Config = append(recs[i].Config, result.Pair{Key: "a b", Value: report.Nasty + "/x-12"})
	}
	var b bytes.Buffer
	if err := text.Bench(&b, report.Kept{Document: report.Summarized(run, recs), Records: recs}); err != nil {
		t.Fatal(err)
	}
	points := 0
	for _, r := range recs {
		if r.Parent == "" && r.Procedure != report.SelfTestProcedure && report.Fit(r) {
			points++
		}
	}
	r := benchfmt.NewReader(&b, "x")
	n := 0
	for r.Scan() {
		switch rec := r.Result().(type) {
		case *benchfmt.SyntaxError:
			t.Fatal(rec)
		case *benchfmt.Result:
			n++
			if _, parts := rec.Name.Parts(); strings.HasPrefix(string(parts[len(parts)-1]), "-") {
				t.Fatalf("%s ends in what is taken for GOMAXPROCS", rec.Name)
			}
		}
	}
	if n == 0 || n != points {
		t.Errorf("%d of %d points read back", n, points)
	}
}
