// SPDX-License-Identifier: Apache-2.0

package sizing

import (
	"slices"
	"strconv"
	"time"

	"boxdyno/result"
)

// A Head is what an index says of a run that has points of the job.
type Head struct {
	Box      string // not the same for boxes that Own tells apart
	Start    time.Time
	Fleet    bool            // several boards were measured at once
	Settings [][]result.Pair // of its points of the job
}

// Needed reads the runs on which Own's answer depends, the newest first: of each box the
// newest, and the newest that measured it hot. In the place of one that read does not return,
// or that has no point of the job, an older one is read. Trials are let go: a library can have a million.
func (j Job) Needed(heads []Head, read func(n int) (r Run, ok bool)) (out []Run) {
	type known struct{ rate, hot, fleet bool }
	have := map[string]*known{}
	order := make([]int, len(heads))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return heads[b].Start.Compare(heads[a].Start) })
	for _, n := range order {
		h := heads[n]
		k := have[h.Box]
		if k == nil {
			k = &known{}
			have[h.Box] = k
		}
		if k.fleet || !h.Fleet && k.rate && (k.hot || !slices.ContainsFunc(h.Settings, hot)) {
			continue
		}
		r, ok := read(n)
		if !ok {
			continue
		}
		if r.Records = j.Points(r.Records); len(r.Records) == 0 {
			continue
		}
		out = append(out, r)
		if h.Fleet {
			k.fleet = decides(r)
			continue
		}
		k.rate = true
		k.hot = k.hot || slices.ContainsFunc(r.Records, func(p result.Record) bool { return hot(p.Config) })
	}
	return out
}

// hot says whether a point with these settings measured a heated box.
func hot(settings []result.Pair) bool {
	heat := result.Get(settings, result.HeatKey)
	return heat != "" && heat != "0"
}

// decides says whether no older run of the same boards counts beside this one of a fleet: it
// has the rate of one board and that of several.
func decides(r Run) bool {
	one, several := false, false
	for _, p := range r.Records {
		n, err := strconv.Atoi(result.Get(p.Config, "nodes"))
		one = one || err == nil && n == 1
		several = several || err == nil && n > 1 && n <= Most
	}
	return one && several && !emulated(r.Run)
}

// emulated says whether a board of a fleet's run was emulated.
func emulated(r result.Run) bool {
	return slices.ContainsFunc(r.Machines, func(m result.Machine) bool { return m.Kind == "emulated" })
}
