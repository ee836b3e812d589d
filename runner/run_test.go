// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"boxdyno/host"
	"boxdyno/internal/testutil"
	"boxdyno/procedure"
	"boxdyno/result"
	"boxdyno/unit"
)

const twoByTwo = "procedures:\n  - {use: probe, kind: [a, b], level: [5, 6]}\nrepeat: 2\nseed: 3\n"

func resolved(t interface{ Fatal(...any) }, c Catalogue, text string) Plan {
	p, err := Parse("plan.yaml", []byte(text))
	if err == nil {
		p, err = p.Resolve(c)
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func statuses(recs []result.Record) map[string]result.Status {
	m := map[string]result.Status{}
	for _, r := range recs {
		m[r.ID] = r.Status
	}
	return m
}

func TestRun(t *testing.T) {
	testutil.NoLeaks(t)
	f := &fake{}
	c := f.catalogue()
	p := resolved(t, c, twoByTwo)
	m := &memory{}
	var events []Event
	before := unit.Now()
	run, recs, err := Run(context.Background(), p, m, Options{Catalogue: c, Header: result.Run{Version: "v", ID: "x", Role: "r"}, Notify: func(e Event) { events = append(events, e) }})
	if err != nil {
		t.Fatal(err)
	}
	if f.closed.Load() != 1 || f.builds != 1 {
		t.Errorf("%d testbeds built, %d closed", f.builds, f.closed.Load())
	}
	if len(f.ran) != 2+8*4 {
		t.Errorf("%d trials ran, want 2 self-tests and 4 for each of 8 points", len(f.ran))
	}
	if len(recs) != 2+8*5 || len(m.appended) != 2*len(recs) {
		t.Errorf("%d records in %d lines, want %d in twice as many", len(recs), len(m.appended), 2+8*5)
	}
	if run.Role != "r" || run.Version != "v" || run.Topology != "sandbox" || run.Kind != "memory" || run.Seed != 3 || run.Preset != "quick" ||
		len(run.Machines) != 1 || len(run.Environments) != 2 || len(run.Metrics) != 1 || !strings.Contains(string(run.Plan), `"probe"`) {
		t.Errorf("the header is %+v", run)
	}
	if result.Get(run.Environments[0], "mtu") != "1500" {
		t.Error("how the testbed was built is not in the environment")
	}
	span := unit.Now() - before
	seen := map[string]bool{}
	lastBegin := unit.Instant(-1)
	for _, r := range m.appended {
		if !seen[r.ID] && r.Status != result.Running {
			t.Errorf("%s was not first written as running", r.ID)
		}
		seen[r.ID] = true
		if r.Begin < 0 || r.End < r.Begin || r.End > span {
			t.Errorf("%s lies at %d to %d of a run of %d ns", r.ID, r.Begin, r.End, span)
		}
		if r.Status == result.Running {
			if r.Begin < lastBegin {
				t.Errorf("%s begins before the one before it", r.ID)
			}
			lastBegin = r.Begin
		}
		for _, ph := range r.Phases {
			if ph.Begin < r.Begin || ph.End < ph.Begin || ph.End > r.End+1000 {
				t.Errorf("phase %+v of %s is not on the run's clock (%d to %d)", ph, r.ID, r.Begin, r.End)
			}
		}
	}
	for _, r := range recs {
		switch {
		case strings.HasPrefix(r.ID, "self-test/"):
			if r.Parent == "" || r.Procedure != "self-test" {
				t.Errorf("the self-test looks like a point: %+v", r)
			}
		case r.Parent == "":
			if r.Status != result.Passed || result.Get(r.Config, "preset") != "quick" || !strings.HasSuffix(r.ID, fmt.Sprintf("#%d", r.Repeat)) {
				t.Errorf("point %+v", r)
			}
		default:
			if !strings.HasPrefix(r.ID, r.Parent+"/") || result.Get(r.Config, "rate") == "" || result.Get(r.Config, "kind") == "" {
				t.Errorf("trial %+v", r)
			}
		}
	}
	if !seen["probe/a#1"] || !seen["probe/b/level=6#2"] {
		t.Errorf("IDs are %v", slices.Sorted(maps.Keys(seen)))
	}
	if n := len(events); n == 0 || events[n-1].Kind != PointDone || events[n-1].Share != 1 || events[n-1].Left != 0 || events[0].Left != 16*time.Second {
		t.Errorf("the last event is %+v", events[len(events)-1])
	}
}

// Wherever a run is cut off (SIGKILL leaves a prefix of its lines), the resumed
// run measures no finished trial again and ends with the same records.
func TestResumeMeasuresNothingTwice(t *testing.T) {
	testutil.Computed(t)
	rapid.Check(t, func(t *rapid.T) {
		whole := &fake{}
		c := whole.catalogue()
		plan := fmt.Sprintf("procedures:\n  - {use: probe, kind: [a, b], level: [%d, 7000]}\nrepeat: %d\nseed: %d\n",
			rapid.IntRange(0, 3000).Draw(t, "level"), rapid.IntRange(1, 2).Draw(t, "repeat"), rapid.Uint64().Draw(t, "seed"))
		full := &memory{}
		p := resolved(t, c, plan)
		if _, _, err := Run(context.Background(), p, full, Options{Catalogue: c}); err != nil {
			t.Fatal(err)
		}
		cut := rapid.IntRange(0, len(full.appended)).Draw(t, "cut")
		done := last(full.appended[:cut])
		again, err := Parse("run.json", full.run.Plan)
		if err == nil {
			again, err = again.Resolve(c)
		}
		if err != nil {
			t.Fatal(err)
		}
		rest := &fake{}
		m := &memory{}
		header := full.run
		header.Environments = header.Environments[:1]
		_, recs, err := Run(context.Background(), again, m, Options{Catalogue: rest.catalogue(), Header: header, Done: done, Resume: true})
		if err != nil {
			t.Fatal(err)
		}
		finished := 0
		var end unit.Instant
		for _, r := range done {
			if r.Finished() && (r.Parent != "") {
				finished++
			}
			end = max(end, r.End)
		}
		if len(rest.ran)+finished != len(whole.ran) {
			t.Fatalf("cut after %d lines: %d trials were finished, %d more ran, and the run has %d", cut, finished, len(rest.ran), len(whole.ran))
		}
		want, got := statuses(last(full.appended)), statuses(recs)
		if !maps.Equal(want, got) {
			t.Fatalf("records differ:\n%v\n%v", want, got)
		}
		for _, r := range m.appended {
			if r.Begin <= end {
				t.Fatalf("%s begins at %d, and the run had got to %d", r.ID, r.Begin, end)
			}
			if r.Environment != 1 {
				t.Fatalf("%s points to environment %d", r.ID, r.Environment)
			}
		}
	})
}

func TestEndings(t *testing.T) {
	boom := errors.New("boom")
	for name, c := range map[string]struct {
		trial  func(n int, cancel func()) (procedure.Outcome, error)
		full   int
		status result.Status // of the third trial
		is     error
		says   string
	}{
		"error": {func(int, func()) (procedure.Outcome, error) { return procedure.Outcome{}, boom }, 0, result.Aborted, boom, "boom"},
		"panic": {func(int, func()) (procedure.Outcome, error) { panic("ouch") }, 0, result.Aborted, nil, "a fault in boxdyno: panic: ouch"},
		"interrupt": {func(_ int, cancel func()) (procedure.Outcome, error) {
			cancel()
			return procedure.Outcome{}, context.Canceled
		}, 0, result.Aborted, context.Canceled, "canceled"},
		"unnoticed interrupt": {func(_ int, cancel func()) (procedure.Outcome, error) {
			cancel()
			return procedure.Outcome{Status: result.Passed}, nil
		}, 0, result.Aborted, context.Canceled, "canceled"},
		"full disk": {func(int, func()) (procedure.Outcome, error) { return procedure.Outcome{Status: result.Passed}, nil }, 6, result.Running, nil, "no space left on device"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			f := &fake{stubborn: name == "full disk"}
			f.trial = func(string) (procedure.Outcome, error) {
				if len(f.ran) == 3 {
					return c.trial(3, cancel)
				}
				return procedure.Outcome{Status: result.Passed}, nil
			}
			m := &memory{full: c.full}
			cat := f.catalogue()
			_, _, err := Run(ctx, resolved(t, cat, twoByTwo), m, Options{Catalogue: cat})
			if err == nil || c.is != nil && !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v, want %q", err, c.says)
			}
			if f.closed.Load() != 1 {
				t.Error("the testbed was not taken down")
			}
			if len(f.ran) != 3 {
				t.Errorf("%d trials ran, want 3", len(f.ran))
			}
			recs := last(m.appended)
			if recs[3].Status != c.status { // after the point, its self-test and its first trial
				t.Errorf("records are %v, want %s %s", statuses(recs), recs[3].ID, c.status)
			}
			if c.full > 0 && (m.refused != 1 || m.writes != 1) {
				t.Errorf("a full disk was written to %d times more, and %d headers", m.refused-1, m.writes)
			}
		})
	}
}

// A procedure that pauses goes on once every other point had its turn; a run that
// ends meanwhile says so in the point's record.
func TestPausesAndGoesOn(t *testing.T) {
	const plan = "procedures: [{use: probe, kind: [a, b], level: [5, 6]}]\nseed: 3"
	f := &fake{}
	c := f.catalogue()
	_, recs, err := Run(context.Background(), resolved(t, c, plan), &memory{}, Options{Catalogue: c})
	if err != nil {
		t.Fatal(err)
	}
	visits, lastOfB := []string{}, ""
	for _, r := range recs {
		if r.Parent != "" && r.Procedure == "probe" && (len(visits) == 0 || visits[len(visits)-1] != r.Parent) {
			visits = append(visits, r.Parent)
		}
		if strings.HasPrefix(r.ID, "probe/b#1/") {
			lastOfB = r.ID
		}
		if r.Parent == "" && r.Status != result.Passed {
			t.Errorf("%s is %s", r.ID, r.Status)
		}
	}
	if len(visits) != 2+2*3 || !strings.HasPrefix(lastOfB, "probe/b#1/4 ") {
		t.Errorf("the points were visited in the order %v, b's last trial was %s", visits, lastOfB)
	}

	f.trial = func(id string) (procedure.Outcome, error) {
		if strings.HasPrefix(id, "b/6/1/") {
			return procedure.Outcome{}, errors.New("boom")
		}
		return procedure.Outcome{Status: result.Passed}, nil
	}
	m := &memory{}
	if _, _, err := Run(context.Background(), resolved(t, c, plan), m, Options{Catalogue: c}); err == nil {
		t.Fatal("no error")
	}
	for _, r := range last(m.appended) {
		if r.Parent == "" && r.Procedure == "probe" && r.Status == result.Running {
			t.Errorf("%s is %s after the run ended in order", r.ID, r.Status)
		}
	}
}

// What is wrong with a trial is decided before the procedure's search sees it.
func TestTrialsAreJudged(t *testing.T) {
	for want, load := range map[result.Status]result.Load{
		result.Failed:  {Intended: 1000, Offered: 1000},
		result.Invalid: {Intended: 1000, Offered: 900},
	} {
		f := &fake{}
		f.trial = func(string) (procedure.Outcome, error) {
			return procedure.Outcome{
				Load: &load, Account: &result.Account{Intended: 100, Accepted: 100, Received: 99},
				Values: []result.Value{{Metric: "steps", Unit: "1", Value: 2}},
			}, nil
		}
		c := f.catalogue()
		_, recs, err := Run(context.Background(), resolved(t, c, "procedures: [probe]"), &memory{}, Options{Catalogue: c})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range recs {
			if r.Parent == "probe/a#1" && (r.Status != want || r.Reason == "") {
				t.Errorf("%s is %s (%s), want %s", r.ID, r.Status, r.Reason, want)
			}
		}
	}
}

func TestMissingPrerequisiteSkipsThePoint(t *testing.T) {
	f := &fake{}
	f.first = func(p *probe) error {
		if p.kind == "a" {
			return fmt.Errorf("set up: %w", errMissing)
		}
		return nil
	}
	c := f.catalogue()
	m := &memory{}
	p := resolved(t, c, twoByTwo)
	run, recs, err := Run(context.Background(), p, m, Options{Catalogue: c})
	var missing *host.Missing
	if !errors.As(err, &missing) || strings.Contains(err.Error(), "\n") {
		t.Fatalf("error %v, want the missing prerequisite in one line", err)
	}
	count := map[result.Status]int{}
	for _, r := range recs {
		if r.Parent == "" {
			count[r.Status]++
		}
	}
	if count[result.Skipped] != 4 || count[result.Passed] != 4 {
		t.Errorf("points are %v, want 4 skipped and 4 passed", count)
	}
	f.first = nil
	f.ran = nil
	_, recs, err = Run(context.Background(), p, m, Options{Catalogue: c, Header: run, Done: recs, Resume: true})
	if err != nil || len(f.ran) != 1+4*4 {
		t.Errorf("resumed with the prerequisite there: %v, %d trials ran", err, len(f.ran))
	}
	for _, r := range recs {
		if r.Status != result.Passed {
			t.Errorf("%s is %s", r.ID, r.Status)
		}
	}
	builds := f.builds
	if _, _, err := Run(context.Background(), p, m, Options{Catalogue: c, Header: run, Done: recs, Resume: true}); err != nil || f.builds != builds {
		t.Errorf("a finished run was built again: %v", err)
	}
}

func TestNothingIsWrittenWithoutATestbed(t *testing.T) {
	f := &fake{build: host.Privilege("make a network namespace")}
	c := f.catalogue()
	m := &memory{}
	_, _, err := Run(context.Background(), resolved(t, c, twoByTwo), m, Options{Catalogue: c})
	var missing *host.Missing
	if !errors.As(err, &missing) || m.writes != 0 || len(m.appended) != 0 {
		t.Errorf("%v; %d headers, %d records", err, m.writes, len(m.appended))
	}
}

func TestResumedElsewhereWarns(t *testing.T) {
	f := &fake{}
	c := f.catalogue()
	m := &memory{}
	p := resolved(t, c, twoByTwo)
	run, recs, err := Run(context.Background(), p, m, Options{Catalogue: c})
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*result.Run){
		"resumed on":      func(r *result.Run) { r.Machines[0].Board, r.Machines[0].Name = "a Pi", "pi" },
		"started anew":    func(r *result.Run) { r.Machines[0].BootID = "another" },
		`"turbo mode" to`: func(r *result.Run) { r.Environments[0][0].Value = "turbo mode" },
	} {
		h := run
		h.Machines = slices.Clone(run.Machines)
		h.Environments = [][]result.Pair{slices.Clone(run.Environments[0])}
		change(&h)
		got, _, err := Run(context.Background(), p, m, Options{Catalogue: c, Header: h, Done: recs[:5], Resume: true})
		if err != nil || !slices.ContainsFunc(got.Warnings, func(w string) bool { return strings.Contains(w, name) }) {
			t.Errorf("%s: warnings %q, %v", name, got.Warnings, err)
		}
	}
}

func TestResumedOrigin(t *testing.T) {
	done := []result.Record{{Begin: 5, End: 900}, {Begin: 1000, End: 1000}}
	for _, c := range []struct {
		wall time.Duration
		want unit.Instant
	}{{0, 1001}, {-time.Hour, 1001}, {5000, 5000}} {
		if got := 1e6 - resumedOrigin(done, 1e6, c.wall); got != c.want {
			t.Errorf("after %v of wall clock the run goes on at %d, want %d", c.wall, got, c.want)
		}
	}
}
