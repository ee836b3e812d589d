// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"slices"
	"strings"

	"boxdyno/reference"
	"boxdyno/result"
	"boxdyno/unit"
)

// A Work is what a procedure that lets programs work on this machine's CPUs found at a
// row.
type Work struct {
	Procedure string       `json:"procedure"`
	Title     string       `json:"title"`   // of the procedure's table
	Setting   string       `json:"setting"` // what tells the row from others: "dhrystone, 1 copy"
	Program   string       `json:"program"` // the same without how many CPUs: "dhrystone"
	CPUs      string       `json:"cpus"`    // "1 CPU", "all CPUs", "CPU 0+2-3"
	Copies    *Figure      `json:"copies,omitempty"`
	Of        []string     `json:"of,omitempty"` // what its figures are of: "compiler gcc_12", as the trials say
	Figures   []WorkFigure `json:"figures"`
	CPU       *Figure      `json:"work_cpu_s,omitempty"`
	Memory    *Figure      `json:"subject_memory_bytes,omitempty"`
	Clock     *float64     `json:"clock_share,omitempty"` // just after the work, of before it, in the round where it fell most
	Curve     *WorkCurve   `json:"curve,omitempty"`

	Published []PublishedWork `json:"published,omitempty"` // of the same experiment on other boxes
}

// A WorkFigure is one of a program's own.
type WorkFigure struct {
	Metric  string      `json:"metric"`
	What    string      `json:"what"` // the metric in words
	Unit    unit.Symbol `json:"unit"`
	Figure  Figure      `json:"figure"`
	Slowest *float64    `json:"slowest_copy,omitempty"` // of several copies, in the last round
	Fastest *float64    `json:"fastest_copy,omitempty"`
}

// A workTable is how a procedure's rows are shown.
type workTable struct {
	procedure string
	title     string
	keys      []string          // parameters that tell rows apart beside the parallelism
	leave     []string          // values of them that are not told: defaults, in the order of keys; "-" tells always
	words     map[string]string // of metrics that are shown, in words
	curve     *curveOf          // what its trials draw; nil: nothing
	published []publication     // what was published of the same experiment
}

// workTables has a row for each such procedure.
var workTables = []workTable{
	{
		procedure: "cpu", title: "Computing, on this machine's CPUs", keys: []string{"subject", "core_type", "duration", "optimise", "dictionary", "primes", "userland"}, leave: []string{"-", "0", "0s", "O2", "22", "10000", "native"},
		words: map[string]string{
			"dhrystones_per_s": "Dhrystones", "dmips": "DMIPS", "whetstones_per_s": "Whetstone instructions", "compress_ips": "compression", "decompress_ips": "decompression",
			"sysbench_events_per_s": "events", "bogo_ops_rate": "bogo operations",
		},
		published: []publication{{source: "croce-pi4", box: "Pi 4", when: []result.Pair{{Key: "subject", Value: "dhrystone"}}, words: "Dhrystone under 32 and 64 bit"}},
	},
	{
		procedure: "hash", title: "Hashing zeros from memory, on this machine's CPUs", keys: []string{"subject", "algorithm", "core_type", "size", "userland"}, leave: []string{"-", "-", "0", "2000000000", "native"},
		words:     map[string]string{"hash_rate": "hashed"},
		published: []publication{{source: "croce-pi4", experiment: "sha1", metric: "file_size", when: []result.Pair{{Key: "algorithm", Value: "sha1"}}, words: "SHA-1 of %g GB of zeros in a file under 32 and 64 bit"}},
	},
	{
		procedure: "memory", title: "Memory, by this machine's CPUs", keys: []string{"subject", "core_type", "size", "optimise", "userland"}, leave: []string{"-", "0", "0", "O3", "native"},
		words: map[string]string{
			"memory_write_rate": "written", "memory_read_rate": "read", "memory_copy_rate": "copied", "memory_latency_s": "load, largest set", "cache_latency_s": "load, 4 KiB",
			"stream_copy_rate": "STREAM copy", "stream_scale_rate": "STREAM scale", "stream_add_rate": "STREAM add", "stream_triad_rate": "STREAM triad",
		},
		curve: &curveOf{title: "Time of a load that waits for the one before it, against the working set", key: "working_set", of: "working set", ofUnit: "B", metric: "load_latency_s", what: "a load"},
		published: []publication{
			{source: "croce-pi4", experiment: "ram", metric: "buffer", when: []result.Pair{{Key: "subject", Value: "memory-bandwidth"}}, words: "memory under 32 and 64 bit over a locked buffer of %g GB"},
			{source: "croce-pi4", experiment: "ram", metric: "max_mlock_buffer_ok", when: []result.Pair{{Key: "subject", Value: "memory-bandwidth"}}, words: "%g GB could be locked under 64 bit"},
		},
	},
	{
		procedure: "codec", title: "Encoding music from and to memory, on this machine's CPUs", keys: []string{"subject", "core_type", "length", "userland"}, leave: []string{"-", "0", "0s", "native"},
		words: map[string]string{"codec_speed": "times real time", "encode_s": "to encode", "encoded_bytes": "came out"},
		published: []publication{
			{source: "phoronix-2022-pi400", experiment: "audio_encoding", levels: []reference.Level{{Factor: "codec", Value: "flac_encode"}}, metric: "gain_64_over_32", when: []result.Pair{{Key: "subject", Value: "flac"}}, words: "FLAC encodes %g %% faster under 64 than under 32 bit"},
			{source: "phoronix-2022-pi400", experiment: "audio_encoding", levels: []reference.Level{{Factor: "codec", Value: "lame_mp3_encode"}}, metric: "gain_64_over_32", when: []result.Pair{{Key: "subject", Value: "lame"}}, words: "LAME encodes %g %% faster under 64 than under 32 bit"},
		},
	},
	{
		procedure: "hpl", title: "Solving a dense system of linear equations (HPL), on this machine's CPUs", keys: []string{"blas", "order", "block", "grid", "core_type"}, leave: []string{"-", "0", "128", "auto", "0"},
		words: map[string]string{"hpl_rate": "HPL"},
		// Sums over the nodes of a cluster are not comparable.
		published: []publication{{
			source: "hawthorne2020", experiment: "text_hpl", metric: "gflops", levels: []reference.Level{{Factor: "nodes", Value: "1"}},
			words: "%g Gflop/s by one node, with an N, an NB and a BLAS of its own", ours: "hpl_rate", factor: 1e9,
		}},
	},
}

// computes says whether a procedure times programs, and has no tester.
func computes(procedure string) bool {
	return procedure == cryptoProcedure || slices.ContainsFunc(workTables, func(t workTable) bool { return t.procedure == procedure })
}

// workOf is nil for rows of other procedures.
func workOf(repeats []result.Record, trials map[string][]result.Record) *Work {
	p := repeats[len(repeats)-1]
	at := func(metric string) *Figure { f := merge(metric, repeats); return f.figure() }
	i := slices.IndexFunc(workTables, func(t workTable) bool { return t.procedure == p.Procedure })
	if i < 0 {
		return nil
	}
	t := workTables[i]
	w := &Work{Procedure: p.Procedure, Title: t.title, CPUs: parallelWords(result.Get(p.Config, "parallel")), Copies: at("copies"), CPU: at("work_cpu_s"), Memory: at("subject_memory_bytes"), Figures: []WorkFigure{}}
	var words []string
	for k, key := range t.keys {
		if v := result.Get(p.Config, key); v != "" && v != t.leave[k] {
			if t.leave[k] != "-" {
				v = strings.ReplaceAll(key, "_", " ") + " " + v
			}
			words = append(words, v)
		}
	}
	w.Program = strings.Join(words, ", ")
	w.Setting = strings.Join(append(words, w.CPUs), ", ")
	w.sense(trials[p.ID])
	w.Curve, w.Published = t.curve.draw(repeats, trials), publishedWorks(t.published, p)
	for _, v := range p.Values {
		if _, shown := t.words[v.Metric]; !shown {
			continue
		}
		f := at(v.Metric)
		if f == nil {
			continue
		}
		x := WorkFigure{Metric: v.Metric, What: t.words[v.Metric], Unit: v.Unit, Figure: *f}
		if len(p.Copies) > 1 {
			for _, c := range p.Copies {
				for _, own := range c.Values {
					if own.Metric != v.Metric {
						continue
					}
					if x.Slowest == nil || own.Value < *x.Slowest {
						x.Slowest = ptr(own.Value)
					}
					if x.Fastest == nil || own.Value > *x.Fastest {
						x.Fastest = ptr(own.Value)
					}
				}
			}
		}
		w.Figures = append(w.Figures, x)
	}
	return w
}

// orderWork puts what one program did on fewer and on more CPUs side by side.
func orderWork(a, b *Work) int {
	if a == nil || b == nil {
		return 0
	}
	copies := func(w *Work) float64 {
		if w.Copies == nil {
			return 0
		}
		return w.Copies.Value
	}
	return cmp.Or(strings.Compare(a.Procedure, b.Procedure), strings.Compare(a.Program, b.Program), cmp.Compare(copies(a), copies(b)), strings.Compare(a.Setting, b.Setting))
}

// parallelWords is the parameter in words.
func parallelWords(v string) string {
	switch {
	case v == "1":
		return "1 CPU"
	case v == "all":
		return "all CPUs"
	case strings.HasPrefix(v, "cpu"):
		return "CPU " + strings.TrimPrefix(v, "cpu")
	}
	return v + " CPUs"
}

// sense takes what trials say of the clock, and what their programs are.
func (w *Work) sense(trials []result.Record) {
	for _, t := range trials {
		before, after := t.Value("loop_before_rps"), t.Value("loop_after_rps")
		if before != nil && after != nil && before.Value > 0 {
			if share := after.Value / before.Value; w.Clock == nil || share < *w.Clock {
				w.Clock = ptr(share)
			}
		}
		w.Of = w.Of[:0]
		for i, p := range t.Config {
			if p.Key != "on_cpus" {
				continue
			}
			for _, of := range t.Config[i+1:] {
				w.Of = append(w.Of, strings.ReplaceAll(of.Key, "_", " ")+" "+strings.ReplaceAll(of.Value, "_", " "))
			}
			break
		}
	}
}

// name is the row's, in words.
func (w *Work) name() string { return w.Procedure + ", " + w.Setting }

func (w *Work) table() workTable {
	return workTables[slices.IndexFunc(workTables, func(t workTable) bool { return t.procedure == w.Procedure })]
}

// suffix is the unit behind a figure.
func (f WorkFigure) suffix() string {
	switch f.Unit {
	case "1":
		return ""
	case "1/s":
		return "/s"
	}
	return string(f.Unit)
}

// summary is the row in a sentence's second half.
func (w *Work) summary() string {
	var parts []string
	for _, f := range w.Figures {
		parts = append(parts, f.Figure.si(f.suffix())+" "+w.table().words[f.Metric])
	}
	return strings.Join(parts, ", ")
}

// remarks are what stands under the tables that have the row.
func (w *Work) remarks() (out []string) {
	if len(w.Of) > 0 {
		out = append(out, strings.Join(w.Of, ", "))
	}
	for _, p := range w.Published {
		if len(w.Figures) > 0 {
			out = append(out, p.text())
		}
	}
	for _, f := range w.Figures {
		if s := (&Figure{Lo: f.Slowest, Hi: f.Fastest}).interval(f.suffix()); s != "-" {
			out = append(out, "each copy: "+s+" "+f.What)
		}
	}
	if w.Clock != nil {
		out = append(out, "clock after a round: "+percent(*w.Clock)+" of what it was before")
	}
	return out
}
