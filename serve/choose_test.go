// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"boxdyno/result"
)

// asked is boxdyno history or boxdyno size for tests. It prints its arguments as a history.
func asked(args []string) int {
	for _, a := range args {
		switch {
		case a == "no_such_metric":
			fmt.Fprintln(os.Stderr, "! left out a run\nboxdyno: there is no such figure")
			return 2
		case a == "much":
			for range 40 {
				_, _ = os.Stdout.Write(make([]byte, 1<<20))
			}
			return 0
		}
	}
	points := []map[string]any{}
	for _, a := range args {
		if dir, ok := strings.CutPrefix(a, "--runs="); ok {
			points = append(points, map[string]any{"run": "1", "dir": filepath.Join(dir, "one"), "value": 1.5}, map[string]any{"run": "2", "dir": "/elsewhere/one"})
		}
	}
	text, _ := json.Marshal(map[string]any{"args": args, "series": []any{map[string]any{"points": points}}})
	fmt.Println(string(text))
	return 0
}

// What a browser asks becomes values of flags, and nothing else.
func TestHistoryAndSize(t *testing.T) {
	runs := filepath.Join(t.TempDir(), "runs")
	b := bundle(t, runs, "one")
	over(t, b)
	o := opts(runs)
	o.Library = []string{"--runs=" + runs}
	o.Metrics = []Metric{{Name: "throughput_fps", Procedure: "forward"}}
	h := listening(t, o, "")
	for query, want := range map[string]string{
		"history?metric=throughput_fps":                                  `200 ["history","throughput_fps","--json","--split",`,
		"history?metric=a&where=k%3d-x&where=m%3d1&box=--out&since=":     `200 "--box=--out","--where=k=-x","--where=m=1",`,
		"history?metric=no_such_metric":                                  "422 \"there is no such figure\"",
		"history?metric=much":                                            "422 there is too much",
		"history/metrics":                                                `200 [{"name":"throughput_fps","procedure":"forward"`,
		"size?for=ids&rules=10&load=1Gbps":                               `200 ["size","--json","--for=ids","--load=1Gbps","--rules=10","--runs=`,
		"size?for=hpl&published=true&format=csv&shared=switch%3d1USD,2W": `200 ["size","--csv","--for=hpl","--shared=switch=1USD,2W","--published"]`,
	} {
		code, text := ask(t, "GET", h.url("/api/"+query), "")
		status, words, _ := strings.Cut(want, " ")
		if fmt.Sprint(code) != status || !strings.Contains(text, words) {
			t.Errorf("%s: %d %s, want %s", query, code, text, want)
		}
	}
	// A run of the list has its name there; where it lies is not said.
	_, text := ask(t, "GET", h.url("/api/history?metric=a"), "")
	if !strings.Contains(text, `{"bundle":"one","run":"1","value":1.5}`) || !strings.Contains(text, `{"run":"2"}`) {
		t.Errorf("%s", text)
	}
	o.Library = nil
	if code, _ := ask(t, "GET", listening(t, o, "").url("/api/size?for=ids"), ""); code != 404 {
		t.Errorf("without an index: %d", code)
	}
}

// Nothing is read for a browser while a run needs all CPUs.
func TestHistoryWaitsForARun(t *testing.T) {
	runs := filepath.Join(t.TempDir(), "runs")
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		t.Skip(err)
	}
	o := opts(runs)
	o.Library = []string{}
	b, err := result.Create(filepath.Join(runs, "one"), result.Run{Schema: result.Schema, ID: "one", Start: begun, Kind: "real", Topology: "here", Plan: []byte("{}"), Machines: []result.Machine{{BootID: strings.TrimSpace(string(boot)), CPUs: 2}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	h := listening(t, o, "")
	if code, text := ask(t, "GET", h.url("/api/size?for=ids"), ""); code != 503 || !strings.Contains(text, "needs all CPUs") {
		t.Errorf("%d %s", code, text)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if code, text := ask(t, "GET", h.url("/api/size?for=ids"), ""); code != 200 || !slices.Contains(strings.Split(text, `"`), "size") {
		t.Errorf("afterwards: %d %s", code, text)
	}
	// One process answers at a time.
	h.answering <- struct{}{}
	done := make(chan int)
	go func() { code, _ := ask(t, "GET", h.url("/api/size?for=ids"), ""); done <- code }()
	select {
	case code := <-done:
		t.Errorf("two answers at once: %d", code)
	case <-time.After(50 * time.Millisecond):
	}
	<-h.answering
	if code := <-done; code != 200 {
		t.Errorf("in its turn: %d", code)
	}
}
