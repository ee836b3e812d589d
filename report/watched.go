// SPDX-License-Identifier: Apache-2.0

package report

import (
	"slices"
	"strings"

	"boxdyno/report/internal/sensed"
	"boxdyno/result"
)

// Watched is what telemetry's digests say of all trials of a run but self-tests: the
// extremes that a reader asks for first. What nothing told of is absent.
type Watched struct {
	Hottest   *Reading    `json:"hottest,omitempty"`      // °C
	Slowest   *Reading    `json:"lowest_clock,omitempty"` // Hz, by the most trustworthy source
	Watts     *Reading    `json:"most_power,omitempty"`   // W, mean over a trial's traffic
	Busiest   *Busy       `json:"busiest_cpu,omitempty"`  // in softirq
	Throttled []string    `json:"throttled,omitempty"`    // flags that were set, or counters that grew
	Lost      []PlaceLost `json:"lost_frames,omitempty"`  // in path order, by telemetry's counters: as told and not
}

// A Reading is an extreme value, of which sensor and in which trial.
type Reading struct {
	Value float64 `json:"value"`
	Of    string  `json:"of"`
	Trial string  `json:"trial"` // a Record's ID
}

// Busy is how the busiest CPU's time was used over the traffic of trials of one kind
// at one point: shares in [0, 1]. The tester's own CPU is none of the box's.
type Busy struct {
	CPU     string  `json:"cpu"`
	Softirq float64 `json:"softirq"`
	Work    float64 `json:"all_work"` // softirq included, steal not
	Point   string  `json:"point"`    // a Record's ID
	Trials  string  `json:"trials"`   // their kind: "overload"
}

// PlaceLost is the frames lost at a place.
type PlaceLost struct {
	Place  result.Place `json:"place"`
	Frames int64        `json:"frames"`
}

// watched is nil where no trial has digests.
func watched(run result.Run, recs []result.Record) *Watched {
	w := &Watched{}
	cpus := usedCPUs{tester: map[string]bool{}}
	for _, env := range run.Environments {
		if cpu := result.Get(env, "tester_cpu"); cpu != "" && cpu != result.Get(env, "dut_cpu") {
			cpus.tester[cpu] = true
		}
	}
	lost := map[result.Place]float64{}
	seen := false
	for _, r := range recs {
		if len(r.Digests) > 0 && r.Account != nil && IntoBox(r) {
			for _, p := range []result.Place{result.XDP, result.DUTNIC} {
				lost[p] += float64(r.Account.DroppedAt(p))
			}
		}
	}
	rank := 0.0 // of the source of the lowest clock
	for _, r := range recs {
		if r.Parent == "" || r.Parent == SelfTestProcedure {
			continue
		}
		for _, d := range r.Digests {
			if d.Series < 0 || d.Series >= len(run.Series) {
				continue
			}
			seen = true
			s := run.Series[d.Series]
			if IntoBox(r) && (s.Place == result.XDP || s.Place == result.DUTNIC) {
				continue // what the box counted there is among them; the account has the others
			}
			if s.Name == "node_cpu_seconds_total" && !s.OfTester() {
				cpus.add(r, s, d)
			}
			for _, x := range sensed.Of(s) {
				switch name := strings.ReplaceAll(x.Name, "\x00", ", CPU "); x.Kind {
				case "temperature":
					if w.Hottest == nil || d.Max > w.Hottest.Value {
						w.Hottest = &Reading{d.Max, name, r.ID}
					}
				case "clock":
					if w.Slowest == nil || x.Order < rank || x.Order == rank && d.Min < w.Slowest.Value {
						w.Slowest, rank = &Reading{d.Min, name, r.ID}, x.Order
					}
				case "power":
					if w.Watts == nil || d.Mean > w.Watts.Value {
						w.Watts = &Reading{d.Mean, name, r.ID}
					}
				case "throttled":
					if (d.Max > 0 || d.Growth > 0) && !slices.Contains(w.Throttled, x.Row) {
						w.Throttled = append(w.Throttled, x.Row)
					}
				case "drops":
					if s.Place == result.Routing && IntoCapture(r) {
						continue // there frames end that the subject has had
					}
					lost[s.Place] += d.Growth
				}
			}
		}
	}
	if !seen {
		return nil
	}
	for _, p := range result.Places {
		if n := int64(lost[p] + 0.5); n > 0 {
			w.Lost = append(w.Lost, PlaceLost{p, n})
		}
	}
	w.Busiest = cpus.busiest()
	return w
}

// IntoCapture reports whether a trial or point loads a program that captures, or the box without
// it: frames end behind the program's socket, where they are no loss.
func IntoCapture(r result.Record) bool {
	return slices.Contains([]string{CaptureProcedure, IDSProcedure, emptyBox, idleIDS}, r.Procedure)
}

// IntoBox reports whether a trial or point replays a capture into the box: a program at the box's
// port counts its frames, which end there, and a driver may count each as dropped.
func IntoBox(r result.Record) bool {
	return r.Procedure == replayProcedure && result.Get(r.Config, "target") == "box"
}

// usedCPUs adds up what CPUs did in the traffic of trials of one kind at one point:
// a single one of 50 ms is too short for times in steps of 10 ms.
type usedCPUs struct {
	tester map[string]bool
	list   []*usedCPU
}

type usedCPU struct {
	cpu, point, kind    string
	softirq, work, time float64 // s
	last                string  // trial whose time is in time
}

func (u *usedCPUs) add(r result.Record, s result.Series, d result.Digest) {
	mode := result.Get(s.Labels, "mode")
	cpu, kind := result.Get(s.Labels, "cpu"), result.Get(r.Config, "trial")
	if r.Status == result.Invalid || u.tester[cpu] && result.Get(s.Labels, result.MachineLabel) == "" {
		return
	}
	i := slices.IndexFunc(u.list, func(c *usedCPU) bool { return c.cpu == cpu && c.point == r.Parent && c.kind == kind })
	if i < 0 {
		i = len(u.list)
		u.list = append(u.list, &usedCPU{cpu: cpu, point: r.Parent, kind: kind})
	}
	c := u.list[i]
	took := float64(r.End-r.Begin) / 1e9
	for _, p := range r.Phases {
		if p.Name == "traffic" {
			took = float64(p.End-p.Begin) / 1e9
		}
	}
	if c.last != r.ID {
		c.last, c.time = r.ID, c.time+took
	}
	switch mode {
	case "softirq":
		c.softirq += d.Mean * took
		c.work += d.Mean * took
	case "user", "nice", "system", "irq":
		c.work += d.Mean * took
	}
}

// leastTime is that of traffic over which a CPU's shares are told, s: 20 of the
// kernel's ticks.
const leastTime = 0.2

func (u *usedCPUs) busiest() *Busy {
	var most *usedCPU
	for _, c := range u.list {
		if c.time >= leastTime && c.work > 0 && (most == nil || c.work/c.time > most.work/most.time) {
			most = c
		}
	}
	if most == nil {
		return nil
	}
	share := func(s float64) float64 { return min(s/most.time, 1) } // ticks at both ends may count too much
	return &Busy{CPU: most.cpu, Softirq: share(most.softirq), Work: share(most.work), Point: most.point, Trials: most.kind}
}
