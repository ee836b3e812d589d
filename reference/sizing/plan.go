// SPDX-License-Identifier: Apache-2.0

package sizing

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// Most is the largest number of boxes that a plan has.
const Most = 10000

// Options are how a plan is made.
type Options struct {
	Spare  int    // boxes that may fail
	Shared []Part // of a plan with more than one box, in the place of what a run says of that name
	// Declared are parts that boxes are declared to share once for all: they count where
	// neither Shared nor the run has one of that name.
	Declared []Part
	Boards   []string // only boxes of these IDs or names; none: all
	// Against are the boxes that a cluster of another is compared with; none: no crossovers.
	Against []string
	// MeasuredOnly leaves out linear crossovers and curves, which take most of a plan's time.
	MeasuredOnly bool
	Draws        int    // of the Monte Carlo; 0: 4000
	Seed         uint64 // 0: 1
}

// A Count is a number of boxes with its interval. Infinite ends are Most.
type Count struct {
	Value int `json:"value"`
	Lo    int `json:"lo"`
	Hi    int `json:"hi"`
}

// A Row says how many of one box carry the load.
type Row struct {
	Candidate
	Number  Count     `json:"number"`                   // of boxes, Spare included, each doing as much as one alone does, unless Scaling says otherwise
	Price   *Estimate `json:"total_usd,omitempty"`      // with shared parts; nil: a box's price is not known
	Watts   *Estimate `json:"total_watts,omitempty"`    // with shared parts, all boxes under load
	Joules  *Estimate `json:"joules_per,omitempty"`     // of one unit of work: Job.Work
	Room    float64   `json:"head_room"`                // what all boxes do beyond the load, as a share of it
	Failed  float64   `json:"head_room_failed"`         // the same with one box less; below 0: the load is not carried
	Steps   []Step    `json:"together,omitempty"`       // what numbers of them did together, measured
	Heat    *float64  `json:"heat,omitempty"`           // soaked rate as a share of the cold one; nil: not measured
	Several *Count    `json:"number_several,omitempty"` // by measured rates of several boxes: the first measured number that carries the load; Lo: one above the last that does not
	Scaling string    `json:"scaling,omitempty"`        // Measured: Number is by rates of several boxes of one's own; "": linear
	Beyond  bool      `json:"beyond,omitempty"`         // more than Most, or more than were measured
	Notes   []string  `json:"notes,omitempty"`
}

// A Result is a plan.
type Result struct {
	Job        Job         `json:"job"`
	Unit       string      `json:"unit"`
	WorkUnit   string      `json:"work_unit"` // of joules
	Spare      int         `json:"spare"`
	Shared     []Part      `json:"shared,omitempty"`          // of every row, beside a row's own
	Declared   []Part      `json:"declared_shared,omitempty"` // in the file of boxes; a row's own has those that count there
	Method     string      `json:"method"`
	Draws      int         `json:"draws"`
	Seed       uint64      `json:"seed,string"`
	Rows       []Row       `json:"rows"`
	Crossovers []Crossover `json:"crossovers,omitempty"`
	Curves     []Curve     `json:"curves,omitempty"`
	Missing    []string    `json:"missing,omitempty"` // boxes that were named and have no figure of the job
}

// Plan says how many of each candidate carry the job's load, and from how many on one
// passes another.
func Plan(j Job, candidates []Candidate, o Options) (Result, error) {
	if err := j.Check(); err != nil {
		return Result{}, err
	}
	if o.Spare < 0 || o.Spare > 100 || o.Draws < 0 || o.Draws > 1e6 {
		return Result{}, fmt.Errorf("spare boxes are 0 to 100, draws up to 1,000,000")
	}
	o.Draws, o.Seed = cmp.Or(o.Draws, defaultDraws), cmp.Or(o.Seed, 1)
	work, _ := j.Work()
	r := Result{Job: j, Unit: j.Unit(), WorkUnit: work, Spare: o.Spare, Shared: o.Shared, Declared: o.Declared, Method: Method, Draws: o.Draws, Seed: o.Seed, Rows: []Row{}}
	for _, c := range candidates {
		if len(o.Boards) > 0 && !slices.ContainsFunc(append(slices.Clone(o.Boards), o.Against...), c.Is) {
			continue
		}
		if c.Fleet && len(c.Measured) == 0 {
			continue // what if its rate were another one: nothing of several was measured then
		}
		r.Rows = append(r.Rows, o.row(j, c))
	}
	for _, name := range append(slices.Clone(o.Boards), o.Against...) {
		if !slices.ContainsFunc(candidates, func(c Candidate) bool { return c.Is(name) }) {
			r.Missing = append(r.Missing, name)
		}
	}
	slices.SortStableFunc(r.Rows, compare)
	o.cross(&r)
	return r, nil
}

// compare puts own figures first, then what is cheaper, then fewer boxes.
func compare(a, b Row) int {
	price := func(r Row) float64 {
		if r.Price == nil || r.Beyond {
			return math.Inf(1)
		}
		return r.Price.Value
	}
	own := func(r Row) int {
		if r.Origin == OwnRun {
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(own(a), own(b)), cmp.Compare(price(a), price(b)), cmp.Compare(a.Number.Value, b.Number.Value), cmp.Compare(a.Key(), b.Key()))
}

// row plans one candidate. Draws of a row do not depend on which other rows there are.
func (o Options) row(j Job, c Candidate) Row {
	c.Shared = o.beside(c) // what counts for this row, beside Result.Shared
	row := Row{Candidate: c, Steps: o.steps(j, c)}
	if c.Soaked != nil && c.Rate.Value > 0 {
		share := c.Soaked.Value / c.Rate.Value
		row.Heat = &share
	}
	if j.Load == 0 {
		return row
	}
	rate := c.holds()
	n := boxes(j.Load, rate.Value) + o.Spare
	rnd := o.random(c)
	counts, prices, watts := make([]float64, o.Draws), make([]float64, o.Draws), make([]float64, o.Draws)
	for i := range o.Draws {
		k := float64(boxes(j.Load, rate.draw(rnd)) + o.Spare)
		counts[i] = k
		u, w := o.sums(c, int(k))
		if c.Price != nil {
			prices[i] = u + k*c.Price.draw(rnd)
		}
		if c.Watts != nil {
			watts[i] = w + k*c.Watts.draw(rnd)
		}
	}
	usd, power := o.sums(c, n)
	e := estimated(float64(n), counts)
	row.Number = Count{n, int(e.Lo), int(e.Hi)}
	row.Beyond = n >= Most
	if c.Price != nil {
		p := estimated(usd+float64(n)*c.Price.Value, prices)
		row.Price = &p
	}
	if c.Watts != nil {
		w := estimated(power+float64(n)*c.Watts.Value, watts)
		_, of := j.Work()
		per := of / j.Load
		row.Watts, row.Joules = &w, &Estimate{Value: w.Value * per, Lo: w.Lo * per, Hi: w.Hi * per}
	}
	row.Room = float64(n)*rate.Value/j.Load - 1
	row.Failed = float64(n-1)*rate.Value/j.Load - 1
	row.several(j, o.Spare)
	o.scale(&row, j)
	return row
}

// boxes is how many carry the load, at most Most.
func boxes(load, rate float64) int {
	n := math.Ceil(load/rate - 1e-9)
	if !(n < Most) {
		return Most
	}
	return max(int(n), 1)
}

// several finds the first measured number of boxes that carried the load together.
func (r *Row) several(j Job, spare int) {
	last := 0
	for _, m := range r.Measured {
		if m.Value >= j.Load {
			r.Several = &Count{m.N + spare, last + 1 + spare, m.N + spare}
			return
		}
		last = m.N
	}
	if last > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("%d together, the most measured, do %s", last, j.Rate(r.Measured[len(r.Measured)-1].Value)))
	}
}

// random is a source of draws for one candidate.
func (o Options) random(c Candidate) *rand.Rand {
	h := uint64(14695981039346656037)
	for _, b := range []byte(c.Key()) {
		h = (h ^ uint64(b)) * 1099511628211
	}
	return rand.New(rand.NewPCG(o.Seed, h))
}
