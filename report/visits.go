// SPDX-License-Identifier: Apache-2.0

package report

import (
	"slices"
	"strings"
	"time"

	"boxdyno/result"
	"boxdyno/stat"
)

// Fit says whether a record's figures may be used: it is finished, and not the
// tester's failure.
func Fit(r result.Record) bool { return r.Status == result.Passed || r.Status == result.Failed }

// overloadTrial marks the trials that read a rate under overload.
const overloadTrial = "overload"

// visitRates are the rates under overload of one point, in the order of time,
// for the metrics that each of its trials reads by itself; nil for others. recs
// are all records of the run. Trials between which nothing else was measured
// share what disturbed them, so that they are one sample together, their median:
// one for each time the run came to the point.
func visitRates(metric, point string, recs []result.Record) (rates []float64) {
	if metric != forwardingRate && metric != dropRate {
		return nil
	}
	var visit []float64
	end := func() {
		if len(visit) > 0 {
			rates = append(rates, stat.Summarize(visit).Center)
		}
		visit = nil
	}
	for _, r := range recs {
		if r.Parent != point || result.Get(r.Config, "trial") != overloadTrial {
			end()
			continue
		}
		if rate, ok := overloadRate(metric, r); ok && Fit(r) {
			visit = append(visit, rate)
		}
	}
	end()
	return rates
}

// overloadRate is what one overload trial says of metric.
func overloadRate(metric string, r result.Record) (float64, bool) {
	if metric == forwardingRate {
		if r.Load == nil {
			return 0, false
		}
		return float64(r.Load.Forwarded), true
	}
	place, drops := strings.CutPrefix(result.Get(r.Config, "service"), "drop-")
	i := slices.IndexFunc(r.Phases, func(p result.Phase) bool { return p.Name == "traffic" })
	if !drops || r.Account == nil || i < 0 || r.Phases[i].End <= r.Phases[i].Begin {
		return 0, false
	}
	return float64(r.Account.DroppedAt(result.Place(place))) / time.Duration(r.Phases[i].End-r.Phases[i].Begin).Seconds(), true
}

// course says in sentences whether the figures of a configuration stayed where
// they were while its repeats were measured.
func course(repeats, recs []result.Record) (out []string) {
	if len(repeats) > 0 && (repeats[0].Procedure == connectionsProcedure || repeats[0].Procedure == CaptureProcedure || repeats[0].Procedure == IDSProcedure || repeats[0].Procedure == floodProcedure) {
		return nil // its overload trials are at different rates
	}
	metric := forwardingRate
	if slices.ContainsFunc(repeats, func(p result.Record) bool { return p.Value(dropRate) != nil }) {
		metric = dropRate
	}
	var visits, limits []float64
	for _, p := range repeats {
		visits = append(visits, visitRates(metric, p.ID, recs)...)
		if v := p.Value(throughput); v != nil && Fit(p) {
			limits = append(limits, v.Value)
		}
	}
	if stat.Summarize(visits).Center > 0 {
		for _, s := range stat.Along(visits).Words(visits, "readings under overload") {
			out = append(out, s)
		}
	}
	if stat.Summarize(limits).Center > 0 {
		for _, s := range stat.Along(limits).Words(limits, "throughputs") {
			out = append(out, s)
		}
	}
	return out
}
