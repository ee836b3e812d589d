// SPDX-License-Identifier: Apache-2.0

package text

import (
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"boxdyno/report"
	"boxdyno/report/internal/grid"
	"boxdyno/result"
	"boxdyno/unit"
)

// The bounds of texts in the Phoronix Test Suite's schema, in characters.
const (
	mostTitle      = 50 // of a result; older ones have it of the file, too
	mostIdentifier = 128
	mostAbout      = 2048
)

// The elements of composite.xml, in the schema's order.
type (
	ptsFile struct {
		XMLName   xml.Name     `xml:"PhoronixTestSuite"`
		Generated ptsGenerated `xml:"Generated"`
		Systems   []ptsSystem  `xml:"System"`
		Results   []*ptsResult `xml:"Result"`
	}
	ptsGenerated struct {
		Title        string
		LastModified string
		TestClient   string
		Description  string
		Notes        string `xml:",omitempty"`
	}
	ptsSystem struct {
		Identifier        string
		Hardware          string
		Software          string
		User              string
		TimeStamp         string
		TestClientVersion string
		Notes             string
	}
	ptsResult struct {
		Identifier    string
		Title         string
		AppVersion    string
		Arguments     string
		Description   string
		Scale         string
		Proportion    string
		DisplayFormat string
		Entries       []*ptsEntry `xml:"Data>Entry"`
	}
	ptsEntry struct {
		Identifier string
		Value      string
		RawString  string
		values     []float64
	}
)

// Phoronix writes the figures of all valid points as composite.xml, the Phoronix Test
// Suite's file of results: a system for each run, and a result for each metric of a point
// that has a better end. A value is the mean of its repeats, as that program has it, in
// base units. Runs without such a figure are ErrNothing.
func Phoronix(w io.Writer, runs ...report.Kept) error {
	var f ptsFile
	var last time.Time
	var titles, notes []string
	results := map[string]*ptsResult{}
	for i, run := range runs {
		d := run.Document
		name := nameOf(d)
		if slices.ContainsFunc(runs, func(o report.Kept) bool { return o.Document.ID != d.ID && nameOf(o.Document) == name }) {
			name += ", " + d.ID
		}
		name = ptsText(name, mostIdentifier)
		if slices.ContainsFunc(f.Systems, func(s ptsSystem) bool { return s.Identifier == name }) {
			name = ptsText(fmt.Sprintf("%d, %s", i+1, name), mostIdentifier)
		}
		s := ptsSystem{Identifier: name, TimeStamp: ptsTime(d.Start), TestClientVersion: grid.Clean(d.Version), Notes: grid.Clean(d.Caveat)}
		if m := tested(d); m != nil {
			s.Hardware, s.Software = ptsMachine(m)
		}
		n := len(f.Results)
		found := false
		for _, r := range points(run) {
			for _, v := range r.Values {
				m := metricOf(d.Metrics, v.Metric)
				if m == nil || m.Better == 0 || math.IsNaN(v.Value) || math.IsInf(v.Value, 0) {
					continue
				}
				one := ptsResultOf(r, v, m)
				key := one.Identifier + "\n" + one.Arguments + "\n" + one.Description
				if results[key] == nil {
					results[key] = one
					f.Results = append(f.Results, one)
				}
				results[key].add(name, v.Value)
				found = true
			}
		}
		if !found && n == len(f.Results) {
			continue
		}
		f.Systems = append(f.Systems, s)
		if d.Start.After(last) {
			last, f.Generated.TestClient = d.Start, "boxdyno "+grid.Clean(d.Version)
		}
		titles, notes = append(titles, d.ID), append(notes, name+": "+d.Sentence)
	}
	if len(f.Results) == 0 {
		return fmt.Errorf("%w: no point has a valid figure", ErrNothing)
	}
	f.Generated.Title, f.Generated.LastModified = ptsText("boxdyno "+strings.Join(titles, ", "), mostTitle), ptsTime(last)
	f.Generated.Description = ptsText(strings.Join(notes, "; "), mostAbout)
	for _, r := range f.Results {
		for _, e := range r.Entries {
			e.write()
		}
	}
	data, err := xml.MarshalIndent(f, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s%s\n", xml.Header, data)
	return err
}

func metricOf(metrics []result.Metric, name string) *result.Metric {
	if i := slices.IndexFunc(metrics, func(m result.Metric) bool { return m.Name == name }); i >= 0 {
		return &metrics[i]
	}
	return nil
}

// ptsResultOf is a metric of a point, without the systems' values. Points of several runs
// are the same result if their settings are.
func ptsResultOf(r result.Record, v result.Value, m *result.Metric) *ptsResult {
	id := r.ID
	if i := strings.LastIndexByte(id, '#'); i >= 0 { // the repeat's number
		id = id[:i]
	}
	about := grid.Clean(v.Metric + ", " + id)
	switch v.Bound {
	case result.AtLeast:
		about += ", a lower bound"
	case result.AtMost:
		about += ", an upper bound"
	}
	arguments := []string{v.Metric}
	for _, p := range r.Config {
		arguments = append(arguments, p.Key+"="+strings.ReplaceAll(p.Value, " ", "_"))
	}
	scale := grid.Clean(string(v.Unit))
	if scale == "1" {
		scale = ""
	}
	return &ptsResult{
		Title: ptsText("boxdyno "+r.Procedure, mostTitle), Arguments: grid.Clean(strings.Join(arguments, " ")), Description: about,
		Scale: scale, Proportion: map[bool]string{true: "HIB", false: "LIB"}[m.Better > 0], DisplayFormat: "BAR_GRAPH",
	}
}

// add is another repeat of a system.
func (r *ptsResult) add(system string, v float64) {
	if n := len(r.Entries); n == 0 || r.Entries[n-1].Identifier != system {
		r.Entries = append(r.Entries, &ptsEntry{Identifier: system})
	}
	e := r.Entries[len(r.Entries)-1]
	e.values = append(e.values, v)
}

// write makes the entry's texts. Colons are between repeats.
func (e *ptsEntry) write() {
	var raw []string
	mean := 0.0
	for _, v := range e.values {
		raw = append(raw, strconv.FormatFloat(v, 'f', -1, 64))
		mean += v / float64(len(e.values))
	}
	if e.RawString, e.Value = strings.Join(raw, ":"), raw[0]; len(raw) > 1 {
		e.Value = strconv.FormatFloat(mean, 'f', -1, 64)
	}
}

// ptsMachine is what is known of a machine, as names and values with commas between them.
func ptsMachine(m *result.Machine) (hardware, software string) {
	list := func(pairs ...string) string {
		var all []string
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i+1] != "" {
				all = append(all, pairs[i]+": "+strings.NewReplacer(",", "", ": ", " ").Replace(grid.Clean(pairs[i+1])))
			}
		}
		return strings.Join(all, ", ")
	}
	processor, memory, kernel := m.CPU, "", m.Kernel
	if m.CPU != "" && m.CPUs > 0 {
		processor += fmt.Sprintf(" (%d Cores)", m.CPUs)
	}
	if m.Memory > 0 {
		memory = unit.SI(float64(m.Memory)) + "B"
	}
	if kernel != "" && m.Machine != "" {
		kernel += " (" + m.Machine + ")"
	}
	return list("Processor", processor, "Motherboard", m.Board, "Memory", memory), list("OS", m.OS, "Kernel", kernel, "System Layer", m.Virtual)
}

func ptsTime(t time.Time) string { return t.UTC().Format(time.DateTime) }

// ptsText is s in at most most characters, for a terminal that shows it.
func ptsText(s string, most int) string {
	s = grid.Clean(s)
	if utf8.RuneCountInString(s) > most {
		s = string([]rune(s)[:most-1]) + "…"
	}
	return s
}
