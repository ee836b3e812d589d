// SPDX-License-Identifier: Apache-2.0

package sizing

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// A WhatIf multiplies one figure of one board.
type WhatIf struct {
	Figure string // "rate", "price", "watts", or the algorithm of the job's cipher, which is its rate
	Board  string // ID or name; "": the one board that was asked for
	Factor float64
}

// WhatIfHelp describes what ParseWhatIf reads.
const WhatIfHelp = "FIGURE[@BOARD]=FACTORx, such as aes@rpi-4-b=5x; FIGURE is rate, price, watts, or the\nalgorithm of the cipher asked for (aes, twofish, serpent), which is its rate"

// ParseWhatIf reads "aes@rpi-4-b=5x".
func ParseWhatIf(s string) (w WhatIf, err error) {
	what, factor, ok := strings.Cut(s, "=")
	n, times := strings.CutSuffix(factor, "x")
	w.Figure, w.Board, _ = strings.Cut(what, "@")
	w.Factor, err = strconv.ParseFloat(n, 64)
	if !ok || !times || err != nil || !(w.Factor > 0) || math.IsInf(w.Factor, 0) || w.Figure == "" {
		return w, fmt.Errorf("what-if %q: want %s", s, WhatIfHelp)
	}
	return w, nil
}

// Apply multiplies the figure, and notes it. Measured rates of several boxes are
// dropped where the rate changes: they were measured without the factor. It fails where
// the figure is not part of the job, or no candidate is of that board.
func (w WhatIf) Apply(j Job, candidates []Candidate) error {
	algorithm, _, _ := strings.Cut(j.Cipher, "-")
	switch {
	case w.Figure == "rate" || w.Figure == "price" || w.Figure == "watts":
	case algorithm == "" || w.Figure != algorithm:
		return fmt.Errorf("what-if: %s is no figure of %s: there are rate, price, watts%s", w.Figure, j.Words(), orAlgorithm(algorithm))
	}
	found := false
	for i := range candidates {
		c := &candidates[i]
		if !c.Is(w.Board) {
			continue
		}
		done := true
		switch w.Figure {
		case "price":
			c.Price, done = c.Price.times(w.Factor), c.Price != nil
		case "watts":
			c.Watts, done = c.Watts.times(w.Factor), c.Watts != nil
			c.Power = nil
		default:
			c.Rate, c.Soaked = *(&c.Rate).times(w.Factor), c.Soaked.times(w.Factor)
			c.Measured = nil
		}
		if done {
			found = true
			c.WhatIf = append(c.WhatIf, fmt.Sprintf("%s x %g", w.Figure, w.Factor))
		}
	}
	if !found {
		return fmt.Errorf("what-if: %q has no %s of %s", w.Board, w.Figure, j.Words())
	}
	return nil
}

func orAlgorithm(a string) string {
	if a == "" {
		return ""
	}
	return " and " + a
}

// times multiplies an estimate; nil stays nil.
func (e *Estimate) times(f float64) *Estimate {
	if e == nil {
		return nil
	}
	return &Estimate{e.Value * f, e.Lo * f, e.Hi * f, e.Bound}
}
