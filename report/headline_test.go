// SPDX-License-Identifier: Apache-2.0

package report

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"boxdyno/result"
	"boxdyno/verdict"
)

// asked is the document of a role with one criterion, and a point that has v.
func asked(c result.Criterion, r result.Record) Document {
	run := result.Run{Role: "firewall", Criteria: []result.Criterion{c}}
	return Summarized(run, []result.Record{r})
}

func routePoint(v ...result.Value) result.Record {
	return result.Record{ID: "p", Procedure: "forward", Status: result.Passed, Values: v, Config: []result.Pair{{Key: "service", Value: "route"}, {Key: "direction", Value: "both"}, {Key: "frame_size", Value: "imix"}}}
}

func TestHeadline(t *testing.T) {
	l1 := func(lo float64, hi *float64, b result.Bound) result.Value {
		return result.Value{Metric: "throughput_l1_bps", Unit: "bit/s", Value: lo, Lo: &lo, Hi: hi, Bound: b}
	}
	open := l1(626e6, nil, ">=")
	open.Open = true
	gig := result.Criterion{Text: "IMIX without loss at 1.00 Gbit/s each way", Metric: "throughput_l1_bps", Min: new(1e9)}
	invalid := routePoint()
	invalid.Status, invalid.Reason = result.Invalid, "the self-test is invalid: of 100 frames sent from one tester port to the other none arrived, and this goes on and on"
	held := routePoint()
	held.Status, held.Reason = result.Invalid, "no throughput: all 19 trials of the search were invalid or in doubt, for the tester was held up"
	busy := routePoint()
	busy.Status, busy.Reason = result.Invalid, "the tester offered 118 kframe/s of 270 kframe/s (43.60 %, and 99 % is the least), and the hypervisor took CPU time"
	because := func(s result.Status, reason string) result.Record {
		r := routePoint()
		r.Status, r.Reason = s, reason
		return r
	}
	for _, x := range []struct {
		name string
		r    result.Record
		word string
		want string
	}{
		{"a tester that drops", because(result.Invalid, "the tester's own port refused 7 of 100 frames"), "not decided", "Not decided: the tester's own port refused 7 of 100 frames; use an idle or faster one"},
		{"passes", routePoint(l1(1.153e9, new(1.2e9), "")), "passed", "Passes: carries 1.15 Gbit/s without loss, 1.00 Gbit/s asked (route, both, IMIX)"},
		{"the tester ends first", routePoint(l1(1.153e9, nil, ">=")), "passed", "Passes: carries at least 1.15 Gbit/s without loss, 1.00 Gbit/s asked (route, both, IMIX)"},
		{"passes by far", routePoint(l1(41.3e9, new(42e9), "")), "passed", "Passes: carries 41.3 Gbit/s without loss, 1.00 Gbit/s asked (route, both, IMIX)"},
		{"fails", routePoint(l1(310e6, new(320e6), "")), "failed", "Carries 310 of the 1,000 Mbit/s asked without loss (route, both, IMIX)"},
		{"fails by little", routePoint(l1(0.9996e9, new(0.9999e9), "")), "failed", "Carries 999.6 of the 1,000 Mbit/s asked without loss (route, both, IMIX)"},
		{"fails by far", routePoint(l1(41e3, new(42e3), "")), "failed", "Carries 41.0 kbit/s of the 1.00 Gbit/s asked without loss (route, both, IMIX)"},
		{"carries nothing", routePoint(l1(0, new(1e6), "")), "failed", "Fails: no load carried without loss, 1.00 Gbit/s asked (route, both, IMIX)"},
		{"straddles", routePoint(l1(0.93e9, new(1.1e9), "")), "too close to call", "Too close to call: 930 to 1,100 of the 1,000 Mbit/s asked without loss (route, both, IMIX)"},
		{"no upper limit", routePoint(open), "not decided", "Carries at least 626 of the 1,000 Mbit/s asked; its limit was not found"},
		{"the tester's end", routePoint(l1(626e6, nil, ">=")), "not decided", "Carries at least 626 of the 1,000 Mbit/s asked, all that the tester offers"},
		{"nothing confirmed", routePoint(l1(0, new(2e9), "")), "not decided", "Not decided: no load confirmed without loss, 1.00 Gbit/s asked"},
		{"invalid", invalid, "not decided", "Not decided: the self-test is invalid: of 100 frames sent from one tester port to the..."},
		{"the tester is busy", busy, "not decided", "Not decided: the tester offered 118 kframe/s of 270 kframe/s; use an idle or faster one"},
		{"held up", held, "not decided", "Not decided: all 19 trials of the search were invalid or in doubt"},
		{"no such point", result.Record{ID: "x", Parent: "y"}, "not decided", "Not decided: the run has no such point"},
	} {
		d := asked(gig, x.r)
		if d.Sentence != x.want || verdictWord(d) != x.word {
			t.Errorf("%s: %s %q, want %s %q", x.name, verdictWord(d), d.Sentence, x.word, x.want)
		}
	}
	run := result.Run{Role: "firewall", Criteria: []result.Criterion{gig}, Warnings: []string{"the machine was not idle before the run: its CPUs were 100.0 % busy, and idle is at most 2.5 %"}}
	trial := result.Record{ID: "p/1", Parent: "p", Procedure: "forward", Status: result.Invalid, Account: &result.Account{}}
	if d := Summarized(run, []result.Record{held, trial}); d.Sentence != "Not decided: other work kept this machine busy, 1 of 1 trials do not count" {
		t.Errorf("on a busy machine: %q", d.Sentence)
	}
	f := verdict.Finding{Criterion: gig, Text: "ring 2048: not decided: the measurement is invalid: " + busy.Reason + "."}
	if got := shorten(undecided(f)); got != "Not decided: the tester offered 118 kframe/s of 270 kframe/s; use an idle or faster one" {
		t.Errorf("of one of several: %q", got)
	}
}

// A box's headline names it.
func TestHeadlineOfABox(t *testing.T) {
	c := result.Criterion{Text: "IMIX without loss at 1.00 Gbit/s each way", Metric: "throughput_l1_bps", Min: new(1e9)}
	for _, x := range []struct {
		gbps, lo             float64
		sentence, word, rest string
	}{
		{1.153, 1.153, "pi5: passes: carries 1.15 Gbit/s without loss, 1.00 Gbit/s asked (route, both, IMIX)", "PASSED", "pi5: passes: carries 1.15 Gbit/s without loss, 1.00 Gbit/s asked (route, both, IMIX)"},
		{0.93, 0.93, "pi5: too close to call: 930 to 1,100 of the 1,000 Mbit/s asked without loss", "TOO CLOSE TO CALL", "pi5: 930 to 1,100 of the 1,000 Mbit/s asked without loss"},
	} {
		v := result.Value{Metric: c.Metric, Unit: "bit/s", Value: x.gbps * 1e9, Lo: new(x.lo * 1e9), Hi: new(1.1e9)}
		if x.gbps > 1 {
			v.Hi = new(1.2e9)
		}
		d := Summarized(result.Run{Role: "firewall", Box: "pi5", Criteria: []result.Criterion{c}}, []result.Record{routePoint(v)})
		if word, rest := Opening(d); d.Sentence != x.sentence || word != x.word || rest != x.rest {
			t.Errorf("%q: %q %q", d.Sentence, word, rest)
		}
	}
}

// Where the load that is carried was not found to the end, the headline says which end of
// the interval its number is.
func TestHeadlineOfALoadBelow(t *testing.T) {
	c := result.Criterion{Text: "hardly a frame lost", Metric: "ids_rate_bps", Min: new(1e9)}
	for _, x := range []struct {
		v    result.Value
		word string
		want string
	}{
		{result.Value{Value: 257e6, Lo: new(257e6), Hi: new(340e6)}, "failed", "Carries between 257 and 340 of the 1,000 Mbit/s asked, with 1,000 rules"},
		{result.Value{Value: 310e6, Lo: new(310e6), Hi: new(340e6)}, "failed", "Carries 310 of the 1,000 Mbit/s asked, with 1,000 rules"},
		{result.Value{Value: 60e6, Lo: new(40e6), Hi: new(90e6), N: 3}, "failed", "Carries between 40.0 and 90.0 of the 1,000 Mbit/s asked, with 1,000 rules"},
		{result.Value{Value: 100e6, Lo: new(98e6), Hi: new(103e6), N: 3}, "failed", "Carries 100 of the 1,000 Mbit/s asked, with 1,000 rules"},
		{result.Value{Value: 310e6, Lo: new(310e6)}, "not decided", "Carries at least 310 of the 1,000 Mbit/s asked; its limit was not found, with 1,000 rules"},
		{result.Value{Value: 257e6, Bound: result.AtMost}, "failed", "Carries less than 257 of the 1,000 Mbit/s asked; no load is confirmed, with 1,000 rules"},
		{result.Value{Value: 1.2e9, Bound: result.AtMost}, "not decided", "Not decided: carries less than 1.20 of the 1.00 Gbit/s asked; no load is confirmed"},
	} {
		x.v.Metric, x.v.Unit = c.Metric, "bit/s"
		r := result.Record{ID: "p", Procedure: "ids", Status: result.Passed, Values: []result.Value{x.v}, Config: []result.Pair{
			{Key: "subject", Value: "suricata"}, {Key: "rules", Value: "1000"}, {Key: "traffic", Value: "appmix"}, {Key: "rate", Value: "search"}, {Key: "rules_file", Value: "generated"},
		}}
		d := asked(c, r)
		if d.Sentence != x.want || verdictWord(d) != x.word || utf8.RuneCountInString(d.Sentence) > headlineMost {
			t.Errorf("%+v: %s %q, want %s %q", x.v, verdictWord(d), d.Sentence, x.word, x.want)
		}
	}
}

// A box that is not decided because it stands still is said to, and not that its limit was not
// looked for.
func TestHeadlineOfABoxThatStandsStill(t *testing.T) {
	f := verdict.Finding{Criterion: result.Criterion{Metric: "throughput_l1_bps", Min: new(1e9)}, Status: result.Invalid, Figure: &result.Value{Metric: "throughput_l1_bps", Unit: "bit/s", Value: 626e6, Lo: new(626e6), Bound: result.AtLeast, Open: true}}
	for text, want := range map[string]string{
		"not decided: repeat":                       "Carries at least 626 of the 1,000 Mbit/s asked; its limit was not found",
		"not decided: " + verdict.StandsStill + ":": "Carries at least 626 of the 1,000 Mbit/s asked; it stands still now and then",
	} {
		f.Text = text
		if got := roleHeadline(Document{Verdict: result.Invalid, Findings: []verdict.Finding{f}}); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// Where frames of the load that is asked were lost, the headline says which load below it
// is carried, though the search did not find its end.
func TestHeadlineOfAnOpenLoad(t *testing.T) {
	lost := verdict.Finding{Criterion: result.Criterion{Metric: uncounted, Max: new(0.0)}, Status: result.Failed, Figure: &result.Value{Metric: uncounted, Unit: "1", Value: 0.003}}
	for _, x := range []struct {
		v     result.Value
		close bool
		want  string
	}{
		{result.Value{Value: 249e6, Lo: new(249e6), Bound: result.AtLeast, Open: true}, false, "Carries at least 249 of the 1,000 Mbit/s asked; its limit was not found"},
		{result.Value{Value: 249e6, Lo: new(249e6)}, false, "Carries at least 249 of the 1,000 Mbit/s asked; its limit was not found"},
		{result.Value{Value: 1.2e9, Bound: result.AtMost}, false, "Loses 0.3 % of the frames"},
		{result.Value{Value: 0.9e9, Lo: new(0.9e9), Hi: new(1.1e9)}, true, "Loses 0.3 % of the frames"},
		{result.Value{}, false, "Loses 0.3 % of the frames"},
	} {
		x.v.Metric, x.v.Unit = "lossless_l1_bps", "bit/s"
		d := Document{Verdict: result.Failed, Findings: []verdict.Finding{lost, {
			Criterion: result.Criterion{Metric: x.v.Metric, Min: new(1e9)}, Status: result.Invalid, Close: x.close, Figure: &x.v,
		}}}
		if got := roleHeadline(d); got != x.want {
			t.Errorf("%+v: %q, want %q", x.v, got, x.want)
		}
	}
}

// The rate at which no frame is lost is the answer; where it is not known, that at which
// hardly any is lost, and at last the rate from which frames are lost.
func TestHeadlineOfSeveralLoads(t *testing.T) {
	of := func(metric string, v result.Value) verdict.Finding {
		v.Metric, v.Unit = metric, "bit/s"
		return verdict.Finding{Criterion: result.Criterion{Metric: metric, Min: new(1e9)}, Status: result.Failed, Figure: &v}
	}
	lost := verdict.Finding{Criterion: result.Criterion{Metric: uncounted, Max: new(0.0)}, Status: result.Failed, Figure: &result.Value{Metric: uncounted, Unit: "1", Value: 0.003}}
	most, pdr := result.Value{Value: 0.5e9, Bound: result.AtMost}, result.Value{Value: 0.25e9, Lo: new(0.25e9), Hi: new(0.26e9)}
	for _, x := range []struct {
		lossless result.Value
		pdr      bool
		want     string
	}{
		{result.Value{Value: 120e6, Lo: new(120e6), Hi: new(312e6)}, true, "Carries between 120 and 312 of the 1,000 Mbit/s asked without loss"},
		{most, true, "Carries 250 of the 1,000 Mbit/s asked with at most 0.5 % lost"},
		{most, false, "Carries less than 500 of the 1,000 Mbit/s asked; no load is confirmed"},
	} {
		d := Document{Verdict: result.Failed, Findings: []verdict.Finding{lost, of("lossless_l1_bps", x.lossless)}}
		if x.pdr {
			d.Findings = append(d.Findings, of("counted_0_5pct_l1_bps", pdr))
		}
		if got := roleHeadline(d); got != x.want {
			t.Errorf("%+v: %q, want %q", x, got, x.want)
		}
	}
}

// A criterion may have min, max, both or neither, and a figure any ends of an interval.
func TestHeadlineWithoutEnds(t *testing.T) {
	for _, metric := range []string{"throughput_l1_bps", "goodput_bps", uncounted, "rules_loaded", "detected_ratio", "idle_detected_ratio", result.HottestMetric, "storage_known_answer", "forwarding_rate_fps"} {
		for i := range 4 * 4 {
			v, c := result.Value{Metric: metric, Unit: "1", Value: 10}, result.Criterion{Text: "asked", Metric: metric}
			if strings.HasSuffix(metric, "bps") {
				v.Unit = "bit/s"
			}
			for bit, end := range []struct {
				at    **float64
				value float64
			}{{&c.Min, 12}, {&c.Max, 13}, {&v.Lo, 9}, {&v.Hi, 14}} {
				if i>>bit&1 == 1 {
					*end.at = &end.value
				}
			}
			d := asked(c, routePoint(v))
			if s := d.Sentence; strings.Contains(s, "the asked") || strings.Contains(s, "most  allowed") {
				t.Errorf("%s, case %04b: %q", metric, i, s)
			}
		}
	}
	hi := 14.0 // its lower end is the value
	d := asked(result.Criterion{Text: "12 bit/s", Metric: "goodput_bps", Min: new(12.0)}, routePoint(result.Value{Metric: "goodput_bps", Unit: "bit/s", Value: 10, Hi: &hi}))
	if !strings.HasPrefix(d.Sentence, "Too close to call: 10.0 to 14.0 of the 12.0 bit/s asked") {
		t.Error(d.Sentence)
	}
	d = asked(result.Criterion{Text: "x", Metric: "goodput_bps"}, routePoint(result.Value{Metric: "goodput_bps", Unit: "bit/s", Value: 10}))
	if d.Sentence != "Not decided: the criterion asks for nothing: it has neither min nor max" {
		t.Error(d.Sentence)
	}
}

// Whatever is asked and found, the first line is short and never a bare "invalid".
func TestHeadlineIsShort(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := result.Value{Metric: rapid.SampledFrom([]string{"throughput_l1_bps", "goodput_bps", uncounted, "rules_loaded", "detected_ratio", result.HottestMetric, "something"}).Draw(t, "metric"),
			Unit: "1", Value: rapid.Float64Range(0, 1e12).Draw(t, "value")}
		if strings.HasSuffix(v.Metric, "bps") {
			v.Unit = "bit/s"
		}
		if rapid.Bool().Draw(t, "interval") {
			v.Lo = new(v.Value)
			if rapid.Bool().Draw(t, "ends") {
				v.Hi = new(v.Value * rapid.Float64Range(1, 4).Draw(t, "width"))
			}
		}
		c := result.Criterion{Text: rapid.StringN(1, 200, -1).Draw(t, "text"), Metric: v.Metric, Min: new(rapid.Float64Range(1, 1e12).Draw(t, "min"))}
		r := routePoint(v)
		r.Status = rapid.SampledFrom([]result.Status{result.Passed, result.Failed, result.Invalid, result.Skipped, result.Aborted}).Draw(t, "status")
		r.Reason = rapid.StringN(0, 200, -1).Draw(t, "reason")
		d := asked(c, r)
		if n := utf8.RuneCountInString(d.Sentence); n == 0 || n > headlineMost {
			t.Fatalf("%d characters: %q", n, d.Sentence)
		}
		if w := verdictWord(d); w == "invalid" || w == "skipped" {
			t.Fatalf("the first word is %s", w)
		}
		if len(d.Findings) != 1 || d.Findings[0].Close != (verdictWord(d) == "too close to call") {
			t.Fatalf("%+v", d.Findings)
		}
	})
}

// The headlines of the golden bundles.
func TestHeadlineOfRoles(t *testing.T) {
	run, recs := Firewall()
	if d := Summarized(run, recs); d.Sentence != "Carries 611 of the 1,000 Mbit/s asked without loss (route, both, IMIX)" {
		t.Errorf("%s: %q", d.Verdict, d.Sentence)
	}
	finding := verdict.Finding{Criterion: result.Criterion{Text: "written through dm-crypt", Metric: "luks2_write_bps", Min: new(1e9)}, Status: result.Failed, Figure: &result.Value{Metric: "luks2_write_bps", Unit: "bit/s", Value: 4.1e8}}
	d := Document{Role: "storage", Verdict: result.Failed, Findings: []verdict.Finding{finding}}
	if s := sentence(d); s != "Carries 410 of the 1,000 Mbit/s asked" {
		t.Errorf("%q", s)
	}
	lo, hi := 1.87, 7.48
	d.Verdict = result.Invalid
	d.Findings = []verdict.Finding{{Criterion: result.Criterion{Text: "not counted", Metric: uncounted, Min: new(4.5)}, Status: result.Invalid, Close: true, Figure: &result.Value{Metric: uncounted, Unit: "1", Value: lo, Lo: &lo, Hi: &hi}}}
	if d.Sentence = sentence(d); verdictWord(d) != "too close to call" {
		t.Errorf("%s: %q", verdictWord(d), d.Sentence)
	}
	finding.Criterion.Metric, finding.Figure.Metric = "goodput_bps", "goodput_bps"
	d = Document{Role: "vpn", Verdict: result.Failed, Findings: []verdict.Finding{finding}, Rows: []Row{{Block: &Tunnel{Tunnel: "wireguard"}}}}
	d.Rows[0].ID, d.Findings[0].Point = "v", "v"
	if s := sentence(d); s != "Carries 410 of the 1,000 Mbit/s asked, through wireguard" {
		t.Errorf("%q", s)
	}
}
