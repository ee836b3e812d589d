// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"boxdyno/report"
	"boxdyno/report/internal/grid"
	"boxdyno/report/page"
	"boxdyno/report/text"
	"boxdyno/result"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares got with the file name; a difference is left in name.got.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(name, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(name)
	if err == nil && bytes.Equal(got, want) {
		os.Remove(name + ".got")
		return
	}
	if err := os.WriteFile(name+".got", got, 0o644); err != nil {
		t.Fatal(err)
	}
	t.Errorf("%s differs from what is made now (%s.got, %v): compare them, and accept with go test ./report -update", name, name, err)
}

// folded is indented JSON with each object and list on one line that fits into it, so
// that a golden file is read a row at a time.
func folded(text []byte) []byte {
	const most = 160
	var out []string
	for _, line := range strings.Split(string(text), "\n") {
		out = append(out, line)
		inside := strings.TrimLeft(line, " ")
		if inside == "" || !strings.ContainsAny(inside[:1], "]}") {
			continue
		}
		indent := line[:len(line)-len(inside)]
		begin := len(out) - 2
		for begin > 0 && (strings.HasPrefix(out[begin], indent+" ") || !strings.HasPrefix(out[begin], indent)) {
			begin--
		}
		one := out[begin]
		for i, part := range out[begin+1:] {
			if part = strings.TrimLeft(part, " "); i > 0 && begin+1+i < len(out)-1 {
				part = " " + part
			}
			one += part
		}
		if utf8.RuneCountInString(one) <= most {
			out = append(out[:begin], one)
		}
	}
	return []byte(strings.Join(out, "\n"))
}

func TestGolden(t *testing.T) {
	for _, c := range []struct {
		name string
		make func() (result.Run, []result.Record)
	}{{"firewall", report.Firewall}, {"shared", report.SharedRun}, {"hostile", report.Hostile}, {"security", securityRun}, {"connections", connectionsRun}, {"soak", soakRun}, {"capture", captureRun}, {"ids", idsRun}, {"infer", inferRun}, {"flood", floodRun}, {"works", worksRun}, {"ablation", ablationRun}, {"box", boxRun}} {
		run, recs := c.make()
		d := report.Summarized(run, recs)
		for ext, f := range map[string]func(io.Writer) error{
			".txt":  func(w io.Writer) error { return text.Terminal(w, d) },
			".json": func(w io.Writer) error { return text.JSON(w, d) },
			".md":   func(w io.Writer) error { return text.Markdown(w, d) },
			".csv":  func(w io.Writer) error { return text.CSV(w, report.Kept{Document: d, Records: recs}) },
		} {
			var b bytes.Buffer
			if err := f(&b); err != nil {
				t.Fatalf("%s%s: %v", c.name, ext, err)
			}
			written := b.Bytes()
			switch variant := c.name == "shared" || c.name == "hostile"; {
			case variant && (ext == ".json" || ext == ".csv"):
				continue // they differ from the first by what other tests look at
			case ext == ".json":
				written = folded(written)
			case !variant && c.name != "firewall" && c.name != "box":
				continue // what text renders is in the JSON, and it renders all runs alike
			}
			golden(t, filepath.Join("testdata", c.name+ext), written)
		}
	}
}

func TestTextIsNarrowAndPlain(t *testing.T) {
	for _, make := range []func() (result.Run, []result.Record){report.Firewall, report.SharedRun, report.Hostile, securityRun, connectionsRun, soakRun, captureRun, idsRun, inferRun, floodRun, worksRun, ablationRun, boxRun} {
		run, recs := make()
		run.Command = nil // a command is never broken
		var b bytes.Buffer
		if err := text.Terminal(&b, report.Summarized(run, recs)); err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(b.String(), "\n") {
			if n := utf8.RuneCountInString(line); n > grid.Width && !strings.Contains(line, "pwned") {
				t.Errorf("line %d has %d columns: %s", i+1, n, line)
			}
			if strings.ContainsAny(line, "\x1b\u202e") {
				t.Errorf("line %d would steer a terminal: %q", i+1, line)
			}
		}
	}
}

// TestAbsentIsAbsent: what was not measured is in no form as a number.
func TestAbsentIsAbsent(t *testing.T) {
	run, recs := report.SharedRun()
	d := report.Summarized(run, recs)
	var b bytes.Buffer
	if err := text.JSON(&b, d); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"throughput_fps", "throughput_bps", "line_rate_share", "latency_p99_s"} {
		if strings.Contains(b.String(), `"`+key+`":`) {
			t.Errorf("the JSON of a run in placement shared claims %s", key)
		}
	}
	if !strings.Contains(d.Caveat, "lower bound") {
		t.Errorf("caveat %q does not say that the rate is a lower bound", d.Caveat)
	}
	if len(d.SharedWarnings) != 2 || !strings.Contains(d.SharedWarnings[1], "no throughput") {
		t.Errorf("shared warnings %q lack why there is no throughput", d.SharedWarnings)
	}
	if len(report.Summarized(run, nil).Rows) != 0 {
		t.Error("rows were made of no records")
	}
}

func TestRow(t *testing.T) {
	run, recs := report.Firewall()
	d := report.Summarized(run, recs)
	if len(d.Rows) != 15 || d.Books.Trials != d.Books.Closed || d.Books.Invalid != 1 || len(d.SelfTests) != 3 {
		t.Fatalf("%d rows, books %+v, %d self-tests", len(d.Rows), d.Books, len(d.SelfTests))
	}
	r := d.Rows[0]
	var point result.Record
	for _, p := range recs {
		if p.ID == r.ID {
			point = p
		}
	}
	v := point.Value("throughput_fps")
	if *r.ThroughputFPS != v.Value || *r.ThroughputFPSLo != *v.Lo || *r.ThroughputFPSHi != *v.Hi || r.ThroughputN != v.N {
		t.Errorf("throughput %v [%v, %v] x %d, want %+v", *r.ThroughputFPS, *r.ThroughputFPSLo, *r.ThroughputFPSHi, r.ThroughputN, v)
	}
	if *r.LongestStallNS != int64(point.Value("longest_stall_s").Value*1e9+0.5) {
		t.Errorf("longest stall %d ns of %v s", *r.LongestStallNS, point.Value("longest_stall_s").Value)
	}
	if got := *r.LineRateFPS; got < 1_488_095 || got > 1_488_096 {
		t.Errorf("line rate %v frame/s, want 1,488,095 at 64 B and 1 Gbit/s", got)
	}
	if x := d.Rows[12]; x.Service != "drop-xdp" || x.Bound != result.AtLeast || x.ThroughputFPS != nil {
		t.Errorf("drop in XDP: %+v", x)
	}
}

func TestRepeatsAreMerged(t *testing.T) {
	var recs []result.Record
	for i, v := range []float64{100, 300, 200} {
		lo, hi := v-10, v+10
		recs = append(recs, result.Record{ID: string(rune('a' + i)), Procedure: "forward", Repeat: i, Status: result.Passed, Account: &result.Account{Accepted: int64(v)},
			Config: []result.Pair{{Key: "service", Value: "route"}}, Values: []result.Value{{Metric: "forwarding_rate_fps", Value: v, Lo: &lo, Hi: &hi, N: 3}}})
	}
	recs = append(recs, result.Record{ID: "x", Procedure: "forward", Repeat: 3, Status: result.Invalid, Reason: "offered too little", Config: recs[0].Config,
		Values: []result.Value{{Metric: "forwarding_rate_fps", Value: 9e9}}})
	d := report.Summarized(result.Run{}, recs)
	if len(d.Rows) != 1 {
		t.Fatalf("%d rows of one configuration", len(d.Rows))
	}
	r := d.Rows[0]
	if *r.ForwardingFPS != 200 || *r.ForwardingFPSLo != 90 || *r.ForwardingFPSHi != 310 || r.ForwardingN != 9 || r.Repeats != 4 {
		t.Errorf("merged to %v [%v, %v] x %d of %d", *r.ForwardingFPS, *r.ForwardingFPSLo, *r.ForwardingFPSHi, r.ForwardingN, r.Repeats)
	}
	if r.Ledger.Accepted != 200 {
		t.Errorf("the ledger is that of %d, not of the median repeat", r.Ledger.Accepted)
	}
	if r.Verdict != result.Invalid || r.Reason != "offered too little" {
		t.Errorf("an invalid repeat is hidden: %s %q", r.Verdict, r.Reason)
	}
}

func TestUnexplainedIsSaid(t *testing.T) {
	run, recs := report.Hostile()
	d := report.Summarized(run, recs)
	if d.Books.Closed == d.Books.Trials || d.Books.Largest != -3 {
		t.Errorf("books %+v", d.Books)
	}
	if !strings.Contains(d.Sure[0], "do not balance") || !strings.Contains(d.Sure[0], "-3") {
		t.Errorf("how sure begins with %q", d.Sure[0])
	}
}

func TestCSVHasEveryRecord(t *testing.T) {
	run, recs := report.Hostile()
	var b bytes.Buffer
	if err := text.CSV(&b, report.Kept{Document: report.Summarized(run, recs), Records: recs}); err != nil {
		t.Fatal(err)
	}
	lines, err := csv.NewReader(&b).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if len(lines) != len(recs)+1 {
		t.Errorf("%d lines of %d records", len(lines), len(recs))
	}
}

func TestShell(t *testing.T) {
	for _, c := range []struct {
		want string
		argv []string
	}{
		{"boxdyno run forward --set size=64,imix", []string{"boxdyno", "run", "forward", "--set", "size=64,imix"}},
		{`boxdyno '' 'a b' 'it'\''s' '$x'`, []string{"boxdyno", "", "a b", "it's", "$x"}},
	} {
		if got := report.Shell(c.argv); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
}

// TestHTML puts hostile strings into the page and reads them back.
func TestHTML(t *testing.T) {
	run, recs := report.Hostile()
	d := report.Summarized(run, recs)
	var b bytes.Buffer
	if err := page.Write(&b, d, recs); err != nil {
		t.Fatal(err)
	}
	got := b.String()
	var empty strings.Builder
	if err := page.Write(&empty, report.Document{}, nil); err != nil {
		t.Fatal(err)
	}
	own := empty.String()
	if n, of := strings.Count(strings.ToLower(got), "</script"), strings.Count(strings.ToLower(own), "</script"); n != of {
		t.Errorf("%d script ends, and the page has %d of its own", n, of)
	}
	if strings.Contains(got, "<img src=x") || strings.ContainsAny(got, "\u2028\u2029") && !strings.ContainsAny(own, "\u2028\u2029") {
		t.Error("a string became markup, or ends a line of script")
	}
	_, after, _ := strings.Cut(got, `id="boxdyno-data">`)
	data, _, _ := strings.Cut(after, "</script>")
	var back struct {
		Document struct{ Rows json.RawMessage }
		Records  []result.Record
	}
	if err := json.Unmarshal([]byte(data), &back); err != nil {
		t.Fatalf("the page's data does not read back: %v", err)
	}
	sent, err := json.Marshal(page.Of(d, recs).Document.Rows)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(back.Document.Rows, sent) || len(back.Records) != len(recs) {
		t.Error("the page's data is not what went in")
	}
}

// pages are the runs whose pages are looked at.
var pages = map[string]func() (result.Run, []result.Record){
	"fleet": func() (result.Run, []result.Record) {
		run, recs := cryptoRun()
		for i := range recs {
			recs[i].Procedure = "fleet-crypto"
		}
		return run, recs
	},
	"firewall": report.Firewall, "shared": report.SharedRun, "hostile": report.Hostile,
	"passed": func() (result.Run, []result.Record) {
		run, recs := report.Firewall()
		for i := range run.Criteria {
			*run.Criteria[i].Min = 1e8
			run.Criteria[i].Text = "IMIX without loss at 100 Mbit/s each way"
		}
		return run, recs
	},
	"suite": suiteRun, "ablation": ablationRun, "study": studyRun, "flood": floodRun, "ids": idsRun, "box": boxRun,
	"beside": func() (result.Run, []result.Record) { return besideRun(8) },
	"empty":  func() (result.Run, []result.Record) { run, _ := report.Firewall(); return run, nil },
}

// TestWritePages writes the pages that ui/test looks at in a browser.
func TestWritePages(t *testing.T) {
	dir := os.Getenv("BOXDYNO_PAGES")
	if dir == "" {
		t.Skip("BOXDYNO_PAGES names no folder: npm test in report/page/ui gives one")
	}
	for name, make := range pages {
		run, recs := make()
		f, err := os.Create(filepath.Join(dir, name+".html"))
		if err == nil {
			err = page.Write(f, report.Summarized(run, recs), recs)
		}
		if err == nil {
			err = f.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	writeTimelinePages(t, dir)
}
