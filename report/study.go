// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"boxdyno/reference"
	"boxdyno/result"
	"boxdyno/stat"
	"boxdyno/unit"
)

// A Study lays what capture measured here beside the published comparison of capture
// libraries, point by point: by our method, by the published one, and as published.
type Study struct {
	Where   string       `json:"where"` // it was published
	Caution string       `json:"caution,omitempty"`
	Panels  []StudyPanel `json:"panels"`
	Why     []string     `json:"why"` // the figures differ, in sentences with what was measured here
}

// A StudyPanel is one figure at one load.
type StudyPanel struct {
	Metric string       `json:"metric"` // CPU, memory, counted
	Unit   string       `json:"unit"`   // as published: %, KB, packets
	Load   string       `json:"load"`   // "1000 packets at 2 Mbit/s"
	Sent   []StudyPoint `json:"sent,omitempty"`
	Points []StudyPoint `json:"points"`
}

// A StudyPoint is a subject's figure at one payload. Ours is the median with its
// interval; by the published method it is the mean, and Lo and Hi are one standard
// deviation below and above it, as the study draws it; absent where N is 1.
type StudyPoint struct {
	Subject string   `json:"subject,omitempty"`
	Payload int      `json:"payload_size"`
	Kind    string   `json:"kind"` // ours, published, study
	Value   float64  `json:"value"`
	Lo      *float64 `json:"lo,omitempty"`
	Hi      *float64 `json:"hi,omitempty"`
	N       int      `json:"n"` // of the study's: 5, as it says
	Note    string   `json:"note,omitempty"`
}

const (
	kindOurs  = "ours"
	kindStudy = "study"

	studyRepeats = 5
)

// A studied is the repeats of one configuration that is a point of the study.
type studied struct {
	subject, method string
	payload         int
	packets         int     // 0: 10 s
	mbit            float64 // of UDP payload
	recs            []result.Record
}

// load is what the study calls the point's traffic.
func (s studied) load() string {
	rate := strconv.FormatFloat(s.mbit, 'f', -1, 64) + " Mbit/s"
	if s.packets > 0 {
		return fmt.Sprintf("%d packets at %s", s.packets, rate)
	}
	return rate + " for 10 s"
}

// studiedOf is the configuration as a point of the study; false where it is none.
func studiedOf(recs []result.Record) (s studied, ok bool) {
	get := func(key string) string { return result.Get(recs[0].Config, key) }
	s.subject, s.method = get("subject"), get("method")
	s.payload, _ = strconv.Atoi(get("payload_size"))
	s.packets, _ = strconv.Atoi(get("packets"))
	text, payload := strings.CutPrefix(get("rate"), "payload:")
	rate, err := unit.ParseBitRate(text)
	ours := s.method != methodPublished
	if err != nil || s.payload == 0 || ours && (!payload || get("generator") == "iperf3") {
		return s, false
	}
	s.mbit = float64(rate) / 1e6
	lasts := get("duration")
	tenSeconds := lasts == "10s" || s.method == methodPublished && lasts == "0s"
	if s.packets == 0 && !tenSeconds || besideWords(recs[0].Config) != "" {
		return s, false
	}
	for _, r := range recs {
		if r.Status != result.Invalid && r.Value(framesCounted) != nil {
			s.recs = append(s.recs, r)
		}
	}
	return s, len(s.recs) > 0 && len(s.figures()) > 0
}

// figures are what was published at the point.
func (s studied) figures() []reference.Figure {
	return studyFigures(s.subject, s.payload, s.packets, s.mbit)
}

// studyFigures are those of a subject's point: a number of packets at the study's one
// rate of such, or 10 s at a rate.
func studyFigures(subject string, payload, packets int, mbit float64) []reference.Figure {
	subject = cmp.Or(publishedAs[subject], subject)
	at := reference.Level{Factor: "udp_payload_bytes", Value: strconv.Itoa(payload)}
	switch {
	case packets > 0 && mbit == 2:
		return reference.Of("capture_fixed_count", subject, at, reference.Level{Factor: "packets", Value: strconv.Itoa(packets)})
	case packets == 0:
		return reference.Of("capture_fixed_rate_10s", subject, at, reference.Level{Factor: "rate_mbit", Value: strconv.FormatFloat(mbit, 'g', -1, 64)})
	}
	return nil
}

// values are those of a metric, a repeat each.
func (s studied) values(metric string) (vs []float64) {
	for _, r := range s.recs {
		if v := r.Value(metric); v != nil {
			vs = append(vs, v.Value)
		}
	}
	return vs
}

// A studyMetric is a published figure and where ours of it are.
type studyMetric struct {
	name, unit, published string
	ours, main            string // metrics: of the whole tree, of the main process alone
	scale                 float64
}

// studyOf is nil where no point of the study was measured by the published method.
func studyOf(d Document, points []result.Record) *Study {
	var all []studied
	for _, group := range byConfig(points) {
		if group[0].Procedure == CaptureProcedure {
			if s, ok := studiedOf(group); ok {
				all = append(all, s)
			}
		}
	}
	if !slices.ContainsFunc(all, func(s studied) bool { return s.method == methodPublished }) {
		return nil
	}
	slices.SortStableFunc(all, func(a, b studied) int {
		return cmp.Or(cmp.Compare(boolInt(a.packets == 0), boolInt(b.packets == 0)), cmp.Compare(a.packets, b.packets), cmp.Compare(a.mbit, b.mbit), cmp.Compare(a.payload, b.payload), strings.Compare(a.subject, b.subject), strings.Compare(a.method, b.method))
	})
	st := &Study{}
	for _, m := range studyMetrics {
		for i := 0; i < len(all); {
			end := i
			for end < len(all) && all[end].load() == all[i].load() {
				end++
			}
			st.Panels = append(st.Panels, panelOf(m, all[i:end]))
			i = end
		}
	}
	if src, ok := reference.SourceOf(all[0].figures()[0].Source); ok {
		st.Where, st.Caution = src.Where, src.Caution
	}
	st.Why = whyTheyDiffer(d, all)
	return st
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// panelOf is one figure at the load that all of them have.
func panelOf(m studyMetric, all []studied) StudyPanel {
	p := StudyPanel{Metric: m.name, Unit: m.unit, Load: all[0].load()}
	known := map[string]bool{} // published figures and loads that are there already
	for _, s := range all {
		metric, kind := m.ours, kindOurs
		if s.method == methodPublished {
			metric, kind = m.main, methodPublished
		}
		if vs := s.values(metric); len(vs) > 0 {
			pt := StudyPoint{Subject: s.subject, Payload: s.payload, Kind: kind, N: len(vs)}
			if kind == kindOurs {
				f := merge(metric, s.recs)
				pt.Value, pt.Lo, pt.Hi = *f.value, f.lo, f.hi
			} else {
				mean, deviation := meanOf(vs)
				if pt.Value = mean; len(vs) > 1 {
					pt.Lo, pt.Hi = new(mean-deviation), new(mean+deviation)
				}
			}
			for _, v := range []*float64{&pt.Value, pt.Lo, pt.Hi} {
				if v != nil {
					*v *= m.scale
				}
			}
			p.Points = append(p.Points, pt)
		}
		key := fmt.Sprint(s.subject, s.payload)
		if i := slices.IndexFunc(s.figures(), func(f reference.Figure) bool { return f.Metric == m.published }); i >= 0 && !known[key] {
			f := s.figures()[i]
			known[key] = true
			p.Points = append(p.Points, StudyPoint{Subject: s.subject, Payload: s.payload, Kind: kindStudy, Value: f.Value, N: studyRepeats, Note: f.Note})
		}
		sent := strconv.Itoa(s.payload)
		if vs := s.values(framesOffered); m.name == "counted" && len(vs) > 0 && !known[sent] {
			known[sent] = true
			p.Sent = append(p.Sent, StudyPoint{Payload: s.payload, Value: stat.Summarize(vs).Center, N: len(vs)})
		}
	}
	return p
}

// meanOf is the mean and the standard deviation of a sample; 0 of a single value.
func meanOf(vs []float64) (mean, deviation float64) {
	for _, v := range vs {
		mean += v / float64(len(vs))
	}
	for _, v := range vs {
		deviation += (v - mean) * (v - mean)
	}
	return mean, math.Sqrt(deviation / float64(max(len(vs)-1, 1)))
}
