// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"boxdyno/result"
	"boxdyno/store"
)

// indexed is boxdyno runs for tests: it enters a folder into an index beside it, and prints it.
func indexed(args []string) int {
	dir, ok := strings.CutPrefix(args[len(args)-1], "--runs=")
	if !ok {
		fmt.Println("{}")
		return 0
	}
	for held := true; held; { // a large library takes long
		_, err := os.Stat(dir + "-held")
		if held = err == nil; held {
			time.Sleep(10 * time.Millisecond)
		}
	}
	ctx := context.Background()
	err := func() error {
		x, err := store.Open(ctx, dir+"-index.db")
		if err != nil {
			return err
		}
		defer x.Close()
		judge := func(result.Run, []result.Record) (result.Status, string) { return result.Passed, "It is judged." }
		u, err := x.Update(ctx, store.Scan{Dirs: []string{dir}, Judge: judge})
		if err != nil {
			return err
		}
		runs, err := x.Runs(ctx, store.Filter{})
		if err != nil {
			return err
		}
		return json.NewEncoder(os.Stdout).Encode(map[string]any{"runs": runs, "broken": u.Broken})
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, "boxdyno:", err)
		return 5
	}
	return 0
}

// answered says that the index has, and is not being asked again.
func answered(h host) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.indexing.done == nil && !h.indexing.answered.IsZero()
}

// The list is the index's: what is not in it is entered on sight, a broken bundle says why, a
// run has all of its procedures, and a copy is a run, too.
func TestListReadsTheIndex(t *testing.T) {
	runs := filepath.Join(t.TempDir(), "runs")
	names := []string{"forward", "latency", "loss-curve", "burst", "recovery"}
	b := bundle(t, runs, "many")
	for _, p := range names {
		if err := b.Append(result.Record{Schema: result.Schema, ID: p + "/1", Procedure: p, Start: begun, End: 1e9, Status: result.Passed}); err != nil {
			t.Fatal(err)
		}
	}
	over(t, b)
	if err := os.CopyFS(filepath.Join(runs, "copy"), os.DirFS(b.Dir)); err != nil {
		t.Fatal(err)
	}
	over(t, bundle(t, runs, "broken"))
	if err := os.WriteFile(filepath.Join(runs, "broken", result.TrialsFile), []byte("no record\n{}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	on := bundle(t, runs, "on")
	trial(t, on, 1, result.Passed)
	h := listening(t, opts(runs), "")
	list := func() map[string]RunInfo {
		t.Helper()
		var x struct {
			Runs    []RunInfo
			More    bool
			Problem string
		}
		if _, text := ask(t, "GET", h.url("/api/runs"), ""); json.Unmarshal([]byte(text), &x) != nil || x.Problem != "" || strings.Contains(text, runs) {
			t.Fatal(text)
		}
		all := map[string]RunInfo{}
		for _, r := range x.Runs {
			all[r.ID] = r
		}
		return all
	}
	await(t, "all runs in the index", func() bool { list(); return answered(h) && len(h.runs.due()) == 0 })
	all := list()
	if r := all["many"]; r.What != "forward, latency, loss-curve, ..." || !reflect.DeepEqual(r.Procedures, names) || r.State != Finished || r.Sentence != "It is judged." || r.Points != 6 {
		t.Errorf("many: %+v", r)
	}
	if r := all["copy"]; r.Verdict != result.Passed || r.State != Finished {
		t.Errorf("copy: %+v", r)
	}
	if r := all["broken"]; r.Error == "" || r.Start != begun || r.What != "forward" {
		t.Errorf("broken: %+v", r)
	}
	for _, path := range []string{"/api/runs/broken/page", "/api/compare?run=broken&run=many"} {
		if code, text := ask(t, "GET", h.url(path), ""); code != 422 || !strings.Contains(text, "is not a record") || strings.Contains(text, runs) {
			t.Errorf("%s: %d %s", path, code, text)
		}
	}
	if r := all["on"]; r.State != GoesOn || r.Sentence != "" {
		t.Errorf("on: %+v", r)
	}
	// What comes later is seen, too; a run that goes on is no reason to ask the index.
	trial(t, on, 2, result.Passed)
	h.runs.read(true)
	if len(h.runs.due()) > 0 {
		t.Error("a run that goes on makes the index read")
	}
	if err := result.ChangeTags(nil, b.Dir, func([]string) []string { return []string{"kept"} }); err != nil {
		t.Fatal(err)
	}
	over(t, on)
	await(t, "the tag and the end", func() bool {
		h.mu.Lock()
		h.indexing.next = time.Time{} // on a slow machine it is left alone for long
		h.mu.Unlock()
		all := list()
		return len(all["many"].Tags) == 1 && all["on"].State == Finished && all["on"].Trials == 2
	})
	if err := os.RemoveAll(filepath.Join(runs, "copy")); err != nil {
		t.Fatal(err)
	}
	if all := list(); len(all) != 3 {
		t.Errorf("%d runs are left", len(all))
	}
}

// A list whose index cannot be read has what headers say, and why there is no more.
func TestListWithoutIndex(t *testing.T) {
	runs := filepath.Join(t.TempDir(), "runs")
	over(t, bundle(t, runs, "one"))
	if err := os.WriteFile(runs+"-index.db", []byte("no database, whatever it is called, and long enough to have a head of one"), 0o644); err != nil {
		t.Fatal(err)
	}
	h := listening(t, opts(runs), "")
	await(t, "the problem", func() bool {
		_, text := ask(t, "GET", h.url("/api/runs"), "")
		return strings.Contains(text, `"what":"forward"`) && strings.Contains(text, "not a database")
	})
}

// A run that has just ended is in the list at once, while the index rests, and its line is the
// index's. Of many runs some wait, and the list says how many, and how old it is.
func TestListHasWhatJustEnded(t *testing.T) {
	runs := filepath.Join(t.TempDir(), "runs")
	over(t, bundle(t, runs, "old"))
	h := listening(t, opts(runs), "")
	await(t, "the index's answer", func() bool { h.listed(t.Context(), listBudget); return answered(h) && len(h.runs.due()) == 0 })
	resting := time.Now().Add(time.Hour)
	h.mu.Lock()
	h.indexing.next, h.indexing.answered = resting, h.indexing.answered.Add(-time.Minute)
	h.mu.Unlock()
	b := bundle(t, runs, "own")
	trial(t, b, 1, result.Passed)
	trial(t, b, 3, result.Passed)
	over(t, b)
	if err := result.ChangeTags(nil, b.Dir, func([]string) []string { return []string{"mine"} }); err != nil {
		t.Fatal(err)
	}
	find := func(l runList) (own RunInfo) {
		for _, r := range l.Runs {
			if r.ID == "own" {
				own = r
			}
		}
		return own
	}
	l := h.listed(t.Context(), listBudget)
	own := find(l)
	if own.State != Finished || own.Sentence == "" || own.Trials != 2 || own.Seconds != 2.5 || len(own.Tags) != 1 || l.More || l.Behind != 0 {
		t.Errorf("%+v in %+v", own, l)
	}
	h.mu.Lock()
	if h.indexing.next != resting {
		t.Error("the index was asked")
	}
	h.indexing.next = time.Time{}
	h.mu.Unlock()
	h.runs.known["own"].indexed = stamps{} // as the index is to read it
	for n := range mostOwn {
		over(t, bundle(t, runs, fmt.Sprint("many", n)))
	}
	await(t, "the index's line", func() bool {
		h.mu.Lock()
		h.indexing.next = time.Time{} // on a slow machine it is left alone for long
		h.mu.Unlock()
		return find(h.listed(t.Context(), listBudget)).Sentence == "It is judged."
	})
	read := find(h.listed(t.Context(), listBudget))
	if read.Sentence, read.Verdict = own.Sentence, own.Verdict; !reflect.DeepEqual(read, own) {
		t.Errorf("the index says\n%+v, and the run\n%+v", read, own)
	}
	h.mu.Lock()
	h.indexing.next, h.indexing.answered = resting, h.indexing.answered.Add(-time.Minute)
	h.mu.Unlock()
	for n := range 2*mostOwn + 3 {
		over(t, bundle(t, runs, fmt.Sprint("more", n)))
	}
	l = h.listed(t.Context(), listBudget)
	if l.Behind != mostOwn+3 || l.Age < 60 || l.More {
		t.Errorf("%d behind, %v s old, more: %t", l.Behind, l.Age, l.More)
	}
}

// While a large library is entered, others are answered, and the newest run's figures are there.
func TestListIsInNobodysWay(t *testing.T) {
	runs := filepath.Join(t.TempDir(), "runs")
	for n := range 3 * mostOwn {
		b := bundle(t, runs, fmt.Sprint("old", n))
		trial(t, b, 1, result.Passed)
		over(t, b)
	}
	held := runs + "-held"
	if err := os.WriteFile(held, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	h := listening(t, opts(runs), "")
	await(t, "the process that lists", func() bool { h.listed(t.Context(), 0); return len(h.listing) == 1 })
	if code, text := ask(t, "GET", h.url("/api/size?for=ids"), ""); code != 200 {
		t.Errorf("size: %d %s", code, text)
	}
	if code, text := ask(t, "GET", h.url("/metrics"), ""); code != 200 || !strings.Contains(text, "boxdyno_run_start_seconds{") {
		t.Errorf("metrics: %d %s", code, text)
	}
	// And a browser's question is in no way of the list.
	h.answering <- struct{}{}
	if err := os.Remove(held); err != nil {
		t.Fatal(err)
	}
	await(t, "the list", func() bool { return !h.listed(t.Context(), listBudget).More && len(h.runs.due()) == 0 })
	<-h.answering
}
