// SPDX-License-Identifier: Apache-2.0

package result

// KPIMetrics are the columns of a table of KPIs, a phase a row.
var KPIMetrics = []Metric{
	{Name: "offered_fps", Label: "offered", Unit: "frame/s", Help: "good frames that were sent a second"},
	{Name: "forwarded_fps", Label: "forwarded", Unit: "frame/s", Better: 1, Help: "good frames that came out of the box a second"},
	{Name: "lost", Label: "lost", Unit: "frame", Better: -1, Exact: true, Help: "good frames that were lost"},
	{Name: "delay_min_s", Label: "delay", Unit: "s", Better: -1, Help: "one-way delay of good frames: least"},
	{Name: "delay_mean_s", Label: "mean", Unit: "s", Better: -1, Help: "the same, mean"},
	{Name: "delay_p99_s", Label: "p99", Unit: "s", Better: -1, Help: "the same, 99th percentile"},
	{Name: "delay_max_s", Label: "max", Unit: "s", Better: -1, Help: "the same, greatest"},
	{Name: "bad_sent", Label: "unwanted", Unit: "frame", Exact: true, Help: "unwanted frames that were sent: known-bad ones, or those of a flood"},
	{Name: "bad_arrived", Label: "through", Unit: "frame", Better: -1, Exact: true, Help: "unwanted frames that came through the box"},
}

// Values are the KPI's, by KPIMetrics. Where no unwanted frame was sent or came, there are
// none of them.
func (k KPI) Values() []Value {
	values := []float64{float64(k.Offered), float64(k.Forwarded), float64(k.Lost)}
	if k.Delay != nil {
		values = append(values, k.Delay.Min, k.Delay.Mean, k.Delay.P99, k.Delay.Max)
	}
	var out []Value
	for i, v := range values {
		out = append(out, Value{Metric: KPIMetrics[i].Name, Unit: KPIMetrics[i].Unit, Value: v})
	}
	if k.BadSent != 0 || k.BadArrived != 0 {
		out = append(out, Value{Metric: "bad_sent", Unit: "frame", Value: float64(k.BadSent)}, Value{Metric: "bad_arrived", Unit: "frame", Value: float64(k.BadArrived)})
	}
	return out
}
