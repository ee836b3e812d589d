// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// metrics is GET /metrics in OpenMetrics 1.0: what goes on, and the figures of the newest
// run that has ended, in base units.
func (s *Server) metrics(w http.ResponseWriter, r *http.Request) error {
	var b bytes.Buffer
	family := func(name, kind, help string) { fmt.Fprintf(&b, "# TYPE %s %s\n# HELP %s %s\n", name, kind, name, help) }
	family("boxdyno_build", "info", "Version of boxdyno.")
	fmt.Fprintf(&b, "boxdyno_build_info%s 1\n", labels("version", s.o.Version))
	family("boxdyno_serve_viewers", "gauge", "Browsers that listen.")
	fmt.Fprintf(&b, "boxdyno_serve_viewers %d\n", s.Viewers())
	family("boxdyno_serve_requests", "counter", "Requests so far.")
	fmt.Fprintf(&b, "boxdyno_serve_requests_total %d\n", s.asked.Load())
	active := s.runs.active(locks())
	family("boxdyno_runs_active", "gauge", "Runs that go on.")
	fmt.Fprintf(&b, "boxdyno_runs_active %d\n", len(active))
	if s.o.Fleet != nil {
		family("boxdyno_fleet_boards", "gauge", "Boards of the hub, by their state.")
		for _, state := range s.o.Fleet().States {
			fmt.Fprintf(&b, "boxdyno_fleet_boards%s %d\n", labels("state", state.Name), state.Boards)
		}
	}
	if err := s.figures(r.Context(), &b, family); err != nil {
		return err
	}
	b.WriteString("# EOF\n")
	w.Header().Set("Content-Type", "application/openmetrics-text; version=1.0.0; charset=utf-8")
	_, _ = w.Write(b.Bytes())
	return nil
}

// figures are those of the newest run that has ended.
func (s *Server) figures(ctx context.Context, b *bytes.Buffer, family func(name, kind, help string)) error {
	all := s.listed(ctx, listBudget).Runs
	i := slices.IndexFunc(all, func(r RunInfo) bool { return r.State == Finished && r.Error == "" })
	if i < 0 {
		return nil
	}
	run := all[i]
	_, recs, err := s.runs.open(s.runs.find(run.ID))
	if err != nil {
		return nil // it has gone meanwhile
	}
	family("boxdyno_run_start_seconds", "gauge", "When the newest run that has ended began.")
	fmt.Fprintf(b, "boxdyno_run_start_seconds%s %d\n", labels("run", run.ID, "what", run.What, "box", run.Box, "kind", run.Kind, "verdict", string(run.Verdict)), run.Start.Unix())
	family("boxdyno_figure", "gauge", "Figures of that run, in base units; bound is >= or <= where the figure is one.")
	for _, r := range recs {
		if r.Parent != "" || !r.Finished() {
			continue
		}
		for _, v := range r.Values {
			fmt.Fprintf(b, "boxdyno_figure%s %s\n", labels("run", run.ID, "point", r.ID, "metric", v.Metric, "bound", string(v.Bound)), strconv.FormatFloat(v.Value, 'g', -1, 64))
		}
	}
	return nil
}

var escaped = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// labels are names and values in turn; empty values are left out.
func labels(pairs ...string) string {
	var some []string
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			some = append(some, pairs[i]+`="`+escaped.Replace(strings.ToValidUTF8(pairs[i+1], "\ufffd"))+`"`)
		}
	}
	return "{" + strings.Join(some, ",") + "}"
}
