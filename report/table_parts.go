// SPDX-License-Identifier: Apache-2.0

package report

import (
	"reflect"
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
		if len(phases) > 0 {
			out = append(out, makeTable(row.Name+": phases; good frames, their delay, unwanted frames; rates in frame/s", result.KPIMetrics, []result.Axis{{Name: "phase"}}, phases))
		}
	}
	return out
}

// figuresOf are values as figures, by metric.
func figuresOf(values []result.Value) map[string]*Figure {
	out := map[string]*Figure{}
	for _, v := range values {
		out[v.Metric] = &Figure{Value: v.Value, Lo: v.Lo, Hi: v.Hi, N: max(v.N, 1), Bound: v.Bound}
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
