// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"boxdyno/internal/testutil"
	"boxdyno/report"
	"boxdyno/report/page"
	"boxdyno/result"
	"boxdyno/unit"
)

func numbers(from, to int) (ids []string) {
	for n := from; n <= to; n++ {
		ids = append(ids, fmt.Sprint(n))
	}
	return ids
}

// A viewer sees each trial once, whenever it comes, whichever server it asks, and
// however often that is killed: by Last-Event-ID the next one goes on.
func TestEventsHaveNoGap(t *testing.T) {
	runs := t.TempDir()
	b := bundle(t, runs, "one")
	h := listening(t, opts(runs), "")
	addr := h.addr
	for n := 1; n <= 300; n++ {
		trial(t, b, n, result.Passed)
	}
	late := listen(t, h, "one", "")
	if got := late.trials(301); got[0] != "anew" || !slices.Equal(got[1:], numbers(1, 300)) {
		t.Fatalf("a late viewer got %v", got)
	}
	trial(t, b, 301, result.Passed)
	if got := late.trials(1); !slices.Equal(got, []string{"301"}) {
		t.Fatalf("then %v", got)
	}
	h.stop()
	for { // what was sent before the end
		if _, ok := late.next(); !ok {
			break
		}
	}
	trial(t, b, 302, result.Failed)
	h = listening(t, opts(runs), addr)
	again := listen(t, h, "one", late.last)
	trial(t, b, 303, result.Passed)
	if got := again.trials(2); !slices.Equal(got, numbers(302, 303)) {
		t.Fatalf("after the server was killed: %v", got)
	}
	// Another run in the same folder is another run.
	h.stop()
	b.Close()
	if err := os.RemoveAll(b.Dir); err != nil {
		t.Fatal(err)
	}
	b = bundle(t, runs, "one")
	trial(t, b, 1, result.Passed)
	h = listening(t, opts(runs), addr)
	if got := listen(t, h, "one", again.last).trials(2); !slices.Equal(got, []string{"anew", "1"}) {
		t.Fatalf("of another run in the folder: %v", got)
	}
}

// A line that is being written is sent once it is whole.
func TestEventsOfHalfALine(t *testing.T) {
	runs := t.TempDir()
	b := bundle(t, runs, "one")
	trial(t, b, 1, result.Passed)
	name := filepath.Join(b.Dir, result.TrialsFile)
	trial(t, b, 2, result.Passed)
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	b.Close()
	if err := os.Truncate(name, int64(len(data)-10)); err != nil {
		t.Fatal(err)
	}
	h := listening(t, opts(runs), "")
	l := listen(t, h, "one", "")
	if got := l.trials(2); !slices.Equal(got, []string{"anew", "1"}) {
		t.Fatal(got)
	}
	f, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(data[len(data)-10:]); err != nil {
		t.Fatal(err)
	}
	if got := l.trials(1); !slices.Equal(got, []string{"2"}) {
		t.Fatal(got)
	}
}

// The state of a run is that of who holds its lock, and of its log.
func TestStates(t *testing.T) {
	runs := t.TempDir()
	b := bundle(t, runs, "one")
	trial(t, b, 1, result.Passed)
	h := listening(t, opts(runs), "")
	l := listen(t, h, "one", "")
	state := func(want State) {
		t.Helper()
		for {
			e, ok := l.next()
			if !ok {
				t.Fatalf("no state %q", want)
			}
			var s GrowthState
			if e.name == "state" && json.Unmarshal([]byte(e.data), &s) == nil && s.Run.State == want {
				if want == GoesOn && (s.PID != os.Getpid() || s.Share != 0.01 || s.Point == "") {
					t.Errorf("%+v", s)
				}
				return
			}
		}
	}
	state(GoesOn)
	if _, text := ask(t, "GET", h.url("/api/runs"), ""); !strings.Contains(text, `"state":"running"`) {
		t.Errorf("the list: %s", text)
	}
	over(t, b)
	state(Finished)
	await(t, "the run in the list", func() bool {
		_, text := ask(t, "GET", h.url("/api/runs"), "")
		return strings.Contains(text, `"state":"finished"`) && strings.Contains(text, `"trials":1`)
	})
}

// Telemetry comes as a timeline, and then as the rest of it.
func TestTelemetryGrows(t *testing.T) {
	runs := t.TempDir()
	b := bundle(t, runs, "one")
	head, _ := json.Marshal(result.TelemetryHead{Schema: result.Schema, Rate: 10, Series: []result.Series{{Name: "node_thermal_zone_temp", Unit: "°C"}}})
	lines := append(head, '\n')
	n := 0
	second := func() {
		for range 10 {
			lines = result.AppendBatch(lines, result.Batch{At: unit.Instant(n) * 1e8, Values: []float64{40 + float64(n)}})
			n++
		}
		if err := b.Sample(lines); err != nil {
			t.Fatal(err)
		}
		lines = nil
	}
	for range 20 {
		second()
	}
	trial(t, b, 1, result.Passed)
	h := listening(t, opts(runs), "")
	l := listen(t, h, "one", "")
	timeline := func() (x report.Timeline) {
		t.Helper()
		for {
			e, ok := l.next()
			if !ok {
				t.Fatal("no telemetry")
			}
			if e.name == "telemetry" {
				if err := json.Unmarshal([]byte(e.data), &x); err != nil {
					t.Fatal(err)
				}
				return x
			}
		}
	}
	first := timeline()
	if first.First != 0 || first.Steps < 199 {
		t.Fatalf("%d steps from %d", first.Steps, first.First)
	}
	second()
	rest := timeline()
	if rest.First < 100 || rest.First+rest.Steps < first.Steps+9 {
		t.Fatalf("the rest is %d steps from %d, after %d", rest.Steps, rest.First, first.Steps)
	}
	last := rest.Panels[0].Lines[0].Mean
	if v := last[len(last)-2]; v < 245 {
		t.Errorf("the last value is %v", v)
	}
	// A part of it, in as many steps as are asked for.
	code, text := ask(t, "GET", h.url("/api/runs/one/timeline?from=5000000000&to=10000000000&steps=10"), "")
	var part report.Timeline
	if err := json.Unmarshal([]byte(text), &part); err != nil || code != 200 {
		t.Fatalf("%d %s: %v", code, text, err)
	}
	if begin := int64(part.First) * part.Step; part.Steps > 11 || begin > 5e9 || begin < 4e9 {
		t.Errorf("%d steps from %d of %d ns", part.Steps, part.First, part.Step)
	}
	if lo := part.Panels[0].Lines[0]; !(lo.Hi[0] > lo.Lo[0]) {
		t.Errorf("a step of several has %v to %v", lo.Lo[0], lo.Hi[0])
	}
}

// What was found is the report's, and is judged without reading the records again.
func TestFoundReadsNothingAgain(t *testing.T) {
	runs := t.TempDir()
	b := bundle(t, runs, "one")
	for n := range 20 {
		trial(t, b, n+1, result.Passed)
	}
	trial(t, b, 3, result.Failed) // it was measured again
	over(t, b)
	l := newLibrary(runs, nil)
	g := &growth{id: "one", dir: b.Dir, runs: l}
	g.poll(time.Now(), nil)
	first := g.found
	doc, _, err := l.open(b.Dir)
	if err != nil || first == nil {
		t.Fatal(err, g.failed)
	}
	doc.Plan, doc.Timeline = nil, nil
	want, err := json.Marshal(page.Of(doc, nil).Document)
	if err != nil || string(first) != string(want) {
		t.Errorf("found\n%s\nwant\n%s", first, want)
	}
	if err := os.Remove(filepath.Join(b.Dir, result.TrialsFile)); err != nil {
		t.Fatal(err)
	}
	g.found = nil
	if err := g.judge(time.Now()); err != nil || string(g.found) != string(first) {
		t.Errorf("%v: found\n%s\nat first\n%s", err, g.found, first)
	}
}

func await(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !f(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not seen", what)
		}
	}
}

func TestNoLeaks(t *testing.T) {
	testutil.NoLeaks(t)
	runs := t.TempDir()
	b := bundle(t, runs, "one")
	trial(t, b, 1, result.Passed)
	h := listening(t, opts(runs), "")
	l := listen(t, h, "one", "")
	l.trials(2)
	l.res.Body.Close()
	h.stop()
	b.Close()
	http.DefaultClient.CloseIdleConnections()
	await(t, "the end of the pulse", func() bool { h.mu.Lock(); defer h.mu.Unlock(); return !h.pulsing })
}
