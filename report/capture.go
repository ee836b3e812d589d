// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"boxdyno/reference"
	"boxdyno/report/internal/phrase"
	"boxdyno/result"
	"boxdyno/unit"
)

const (
	methodPublished = "published"
	searched        = "search"
	overloaded      = "overload"
	payloadIn       = 46          // a frame's octets beside UDP payload
	emptyBox        = "empty-box" // parent of the trials without a subject
)

// publishedAs are subjects that were published under another name.
var publishedAs = map[string]string{"pypcap": "pypcap+dpkt"}

func captureOf(m *measured) Block {
	c := set[Capture](m)
	if file := m.get("file"); c.Subject == "own" && file != "" {
		c.Subject += " " + filepath.Base(file)
	}
	if c.Payload > 0 {
		m.row.FrameSize = ""
	}
	c.Published = c.published(m.row)
	return c
}

// published are the figures of the same subject, payload and rate, where the point was
// measured by the published method.
func (c *Capture) published(r *Row) (out []Published) {
	rate, err := unit.ParseBitRate(strings.TrimPrefix(c.Rate, "payload:"))
	if c.Method != methodPublished || c.Payload == 0 || err != nil {
		return nil
	}
	mbit := float64(rate) / 1e6
	counted, sent, offered := r.at(framesCounted), r.at(framesOffered), r.at(captureRate)
	for _, f := range slices.Concat(studyFigures(c.Subject, c.Payload, c.Packets, mbit), c.earlier(mbit)) {
		var here *Figure
		scale := 1.0
		switch f.Metric {
		case "cpu_percent_mean":
			here, scale = r.at(mainShare), 100
		case "rss_peak_max":
			here, scale = r.at(mainMemory), 1.0/1024
		case "packets_counted_mean":
			here = counted
		case "iperf3_packets":
			here = sent
		case "iperf3_bytes":
			here, scale = sent, float64(c.Payload)/octets[f.Unit]
		case "iperf3_rate":
			here, scale = offered, float64(c.Payload)*8/1e6
		case "iperf3_duration":
			if sent != nil && offered != nil && offered.Value > 0 {
				here = &Figure{Value: sent.Value / offered.Value}
			}
		default:
			continue
		}
		p := Published{Source: f.Source, Metric: f.Metric, Value: f.Value, Unit: f.Unit, Note: f.Note}
		if s, ok := reference.SourceOf(f.Source); ok {
			p.Caution = s.Caution
		}
		if here != nil {
			p.Here = new(here.Value * scale)
			if here.Lo != nil && here.Hi != nil {
				p.Lo, p.Hi = new(*here.Lo*scale), new(*here.Hi*scale)
			}
		}
		out = append(out, p)
	}
	return out
}

// earlier are the figures of the study's earlier try: UDP for 10 s from another machine,
// in iperf3's own payloads there.
func (c *Capture) earlier(mbit float64) []reference.Figure {
	if c.Packets > 0 || c.Payload != 1448 {
		return nil
	}
	return reference.Of("capture_10s", cmp.Or(publishedAs[c.Subject], c.Subject), reference.Level{Factor: "scenario", Value: "Remote server UDP " + strconv.FormatFloat(mbit, 'g', -1, 64) + "Mb/sec"})
}

// order puts small payloads first, then low rates, then subjects by name.
func (*Capture) order(x, y *Row) int {
	a, b := both[*Capture](x, y)
	return cmp.Or(cmp.Compare(a.Payload, b.Payload), cmp.Compare(a.Packets, b.Packets), cmp.Compare(rateOf(a.Rate), rateOf(b.Rate)), cmp.Compare(a.Burst, b.Burst), cmp.Compare(a.Buffer, b.Buffer), strings.Compare(a.Method, b.Method), strings.Compare(a.Subject, b.Subject))
}

// rateOf orders rates as they are given; one that is searched comes last.
func rateOf(text string) float64 {
	if _, of, layered := strings.Cut(text, ":"); layered {
		text = of
	}
	if v, err := unit.ParseBitRate(text); err == nil {
		return float64(v)
	}
	if v, err := unit.ParseFrameRate(text); err == nil {
		return float64(v)
	}
	return math.Inf(1)
}

func (c *Capture) name(r *Row, _ []string) []string {
	return slices.Concat([]string{serviceName(*r) + ", " + c.Subject, c.size(*r)}, c.how())
}

// size is what was asked for in words: "148 B payload", "64 B".
func (c *Capture) size(r Row) string {
	if c.Payload > 0 {
		return strconv.Itoa(c.Payload) + " B payload"
	}
	return c.frames(r)
}

// frames is the row's cell under "frames": "148+46 B" is 148 octets of payload in
// frames of 194.
func (c *Capture) frames(r Row) string {
	if c.Payload > 0 {
		return fmt.Sprintf("%d+%d B", c.Payload, payloadIn)
	}
	return phrase.FrameSize(cmp.Or(strings.TrimPrefix(r.FrameSize, "0"), "64"))
}

// how is what else tells the row from others, "at 2Mbps" first.
func (c *Capture) how() (words []string) {
	switch c.Rate {
	case searched:
	case overloaded:
		words = append(words, "under overload")
	default:
		words = append(words, "at "+c.Rate)
	}
	if c.Packets > 0 {
		words = append(words, phrase.Count(c.Packets, "packet"))
	}
	if c.Burst > 1 {
		words = append(words, "bursts of "+strconv.Itoa(c.Burst))
	}
	if c.Buffer > 0 {
		words = append(words, "buffer "+strings.TrimSpace(unit.SI(float64(c.Buffer)))+"B")
	}
	if c.Method == methodPublished {
		words = append(words, "published method")
	}
	return words
}

// load is the row's cell under "load": how, in short.
func (c *Capture) load() string {
	words := []string{c.Rate}
	switch {
	case c.Rate == searched:
		words[0] = "at the limit"
	case c.Rate == overloaded:
		words[0] = "overload"
	case c.Packets > 0:
		words[0] = fmt.Sprintf("%d at %s", c.Packets, c.Rate)
	}
	if c.Burst > 1 {
		words = append(words, "bursts "+strconv.Itoa(c.Burst))
	}
	if c.Buffer > 0 {
		words = append(words, strings.TrimSpace(unit.SI(float64(c.Buffer)))+"B")
	}
	return strings.Join(words, ", ")
}

func (c *Capture) tail(*Row) string { return ", with " + c.setting(&Capture{}) }

func (c *Capture) summary(r *Row) (name, text string, whole bool) {
	var parts []string
	lossless, counted, sent := r.at(losslessRate), r.at(framesCounted), r.at(framesOffered)
	switch {
	case lossless != nil:
		parts = append(parts, phrase.Quantity(lossless.Value, "frame/s", lossless.Bound)+" of which every frame is counted")
	case counted != nil && sent != nil:
		parts = append(parts, fmt.Sprintf("%s of %s frames counted", phrase.Thousands(int64(counted.Value)), phrase.Thousands(int64(sent.Value))))
	}
	if f := r.at(countingRate); f != nil {
		parts = append(parts, phrase.Quantity(f.Value, "frame/s", f.Bound)+" counted under overload")
	}
	if f := r.at(cpuPerFrame); f != nil {
		parts = append(parts, unit.SI(f.Value)+"s of CPU for each")
	}
	return r.Name, strings.Join(parts, ", "), true
}

// publishedTables lay what was published of the rows' captures and ciphers beside them.
func (d *Document) publishedTables() []Table {
	var rows []tableRow
	axes := []result.Axis{{Name: "subject"}, {Name: "frames"}, {Name: "load"}, {Name: "figure"}, {Name: "here"}, {Name: "range"}, {Name: "published"}}
	for r, c := range blocksOf[*Capture](d.Rows) {
		for _, p := range c.Published {
			row := tableRow{id: r.ID}
			for i, v := range []string{c.Subject, c.frames(*r), c.load(), publishedWords[p.Metric], decimal(p.Here, p.Unit), publishedRange(p), decimal(&p.Value, p.Unit)} {
				row.config = append(row.config, result.Pair{Key: axes[i].Name, Value: v})
			}
			for _, s := range []string{p.Note, p.Caution} {
				if s != "" {
					row.exact = append(row.exact, p.Source+": "+s)
				}
			}
			rows = append(rows, row)
		}
	}
	out := publishedCiphersTable(d.Rows)
	if len(rows) > 0 {
		out = append(out, makeTable("Published figures beside this box, by the published method", nil, axes, rows))
	}
	return out
}

// octets are those of a unit that payload was published in.
var octets = map[string]float64{"KiB": 1 << 10, "MiB": 1 << 20}

// decimal is a figure in the unit that it was published in.
func decimal(v *float64, sym string) string {
	if v == nil {
		return "-"
	}
	digits := 1
	if math.Abs(*v) >= 1000 {
		digits = 0
	}
	s := strconv.FormatFloat(*v, 'f', digits, 64)
	switch sym {
	case "packets", "":
		return s
	}
	return s + " " + sym
}

func publishedRange(p Published) string {
	if p.Lo == nil || p.Hi == nil || *p.Lo == *p.Hi {
		return "-"
	}
	return decimal(p.Lo, "") + "–" + decimal(p.Hi, "")
}
