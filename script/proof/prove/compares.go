// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"

	"boxdyno/report"
	"boxdyno/result"
	"boxdyno/stat"
	"boxdyno/unit"
)

// overloadRate is the figure that the box's planted limit shows in.
const overloadRate = "forwarding_rate_fps"

// slower is one planted limit's share of the other.
const slower = 0.95

// compares measures a box n times, itself again n times, and n times each with a
// limit planted well below its own and with one that is 5 % lower, the four in
// turn in shuffled order, and returns how many of its claims fail:
//
//   - of 100 ways to deal the runs of the same box to two sides, at least 90 say ~,
//   - of 100 draws of as many runs of the two limits as are stated for 5 % at the
//     scatter seen, at least 90 find the lower one.
func compares(ctx context.Context, binary, dir string, n int, seed uint64) (failed int, err error) {
	random := rand.New(rand.NewPCG(seed, 1))
	one := func(name string, args ...string) (report.Kept, error) {
		out := filepath.Join(dir, "compare-"+name)
		if _, err := timed(ctx, binary, append([]string{"run", "forward", "--quick", "--quiet", "--set", "frame_size=64", "--set", "search=none", "--out", out}, args...)...); err != nil {
			return report.Kept{}, err
		}
		run, recs, err := result.Open(out)
		return report.Kept{Document: report.Summarize(run, recs), Records: recs}, err
	}
	fmt.Printf("%d runs each of a box, of the same again, of a planted limit, and of one that is %.0f %% lower, in turn, seed %d\n", n, (1-slower)*100, seed)
	var rates []float64
	for i := range 5 {
		run, err := one("first" + strconv.Itoa(i))
		if err != nil {
			return 0, err
		}
		for _, r := range run.Document.Rows {
			if r.ForwardingFPS != nil {
				rates = append(rates, *r.ForwardingFPS)
			}
		}
	}
	if len(rates) == 0 {
		return 0, errors.New("no run of the box has a rate under overload")
	}
	slices.Sort(rates)
	limit := 0.75 * rates[len(rates)/2]
	sides := []report.Side{{Name: "box"}, {Name: "again"}, {Name: "limited"}, {Name: "lower"}}
	for i := range n {
		for _, k := range random.Perm(len(sides)) {
			var args []string
			switch k {
			case 2:
				args = []string{"--set", "dut.policer=" + strconv.Itoa(int(limit))}
			case 3:
				args = []string{"--set", "dut.policer=" + strconv.Itoa(int(slower*limit))}
			}
			run, err := one(fmt.Sprint(k, "-", i), args...)
			if err != nil {
				return 0, err
			}
			sides[k].Runs = append(sides[k].Runs, run)
		}
	}
	return compareClaims(random, sides[0], sides[1], sides[2], sides[3])
}

// compareClaims is how many of the claims fail of as many runs of a box, of the
// same again, of a limit, and of a lower one.
func compareClaims(random *rand.Rand, a, b, limited, lower report.Side) (failed int, err error) {
	n := len(a.Runs)
	row, err := compareSides(a, b)
	if err != nil {
		return 0, err
	}
	fmt.Printf("the same box: %s, %s against %s, p = %s\n", row.Verdict, unit.SI(row.Base.Median), unit.SI(row.Other.Median), corrected(row))
	alike := 0
	all := slices.Concat(a.Runs, b.Runs)
	for range 100 {
		random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		row, err := compareSides(report.Side{Name: "A", Runs: all[:n]}, report.Side{Name: "B", Runs: all[n:]})
		if err != nil {
			return 0, err
		}
		if row.Verdict == report.Alike {
			alike++
		}
	}
	fmt.Printf("the same box, runs dealt at random: ~ in %d of 100\n", alike)
	if alike < 90 {
		failed++
	}
	if row, err = compareSides(limited, lower); err != nil {
		return 0, err
	}
	fmt.Printf("the lower limit: %s, %+.1f %%, p = %s\n", row.Verdict, row.Effect*100, corrected(row))
	if row.Spread == nil {
		return failed, errors.New("the runs have no scatter: it takes two of each at least")
	}
	need := stat.LeastRepeats(1)
	if *row.Spread > 0 {
		need = stat.RepeatsFor(1-slower, *row.Spread, 1)
	}
	if need > n {
		fmt.Printf("runs scatter by %.1f %%: to find it takes %d of each side, and these are %d\n\n", *row.Spread*100, need, n)
		return failed + 1, nil
	}
	found := 0
	for range 100 {
		row, err := compareSides(draw(random, limited, need), draw(random, lower, need))
		if err != nil {
			return 0, err
		}
		if row.Verdict == report.Worse {
			found++
		}
	}
	fmt.Printf("runs scatter by %.1f %%: %d of each side are stated to find it, and find it in %d of 100 draws\n\n", *row.Spread*100, need, found)
	if found < 90 {
		failed++
	}
	return failed, nil
}

func draw(random *rand.Rand, s report.Side, n int) report.Side {
	out := report.Side{Name: s.Name}
	for _, i := range random.Perm(len(s.Runs))[:n] {
		out.Runs = append(out.Runs, s.Runs[i])
	}
	return out
}

// compareSides is what the rate under overload says, as the only figure: the
// claims are about one.
func compareSides(a, b report.Side) (report.ComparedRow, error) {
	c, err := report.Compare("", []report.Side{only(a), only(b)}, []string{"dut.policer", "dut.policer_burst"})
	if err != nil {
		return report.ComparedRow{}, err
	}
	return c.Metrics[0].Rows[0], nil
}

var judged = []result.Status{result.Passed, result.Failed, result.Invalid}

// only leaves the rate under overload in a side's points. A point whose latency was
// disturbed has a valid rate all the same.
func only(s report.Side) report.Side {
	out := report.Side{Name: s.Name}
	for _, k := range s.Runs {
		var recs []result.Record
		for _, r := range k.Records {
			if v := r.Value(overloadRate); r.Parent == "" && v != nil && slices.Contains(judged, r.Status) {
				r.Values, r.Status = []result.Value{*v}, result.Passed
				recs = append(recs, r)
			}
		}
		out.Runs = append(out.Runs, report.Kept{Document: k.Document, Records: recs})
	}
	return out
}

func corrected(r report.ComparedRow) string {
	if r.PHolm == nil {
		return "?"
	}
	return strconv.FormatFloat(*r.PHolm, 'g', 2, 64)
}
