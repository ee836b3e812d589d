// SPDX-License-Identifier: Apache-2.0

// Package sizing says how many of which box carry a load, what they cost and draw, and
// from how many on a cluster of one box passes another. Pure.
//
//	Job + runs   --Own-------> Candidates (own figures)
//	Job          --Published-> Candidates (published figures and the catalogue of boards)
//	Candidates   --Plan------> Result: rows, crossovers, curves
//
// Intervals are carried through by Monte Carlo: each figure is drawn from a split normal
// distribution whose 2.5 and 97.5 % quantiles are the ends of its interval. A figure
// without an interval is taken as it is. The seed is in the result.
package sizing

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"boxdyno/reference/boards"
	"boxdyno/unit"
)

// Jobs are the kinds of jobs.
var Jobs = []string{IDS, Firewall, Crypto, HPL}

// A Job is what boxes shall do together.
type Job struct {
	Kind      string  `json:"for"`
	Load      float64 `json:"load"`                // in Unit; 0: none, crossovers alone are of interest
	Rules     int     `json:"rules,omitempty"`     // of an IDS or a firewall, at least
	Cipher    string  `json:"cipher,omitempty"`    // "twofish-cbc-256"
	Direction string  `json:"direction,omitempty"` // "encrypt", "decrypt"
}

// Unit is the unit of a job's rates.
func (j Job) Unit() string {
	return map[string]string{IDS: "bit/s", Firewall: "frame/s", Crypto: "B/s", HPL: "flop/s"}[j.Kind]
}

// Words are the job in words.
func (j Job) Words() string {
	words := []string{j.Kind}
	if j.Kind == Crypto {
		words = append(words, j.Cipher, j.Direction)
	}
	if j.Rules > 0 {
		words = append(words, fmt.Sprintf("%d rules", j.Rules))
	}
	return strings.Join(words, ", ")
}

// Rate is a rate of the job in its usual unit: "250 MiB/s", "1.49 Mframe/s".
func (j Job) Rate(v float64) string {
	switch j.Kind {
	case Crypto:
		return strconv.FormatFloat(v/(1<<20), 'g', 4, 64) + " MiB/s"
	case HPL:
		return strconv.FormatFloat(v/1e9, 'g', 4, 64) + " GFLOPS"
	}
	return unit.SI(v) + j.Unit()
}

// Work is the unit of which joules are told, and how much of the job's unit it is.
func (j Job) Work() (name string, of float64) {
	switch j.Kind {
	case Crypto:
		return "MiB", 1 << 20
	case HPL:
		return "Gflop", 1e9
	case Firewall:
		return "Mframe", 1e6
	}
	return "Gbit", 1e9
}

// Check says what is wrong with a job.
func (j Job) Check() error {
	switch {
	case !slices.Contains(Jobs, j.Kind):
		return fmt.Errorf("the jobs are %s, not %q", strings.Join(Jobs, ", "), j.Kind)
	case math.IsNaN(j.Load) || math.IsInf(j.Load, 0) || j.Load < 0:
		return fmt.Errorf("the load must be a positive number")
	case j.Kind == Crypto && j.Cipher == "":
		return fmt.Errorf("crypto needs a cipher, such as aes-xts-256")
	case j.Kind == Crypto && j.Direction != "encrypt" && j.Direction != "decrypt":
		return fmt.Errorf("the directions are encrypt and decrypt, not %q", j.Direction)
	case j.Kind != Crypto && j.Cipher != "":
		return fmt.Errorf("only crypto has a cipher")
	case j.Rules < 0 || j.Rules > 0 && j.Kind != IDS && j.Kind != Firewall:
		return fmt.Errorf("only ids and firewall have rules, 0 or more")
	}
	return nil
}

// ParseLoad reads a load in the job's unit: "1Gbps", "1.488Mframe/s", "250MiB/s",
// "50GFLOPS".
func (j Job) ParseLoad(s string) (float64, error) {
	switch j.Kind {
	case IDS:
		r, err := unit.ParseBitRate(s)
		return float64(r), err
	case Firewall:
		r, err := unit.ParseFrameRate(s)
		return float64(r), err
	case Crypto:
		for suffix, of := range map[string]float64{"MiB/s": 1 << 20, "GiB/s": 1 << 30, "MB/s": 1e6, "GB/s": 1e9} {
			if n, ok := strings.CutSuffix(s, suffix); ok {
				if v, err := positive(n); err == nil {
					return v * of, nil
				}
			}
		}
		return 0, fmt.Errorf("load %q: want a positive number of MiB/s, GiB/s, MB/s or GB/s, such as 250MiB/s", s)
	case HPL:
		for _, u := range []struct {
			suffix string
			of     float64
		}{{"GFLOPS", 1e9}, {"Gflop/s", 1e9}, {"TFLOPS", 1e12}, {"Tflop/s", 1e12}, {"MFLOPS", 1e6}} {
			if n, ok := strings.CutSuffix(s, u.suffix); ok {
				if v, err := positive(n); err == nil {
					return v * u.of, nil
				}
			}
		}
		return 0, fmt.Errorf("load %q: want a positive number of GFLOPS, such as 50GFLOPS", s)
	}
	return 0, fmt.Errorf("the jobs are %s, not %q", strings.Join(Jobs, ", "), j.Kind)
}

func positive(s string) (float64, error) {
	v, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	if err != nil || !(v > 0) || math.IsInf(v, 0) {
		return 0, strconv.ErrSyntax
	}
	return v, nil
}

// An Estimate is a figure with its interval; Lo and Hi are Value where none is known.
type Estimate struct {
	Value float64 `json:"value"`
	Lo    float64 `json:"lo"`
	Hi    float64 `json:"hi"`
	Bound string  `json:"bound,omitempty"` // ">=", "<=": a limit of it
}

// Exact is a figure without an interval.
func Exact(v float64) Estimate { return Estimate{Value: v, Lo: v, Hi: v} }

// A Node is what so many boxes did together; Lo and Hi are 0 where no interval is known.
type Node struct {
	N     int     `json:"n"`
	Value float64 `json:"value"`
	Lo    float64 `json:"lo,omitempty"`
	Hi    float64 `json:"hi,omitempty"`
}

// estimate is the node's figure.
func (n Node) estimate() Estimate {
	if n.Lo == 0 && n.Hi == 0 {
		return Exact(n.Value)
	}
	return Estimate{Value: n.Value, Lo: n.Lo, Hi: n.Hi}
}

// Where the rate of a candidate comes from.
const (
	OwnRun    = "own"
	Publicly  = "published"
	Catalogue = "catalogue" // published too, and kept with the catalogue of boards
)

// A Figure is a number that a candidate has from somewhere, in words.
type Figure struct {
	What   string `json:"what"` // "rate", "price", "watts", "rates of several", "shared switch"
	Text   string `json:"text"`
	Source string `json:"source"`
	Said   string `json:"said,omitempty"` // what must be said beside it
}

// A Candidate is a box that may do the job, with the figures that are known of it. What
// is not known is nil.
type Candidate struct {
	Name   string `json:"name"`            // as its user or its publication calls it
	Board  string `json:"board,omitempty"` // ID in the catalogue; "": not in it
	Origin string `json:"origin"`          // of the rate
	// Fleet says that it is boards which were measured together: its numbers are by that
	// alone, and what one board did stands apart, as a box that scales linearly.
	Fleet bool `json:"fleet,omitempty"`

	Rate   Estimate  `json:"rate"`             // of one box
	Soaked *Estimate `json:"soaked,omitempty"` // the same, hot
	Price  *Estimate `json:"price_usd,omitempty"`
	Watts  *Estimate `json:"watts,omitempty"` // of one box under load

	Measured []Node `json:"measured,omitempty"`       // rates of several boxes together, ascending
	Power    []Node `json:"measured_watts,omitempty"` // of as many, in W: of them alone, without idle boards and shared parts
	Shared   []Part `json:"shared,omitempty"`         // what they shared when they were measured; in a plan without those that it names itself

	Figures []Figure `json:"figures"`
	WhatIf  []string `json:"what_if,omitempty"` // figures that were multiplied, in words
}

// Key tells candidates apart: board and name.
func (c Candidate) Key() string { return c.Board + "|" + c.Name + "|" + c.Origin }

// Is says whether the candidate is the one of that board's ID or name. Boards of a fleet
// have the ID of their model, too.
func (c Candidate) Is(name string) bool {
	return name != "" && (c.Board == name || strings.EqualFold(c.Name, name))
}

// holds is the rate that one box holds: the heat-soaked one where it is known.
func (c Candidate) holds() Estimate {
	if c.Soaked != nil {
		return *c.Soaked
	}
	return c.Rate
}

// known fills in price and power from the catalogue, where the candidate has none.
func (c *Candidate) known(j Job) {
	b, ok := boards.Find(c.Board)
	if !ok {
		return
	}
	if p, v, ok := b.Price("USD"); ok && c.Price == nil {
		e := Exact(p.Amount)
		c.Price = &e
		c.cite("price", v.Text, v)
	}
	keys := []string{"load"}
	if j.Kind == HPL {
		keys = []string{"load_hpl", "load"}
	}
	for _, k := range keys {
		if vs := b.Of(k); c.Watts == nil && len(vs) > 0 {
			w, _ := strconv.ParseFloat(vs[0].Text, 64) // checked when it was read
			e := Exact(w)
			c.Watts = &e
			c.cite("watts", vs[0].Text+" W", vs[0])
		}
	}
}

// cite notes where a value of the catalogue comes from.
func (c *Candidate) cite(what, text string, v boards.Value) {
	where := v.Source
	if s, ok := boards.SourceOf(v.Source); ok {
		where = s.What
	}
	c.Figures = append(c.Figures, Figure{What: what, Text: text, Source: where, Said: v.Note})
}
