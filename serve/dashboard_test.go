// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"boxdyno/internal/testutil"
	"boxdyno/result"
)

// dashboard is where the example for Grafana is.
const dashboard = "../examples/grafana-serve.json"

// queries are what the dashboard asks, without Grafana's variables.
func queries(t *testing.T) (exprs []string) {
	t.Helper()
	var d struct {
		Panels []struct {
			Title   string `json:"title"`
			Targets []struct {
				Expr string `json:"expr"`
			} `json:"targets"`
		} `json:"panels"`
		Templating struct {
			List []struct {
				Definition string `json:"definition"`
			} `json:"list"`
		} `json:"templating"`
	}
	data, err := os.ReadFile(dashboard)
	if err == nil {
		err = json.Unmarshal(data, &d)
	}
	if err != nil {
		t.Fatal(err)
	}
	plain := strings.NewReplacer("$__rate_interval", "1m", "$instance", ".+", "$metric", ".+")
	for _, p := range d.Panels {
		if len(p.Targets) == 0 {
			t.Errorf("the panel %q asks nothing", p.Title)
		}
		for _, q := range p.Targets {
			exprs = append(exprs, plain.Replace(q.Expr))
		}
	}
	values := regexp.MustCompile(`^label_values\((\w+), (\w+)\)$`)
	for _, v := range d.Templating.List {
		if m := values.FindStringSubmatch(v.Definition); m != nil {
			exprs = append(exprs, fmt.Sprintf(`count by (%s) (%s)`, m[2], m[1]))
		}
	}
	if len(exprs) < 5 {
		t.Fatalf("the dashboard asks only %q", exprs)
	}
	return exprs
}

// exporting serves a run that has ended, one that goes on, and a hub.
func exporting(t *testing.T) host {
	runs := t.TempDir()
	b := bundle(t, runs, "one")
	trial(t, b, 1, result.Passed)
	r := result.Record{Schema: result.Schema, ID: "forward/route/64#1", Procedure: "forward", Config: []result.Pair{{Key: "service", Value: "route"}}, Start: begun, End: 1e9, Status: result.Passed,
		Values: []result.Value{{Metric: "throughput_fps", Value: 1234.5, Bound: result.AtLeast}}}
	if err := b.Append(r); err != nil {
		t.Fatal(err)
	}
	b.Close()
	o := opts(runs)
	o.Fleet = func() Fleet { return Fleet{States: []FleetState{{"ready", 2}, {"cut off", 1}}} }
	return listening(t, o, "")
}

// Each metric and each label that the dashboard asks for is at /metrics, and what it asks is
// PromQL to Prometheus' own parser.
func TestDashboard(t *testing.T) {
	_, text := ask(t, "GET", exporting(t).url("/metrics"), "")
	there := map[string]map[string]bool{} // labels of metrics
	for line := range strings.Lines(text) {
		if m := regexp.MustCompile(`^(\w+)(\{.*\})? `).FindStringSubmatch(line); m != nil {
			if there[m[1]] == nil {
				there[m[1]] = map[string]bool{"instance": true, "job": true} // Prometheus adds these
			}
			for _, l := range regexp.MustCompile(`(\w+)="`).FindAllStringSubmatch(m[2], -1) {
				there[m[1]][l[1]] = true
			}
		}
	}
	rules := "groups:\n- name: dashboard\n  rules:\n"
	for i, q := range queries(t) {
		metric := regexp.MustCompile(`boxdyno_\w+`).FindString(q)
		if there[metric] == nil {
			t.Errorf("%s: /metrics has no %q", q, metric)
		}
		for _, m := range regexp.MustCompile(`(\w+)=~?"|by \(([^)]*)\)`).FindAllStringSubmatch(q, -1) {
			for label := range strings.SplitSeq(m[1]+m[2], ", ") {
				if !there[metric][label] {
					t.Errorf("%s: %s has no label %q", q, metric, label)
				}
			}
		}
		rules += fmt.Sprintf("  - record: q%d\n    expr: %q\n", i, q)
	}
	program, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is missing: script/setup installs it")
	}
	file := filepath.Join(t.TempDir(), "rules.yml")
	if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(program, "check", "rules", file).CombinedOutput(); err != nil {
		t.Errorf("promtool check rules: %v: %s", err, out)
	}
}

// A Prometheus that scrapes serve by OpenMetrics has an answer to each of the dashboard's
// queries.
func TestScraped(t *testing.T) {
	testutil.Long(t)
	program, err := exec.LookPath("prometheus")
	if err != nil {
		t.Skip("prometheus is missing: script/setup installs it")
	}
	h, dir := exporting(t), t.TempDir()
	config := filepath.Join(dir, "prometheus.yml")
	text := fmt.Sprintf("scrape_configs:\n- job_name: boxdyno\n  scrape_interval: 1s\n  static_configs: [{targets: [%q]}]\n", h.addr)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	free := listening(t, opts(t.TempDir()), "") // for a port that is free
	free.stop()
	cmd := exec.Command(program, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+free.addr, "--log.level=warn")
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	gone := make(chan struct{})
	go func() { _ = cmd.Wait(); close(gone) }()
	defer func() { _ = cmd.Process.Kill(); <-gone }()
	ask := func(path string) string {
		res, err := http.Get("http://" + free.addr + path)
		if err != nil {
			return err.Error()
		}
		defer res.Body.Close()
		data, _ := io.ReadAll(res.Body)
		return string(data)
	}
	last := ""
	for begin := time.Now(); ; time.Sleep(200 * time.Millisecond) {
		missing := ""
		for _, q := range queries(t) {
			if last = ask("/api/v1/query?query=" + url.QueryEscape(q)); !strings.Contains(last, `"value":[`) {
				missing = q
				break
			}
		}
		if missing == "" {
			break
		}
		if time.Since(begin) > 30*time.Second {
			said, _ := os.ReadFile(log.Name())
			t.Fatalf("no answer to %s: %s %s; %s", missing, last, said, ask("/api/v1/targets"))
		}
	}
	if all := ask("/api/v1/metadata?metric=boxdyno_serve_requests_total"); !strings.Contains(all, "counter") {
		if all = ask("/api/v1/metadata?metric=boxdyno_serve_requests"); !strings.Contains(all, "counter") {
			t.Errorf("the kind of a counter is lost: %s", all)
		}
	}
}
