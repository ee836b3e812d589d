// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"reflect"
	"slices"
	"strings"

	"boxdyno/result"
)

// partTables are those of the parts of each row's trials: the phases of the last trial that
// has some, and the trials that their procedure declares.
func (d *Document) partTables(run result.Run, procedures map[string]result.Procedure, trials map[string][]result.Record) (out []Table) {
	for _, row := range d.Rows {
		var phases []tableRow
		for _, t := range trials[row.ID] {
			if len(t.KPIs) == 0 {
				continue
			}
			phases = nil
			for _, k := range t.KPIs {
				phases = append(phases, tableRow{id: row.ID, config: []result.Pair{{Key: "phase", Value: k.Phase}}, figures: figuresOf(k.Values())})
			}
		}
		out = append(out, stressed(row, procedures[row.Procedure].Trials, run, trials[row.ID])...)
		if len(phases) > 0 {
			out = append(out, makeTable(row.Name+": phases; good frames, their delay, unwanted frames; rates in frame/s", result.KPIMetrics, []result.Axis{{Name: "phase"}}, phases))
		}
	}
	out = append(out, curveTables(d.Rows)...)
	out = append(out, d.publishedTables()...)
	return append(out, d.energyTables()...)
}

// stressed is the table of a row's trials, what did not pass first.
func stressed(row Row, of *result.Trials, run result.Run, trials []result.Record) []Table {
	if of == nil {
		return nil
	}
	rank := func(t result.Record) int {
		return index([]string{string(result.Failed), string(result.Running), string(result.Aborted), string(result.Invalid)}, string(t.Status))
	}
	trials = slices.DeleteFunc(slices.Clone(trials), func(t result.Record) bool { return result.Get(t.Config, of.Axis) == "" })
	if of.Across != "" {
		return matrices(row, *of, trials)
	}
	slices.SortStableFunc(trials, func(a, b result.Record) int { return cmp.Compare(rank(a), rank(b)) })
	var rows []tableRow
	for _, t := range trials {
		r := tableRow{id: row.ID, config: t.Config, figures: trialFigures(run, t, fastestLoop(trials))}
		switch reason, known := strings.CutPrefix(t.Reason, result.KnownCause); {
		case known:
			r.exact = []string{"known cause: " + reason}
		case t.Status == result.Running:
			r.exact = []string{"no end was recorded: boxdyno or the machine died in it"}
		case t.Status != result.Passed:
			r.exact = []string{strings.TrimSuffix(string(t.Status)+": "+t.Reason, ": ")}
		}
		r.exact = append(r.exact, t.Warnings...)
		rows = append(rows, r)
	}
	if len(rows) == 0 {
		return nil
	}
	return []Table{makeTable(row.Name+": "+of.Title, of.Metrics, []result.Axis{{Name: of.Axis}}, rows)}
}

// matrices are the tables of a row's trials by two keys of their configuration, one for each
// metric: of several trials of a cell the median counts. A cell of which no trial passed
// or failed is empty.
func matrices(row Row, of result.Trials, trials []result.Record) (out []Table) {
	var down, across []string
	cells := map[string]map[string][]float64{} // by metric; by both values
	for _, t := range trials {
		a, b := result.Get(t.Config, of.Axis), result.Get(t.Config, of.Across)
		for _, x := range []struct {
			all *[]string
			v   string
		}{{&down, a}, {&across, b}} {
			if !slices.Contains(*x.all, x.v) {
				*x.all = append(*x.all, x.v)
			}
		}
		for _, m := range of.Metrics {
			if v := t.Value(m.Name); v != nil && (t.Status == result.Passed || t.Status == result.Failed) {
				if cells[m.Name] == nil {
					cells[m.Name] = map[string][]float64{}
				}
				cells[m.Name][a+"\x00"+b] = append(cells[m.Name][a+"\x00"+b], v.Value)
			}
		}
	}
	slices.Sort(down)
	slices.Sort(across)
	for _, m := range of.Metrics {
		if cells[m.Name] == nil {
			continue
		}
		var columns []result.Metric
		for _, b := range across {
			c := m
			c.Name, c.Label, c.Group, c.Interval, c.Heads = "across "+b, b, "", "", false
			columns = append(columns, c)
		}
		var rows []tableRow
		for _, a := range down {
			r := tableRow{id: row.ID, config: []result.Pair{{Key: of.Axis, Value: a}}, figures: map[string]*Figure{}}
			for _, b := range across {
				if vs := slices.Sorted(slices.Values(cells[m.Name][a+"\x00"+b])); len(vs) > 0 {
					r.figures["across "+b] = &Figure{Value: (vs[(len(vs)-1)/2] + vs[len(vs)/2]) / 2, N: len(vs)}
				}
			}
			rows = append(rows, r)
		}
		out = append(out, makeTable(row.Name+": "+of.Title+": "+cmp.Or(m.Label, m.Name), columns, []result.Axis{{Name: of.Axis}}, rows))
	}
	return out
}

// fastestLoop is the fastest clock that a counted loop saw in trials; 0 where none did.
func fastestLoop(trials []result.Record) (fastest float64) {
	for _, t := range trials {
		for _, m := range []string{LoopBefore, LoopAfter} {
			if v := t.Value(m); v != nil {
				fastest = max(fastest, v.Value)
			}
		}
	}
	return fastest
}

// trialFigures are a trial's values, and what its programs, sensors and meters say of it.
func trialFigures(run result.Run, t result.Record, fastest float64) map[string]*Figure {
	out := figuresOf(t.Values)
	set := func(name string, v float64) { out[name] = &Figure{Value: v, N: 1} }
	most := func(name string, v float64) {
		if f := out[name]; f == nil || v > f.Value {
			set(name, v)
		}
	}
	if v := t.Value(LoopAfter); v != nil && fastest > 0 {
		set("clock_share", v.Value/fastest)
	}
	for _, u := range t.Usage {
		set("cpu_s", u.CPU.Seconds())
		if u.PeakMemory > 0 {
			set("peak_memory_bytes", float64(u.PeakMemory))
		}
	}
	if e := widest(t.Energy); e != nil {
		set("power_mean_w", e.Watts())
	}
	for _, d := range t.Digests {
		if d.Series < 0 || d.Series >= len(run.Series) || d.N == 0 {
			continue
		}
		switch name := run.Series[d.Series].Name; {
		case name == "node_thermal_zone_temp", name == "node_hwmon_temp_celsius":
			most("temperature_max", d.Max)
		case strings.HasPrefix(name, "node_cpu_") && strings.HasSuffix(name, "_throttles_total"):
			most("throttle_events", d.Growth)
		case name == "boxdyno_rpi_throttled" && !strings.HasSuffix(result.Get(run.Series[d.Series].Labels, "flag"), "occurred"):
			most("throttle_events", d.Max)
		}
	}
	return out
}

// figuresOf are values as figures, by metric.
func figuresOf(values []result.Value) map[string]*Figure {
	out := map[string]*Figure{}
	for _, v := range values {
		out[v.Metric] = &Figure{Value: v.Value, Lo: v.Lo, Hi: v.Hi, N: max(v.N, 1), Bound: v.Bound, Open: v.Open}
	}
	return out
}

// fill puts figures into the fields of the block, a pointer to a struct, that are named in
// JSON for a metric.
func fill(block any, at func(metric string) *Figure) {
	v := reflect.ValueOf(block).Elem()
	for i := range v.NumField() {
		if !v.Field(i).CanSet() {
			continue
		}
		metric, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		switch p := v.Field(i).Addr().Interface().(type) {
		case **Figure:
			*p = at(metric)
		case **float64:
			if f := at(metric); f != nil {
				*p = &f.Value
			}
		}
	}
}
