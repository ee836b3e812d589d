// SPDX-License-Identifier: Apache-2.0

// Package reference holds published figures that results are held against, embedded,
// each with the note and the caution that a report must print beside it.
//
//	figures.csv  one figure a row: what was measured, its value, what is unfair in it
//	sources.csv  where each was published, and what a careful reader must know
package reference

import (
	"embed"
	"encoding/csv"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
)

//go:embed figures.csv sources.csv
var files embed.FS

// A Level is one condition that a figure was measured under: "udp_payload_bytes", "148".
type Level struct{ Factor, Value string }

// A Figure is one published number, in the unit in which it was published.
type Figure struct {
	Source     string // a Source's ID
	Experiment string // "capture_fixed_count"
	Subject    string // the program, board or model, as published
	Levels     []Level
	Metric     string // "cpu_percent_mean"
	Value      float64
	Unit       string // "%", "KB", "Mbit/s"; "": a number of things
	Note       string // on this figure; ""
}

// Level is the figure's value of factor, "" where it has none.
func (f Figure) Level(factor string) string {
	for _, l := range f.Levels {
		if l.Factor == factor {
			return l.Value
		}
	}
	return ""
}

// Said is all that must be said beside the figure: its own note, and the caution of its
// source; "" where nothing is known.
func (f Figure) Said() string {
	var parts []string
	if n := strings.TrimSpace(f.Note); n != "" {
		parts = append(parts, n)
	}
	if s, ok := SourceOf(f.Source); ok && s.Caution != "" {
		parts = append(parts, s.Caution)
	}
	return strings.Join(parts, "; ")
}

// A Source is where figures were published.
type Source struct {
	ID      string
	What    string // was measured
	Where   string // it was published
	Caution string // what a careful reader must know of all its figures; ""
}

// Figures are all, in the file's order; the slice is shared and must not be changed.
func Figures() []Figure { return figures() }

// SourceOf is the source of that ID.
func SourceOf(id string) (Source, bool) {
	i := slices.IndexFunc(sources(), func(s Source) bool { return s.ID == id })
	if i < 0 {
		return Source{}, false
	}
	return sources()[i], true
}

// Same says whether two names are of one subject: letters and digits alone tell.
func Same(a, b string) bool { return letters(a) == letters(b) }

// Of are the figures of an experiment whose subject is the one named and that were
// measured at all of levels; letters alone tell subjects apart, so that "pypcap-dpkt"
// is "pypcap+dpkt". "" is any experiment or subject.
func Of(experiment, subject string, levels ...Level) (out []Figure) {
	for _, f := range figures() {
		if experiment != "" && f.Experiment != experiment || subject != "" && !Same(f.Subject, subject) {
			continue
		}
		if slices.ContainsFunc(levels, func(l Level) bool { return f.Level(l.Factor) != l.Value }) {
			continue
		}
		out = append(out, f)
	}
	return out
}

// letters are the letters and digits of a name, small.
func letters(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		}
		return -1
	}, name)
}

var figures = sync.OnceValue(func() (out []Figure) {
	for i, r := range rows("figures.csv", 11) {
		v, err := strconv.ParseFloat(r[8], 64)
		if err != nil {
			panic(fmt.Sprintf("reference: figures.csv: figure %d: %q is no number", i+1, r[8]))
		}
		f := Figure{Source: r[0], Experiment: r[1], Subject: r[2], Metric: r[7], Value: v, Unit: r[9], Note: r[10]}
		for _, l := range []Level{{r[3], r[4]}, {r[5], r[6]}} {
			if l.Factor != "" {
				f.Levels = append(f.Levels, l)
			}
		}
		out = append(out, f)
	}
	return out
})

var sources = sync.OnceValue(func() (out []Source) {
	for _, r := range rows("sources.csv", 4) {
		out = append(out, Source{ID: r[0], What: r[1], Where: r[2], Caution: r[3]})
	}
	return out
})

// rows are the lines of an embedded file without its head. What is wrong with it is
// wrong in every copy of this binary, so a test sees it.
func rows(name string, columns int) [][]string {
	f, err := files.Open(name)
	if err != nil {
		panic("reference: " + err.Error())
	}
	defer f.Close()
	r := csv.NewReader(f)
	r.FieldsPerRecord = columns
	all, err := r.ReadAll()
	if err != nil || len(all) < 2 {
		panic(fmt.Sprintf("reference: %s: %v", name, err))
	}
	return all[1:]
}
