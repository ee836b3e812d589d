// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"boxdyno/reference"
	"boxdyno/result"
	"boxdyno/unit"
)

// A Citation is a published figure of an experiment that rows of a run come near to.
type Citation struct {
	Box  string   `json:"box"`
	Text string   `json:"text"`           // what was published, with its number
	Said string   `json:"said"`           // where, and what must be said beside it
	Here []string `json:"here,omitempty"` // what was measured here of the same, a row each

	said []string // the parts of Said
}

// A cited is which figures of reference stand beside a run, and beside which of its points.
type cited struct {
	source, experiment string
	words              map[string]string // of each metric, for fmt and the number
	beside             func(f reference.Figure, p result.Record, run result.Run) bool
	ours               string // metric that it can be laid beside; "": none
}

var cites = []cited{
	{source: "sweclockers-brix", experiment: "forward_64B", words: map[string]string{
		"pps": "%s 64-byte frames a second by NAT", "pps_at_least": "at least %s 64-byte frames a second", "derived_rate": "%s Gbit/s, derived from frames of 64 octets",
	}, ours: forwardingRate, beside: func(f reference.Figure, p result.Record, _ result.Run) bool {
		way, size := f.Level("direction"), result.Get(p.Config, "frame_size")
		large := f.Level("frame_bytes") == "1514" // without FCS
		return forwards(p) && (large && size == "1518" || !large && size == "64") && (way == "" || strings.ToUpper(strings.ReplaceAll(result.Get(p.Config, "direction"), "-to-", "->")) == way)
	}},
	{source: "sweclockers-brix", experiment: "power", words: map[string]string{"power_wall_low": "%s W or more at the wall under load", "power_wall_high": "%s W or less at the wall under load"},
		beside: func(_ reference.Figure, p result.Record, _ result.Run) bool { return forwards(p) && len(p.Energy) > 0 }},
	{source: "croce-pi4", experiment: "tc_drop", words: map[string]string{"line_rate": "%s 64-byte frames a second, dropped in tc"}, ours: dropRate,
		beside: func(_ reference.Figure, p result.Record, _ result.Run) bool {
			return result.Get(p.Config, "service") == "drop-tc" && result.Get(p.Config, "frame_size") == "64"
		}},
	{source: "itsec-pi5", experiment: "stress-ng", words: map[string]string{
		"temperature_low": "%s °C or more under stress-ng", "temperature_high": "%s °C or less under stress-ng", "cpu_clock": "its CPUs ran at %s MHz",
		"utilisation": "its CPUs were busy for %s %% of the time", "seconds_per_stressor": "each stressor ran for %s s",
	}, beside: func(_ reference.Figure, p result.Record, _ result.Run) bool { return p.Procedure == soakProcedure }},
	{source: "itsec-pi5", experiment: "tcpreplay", words: map[string]string{
		"rate": "%s Mbit/s replayed to it", "practical_max_low": "%s Mbit/s or more are the practical limit of 1 GbE", "practical_max_high": "%s Mbit/s or less are the practical limit of 1 GbE",
		"duration": "the replay took %s s",
	}, ours: idsRate, beside: sensor},
	{source: "itsec-pi5", experiment: "irq", words: map[string]string{"interrupts": "%s interrupts of its port, all on one CPU"}, beside: sensor},
	{source: "itsec-pi5", experiment: "tuning", words: map[string]string{"ring": "its rings were set to %s descriptors", "value": "set to %s"},
		beside: func(f reference.Figure, _ result.Record, run result.Run) bool {
			return slices.ContainsFunc(run.Settings, func(s result.Setting) bool {
				return s.Knob == "rings" && f.Metric == "ring" || f.Metric == "value" && s.Knob == "sysctl:"+f.Level("sysctl")
			})
		}},
	{source: "imeusp-10", experiment: "capture_syn_flood_10s", words: map[string]string{
		"cpu_percent_mean": "%s %% of its CPU time under a SYN flood", "rss_peak_max": "%s KB under a SYN flood", "packets_counted_mean": "%s frames counted of a SYN flood", "packets_on_wire_wireshark_mean": "%s frames of a SYN flood were sent",
	}, beside: func(f reference.Figure, p result.Record, _ result.Run) bool {
		return p.Procedure == floodProcedure && result.Get(p.Config, "kind") == "syn" && reference.Same(f.Subject, cmp.Or(publishedAs[result.Get(p.Config, "sensor")], result.Get(p.Config, "sensor")))
	}},
	{source: "hawthorne2020", experiment: "table2_power", words: map[string]string{"power_wall": "%s W at the wall"}, beside: encrypts},
	{source: "hawthorne2020", experiment: "text_power", words: map[string]string{"power_wall_cryptsetup": "%s W at the wall under cryptsetup", "power_wall": "%s W at the wall"}, beside: encrypts},
	{source: "tcpreplay-captures", experiment: "pcap", words: map[string]string{"packets": "%s frames", "bytes": "%s octets", "mean_frame": "a mean frame of %s octets", "flows": "%s flows"}, beside: replays},
	{source: "netresec-maccdc", experiment: "pcap", words: map[string]string{"packets": "%s frames"}, beside: replays},
}

// forwards says whether frames go through p's box.
func forwards(p result.Record) bool {
	return slices.Contains(forwarding, p.Procedure) && slices.Contains([]string{"route", "filter", "nat"}, result.Get(p.Config, "service"))
}

// encrypts says whether a meter ran while p's box computed ciphers.
func encrypts(_ reference.Figure, p result.Record, _ result.Run) bool {
	return p.Procedure == cryptoProcedure && len(p.Energy) > 0
}

func sensor(_ reference.Figure, p result.Record, _ result.Run) bool {
	return p.Procedure == IDSProcedure
}

func replays(f reference.Figure, p result.Record, _ result.Run) bool {
	return p.Procedure == IDSProcedure && filepath.Base(result.Get(p.Config, "traffic")) == f.Subject
}

// citedSentences are published figures in sentences, one for each box and what was measured here
// beside it. What was said of one figure is not repeated for the next.
func citedSentences(all []Citation) (out []string) {
	told := map[string]bool{}
	for i := 0; i < len(all); {
		first := all[i]
		var texts []string
		for ; i < len(all) && all[i].Box == first.Box && slices.Equal(all[i].Here, first.Here); i++ {
			var fresh []string
			for _, s := range all[i].said {
				if s != "" && !told[s] {
					fresh, told[s] = append(fresh, s), true
				}
			}
			text := all[i].Text
			if len(fresh) > 0 {
				text += " (" + strings.Join(fresh, "; ") + ")"
			}
			texts = append(texts, text)
		}
		s := first.Box + ": " + strings.Join(texts, "; ")
		if len(first.Here) > 0 {
			s += "; here " + strings.Join(first.Here, "; ")
		}
		out = append(out, s)
	}
	return out
}

// mostHere is how many rows stand beside one figure.
const mostHere = 4

// citedText is what was published, with the conditions.
func citedText(c cited, f reference.Figure) string {
	text := fmt.Sprintf(c.words[f.Metric], strconv.FormatFloat(f.Value, 'f', -1, 64))
	for _, l := range f.Levels {
		text += ", " + strings.ReplaceAll(l.Factor, "_", " ") + " " + l.Value
	}
	return text
}

// citations are the published figures beside a run's points, in reference's order. There
// are none where speeds mean nothing: in memory, and on emulated boards.
func citations(run result.Run, points []result.Record) (out []Citation) {
	if run.Kind == result.KindMemory || run.Kind == result.KindEmulated {
		return nil
	}
	for _, f := range reference.Figures() {
		i := slices.IndexFunc(cites, func(c cited) bool {
			return c.source == f.Source && c.experiment == f.Experiment && c.words[f.Metric] != ""
		})
		if i < 0 {
			continue
		}
		c := cites[i]
		var here []string
		found := false
		for _, p := range points {
			if !c.beside(f, p, run) {
				continue
			}
			found = true
			if v := p.Value(c.ours); v != nil && len(here) < mostHere {
				here = append(here, strings.TrimSpace(fmt.Sprintf("%s %s%s (%s)", v.Bound, unit.SI(v.Value), v.Unit, p.ID)))
			}
		}
		if found {
			s, _ := reference.SourceOf(f.Source)
			out = append(out, Citation{Box: f.Subject, Text: citedText(c, f), Said: joined(s.Where, f.Said()), Here: here, said: []string{s.Where, strings.TrimSpace(f.Note), s.Caution}})
		}
	}
	return out
}
