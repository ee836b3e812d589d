// SPDX-License-Identifier: Apache-2.0

package sizing

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"boxdyno/reference"
	"boxdyno/reference/boards"
)

// publishedBoards are the boards of the subjects whose names begin so.
var publishedBoards = []struct{ begins, board string }{
	{"Pi 3B+", "rpi-3-b-plus"}, {"Pi 4B", "rpi-4-b"}, {"BeagleBone Black", "beaglebone-black"}, {"TinkerBoard", "tinker-board"},
	{"ODROID C2", "odroid-c2"}, {"ODROID XU4", "odroid-xu4"}, {"NUC i5-8500T", "nuc-i5-8500t"}, {"MRD Ryzen 7 2700", "desktop-ryzen-2700"},
	{"BRIX IoT Core i3", "brix-iot-i3"}, {"Raspberry Pi 5", "rpi-5"}, {"Libre AML-S905X-CC", "aml-s905x-cc"},
}

func boardOf(subject string) string {
	for _, p := range publishedBoards {
		if strings.HasPrefix(subject, p.begins) {
			return p.board
		}
	}
	return ""
}

// Published are the boxes of which a rate of the job was published.
func Published(j Job) []Candidate { return PublishedOf(j, reference.Figures(), boards.All()) }

// PublishedOf is Published by these figures and boards alone.
func PublishedOf(j Job, figures []reference.Figure, all []boards.Board) (out []Candidate) {
	for _, f := range figures {
		v, text, bound, ok := single(j, f)
		if !ok {
			continue
		}
		c := Candidate{Name: strings.TrimSuffix(f.Subject, " cluster"), Board: boardOf(f.Subject), Origin: Publicly, Rate: Estimate{Value: v, Lo: v, Hi: v, Bound: bound}}
		s, _ := reference.SourceOf(f.Source)
		c.Figures = []Figure{{What: "rate", Text: text, Source: s.Where, Said: f.Said()}}
		if i := slices.IndexFunc(out, c.repeats); i < 0 {
			out = append(out, c)
		} else if len(c.Name) > len(out[i].Name) || j.Kind == Firewall && c.Rate.Value < out[i].Rate.Value {
			out[i] = c
		}
	}
	for _, b := range all {
		key, of := ofBoard[j.Kind], 1.0
		if j.Kind == HPL {
			of = 1e9
		}
		for _, v := range b.Of(key) {
			x, _ := strconv.ParseFloat(v.Text, 64) // checked when it was read
			c := Candidate{Name: b.Name, Board: b.ID, Origin: Catalogue, Rate: Exact(x * of)}
			c.cite("rate", j.Rate(x*of), v)
			out = append(out, c)
		}
	}
	for i := range out {
		out[i].series(j, figures)
		out[i].known(j)
	}
	return out
}

// repeats says whether o is the same box as c with the same figure, or another direction
// of a firewall.
func (c Candidate) repeats(o Candidate) bool {
	return c.Board != "" && c.Board == o.Board && (c.Rate.Value == o.Rate.Value || c.Name == o.Name)
}

// single is the rate of one box by a published figure, in the job's unit.
func single(j Job, f reference.Figure) (v float64, text, bound string, ok bool) {
	several := strings.Contains(f.Subject, "cluster") && !(j.Kind == HPL && nodes(f) == 1)
	if several || strings.Contains(f.Subject, "prior work") || boardOf(f.Subject) == "" {
		return 0, "", "", false
	}
	switch j.Kind {
	case Crypto:
		if f.Metric != publishedRate || f.Unit != "MiB/s" || f.Level("algorithm") != j.Cipher || f.Level("direction") != j.Direction {
			return 0, "", "", false
		}
		return f.Value * (1 << 20), fmt.Sprintf("%g MiB/s of %s, %s, one stream", f.Value, j.Cipher, j.Direction), "", true
	case HPL:
		if f.Metric != "gflops" || nodes(f) != 1 {
			return 0, "", "", false
		}
		return f.Value * 1e9, fmt.Sprintf("%g GFLOPS", f.Value), "", true
	case Firewall:
		if f.Metric != "pps" || f.Level("frame_bytes") != "64" {
			return 0, "", "", false
		}
		return f.Value, fmt.Sprintf("%g frames of 64 octets a second, %s", f.Value, f.Level("direction")), "", true
	case IDS:
		if f.Metric != "rate" || f.Experiment != "tcpreplay" || f.Level("pcap") != "bigFlows" {
			return 0, "", "", false
		}
		return f.Value * 1e6, fmt.Sprintf("at most %g Mbit/s: what its sender sent", f.Value), "<=", true
	}
	return 0, "", "", false
}

var inNote = regexp.MustCompile(`\bnodes=(\d+)`)

// nodes is how many boxes a figure is of, 0 where it does not say.
func nodes(f reference.Figure) int {
	text := f.Level("nodes")
	if m := inNote.FindStringSubmatch(f.Note); m != nil {
		text = cmp.Or(text, m[1])
	}
	n, _ := strconv.Atoi(text) // "": 0
	return n
}

// series fills in what several of the boxes did together, where that was measured.
func (c *Candidate) series(j Job, figures []reference.Figure) {
	if c.Board != "rpi-3-b-plus" {
		return
	}
	for _, f := range figures {
		n := nodes(f)
		switch {
		case n == 0:
		case j.Kind == Crypto && f.Experiment == "cryptsetup_cluster" && f.Level("algorithm") == j.Cipher && f.Level("direction") == j.Direction:
			c.Measured = append(c.Measured, Node{N: n, Value: f.Value * (1 << 20)})
		case j.Kind == HPL && f.Source == "cryptopi-raw" && f.Metric == "gflops" && f.Subject == "Pi 3B+ cluster":
			c.Measured = append(c.Measured, Node{N: n, Value: f.Value * 1e9})
		case j.Kind == Crypto && f.Experiment == "power_cryptsetup_peak" && f.Subject == "Pi 3B+ cluster BitScope":
			c.Power = append(c.Power, Node{N: n, Value: f.Value})
		}
	}
	byN := func(a, b Node) int { return a.N - b.N }
	slices.SortFunc(c.Measured, byN)
	slices.SortFunc(c.Power, byN)
	if len(c.Measured) > 0 {
		s, _ := reference.SourceOf("cryptopi-raw")
		last := c.Measured[len(c.Measured)-1]
		c.Figures = append(c.Figures, Figure{What: "rates of several", Text: fmt.Sprintf("%d to %d boxes; %d do %s", c.Measured[0].N, last.N, last.N, j.Rate(last.Value)), Source: s.Where, Said: s.Caution})
	}
}
