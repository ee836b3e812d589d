// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"boxdyno/report"
	"boxdyno/report/page"
	"boxdyno/report/timeline"
	"boxdyno/result"
)

// What is read of a bundle at once, in octets; the rest the next time.
const (
	mostRead  = 8 << 20
	mostLine  = 16 << 20
	mostItems = 200_000 // records, or lines of the log
	mostWhole = 8 << 20 // of records that are kept as they are
)

// How often a run's files are looked at, and how often what was found is judged anew.
const (
	readEvery  = 500 * time.Millisecond
	drawEvery  = time.Second
	foundEvery = 15 * time.Second // all records are judged for it
	tightEvery = 5 * time.Second  // where the run needs all CPUs of this machine
)

// A growth is one run while it goes on, read once for all its viewers.
type growth struct {
	id, dir string
	runs    *library

	mu   sync.Mutex
	read time.Time
	pid  int
	grown

	draws  int // counts drawn
	founds int // counts found
	states int // counts changes of run, pid, last
}

// Grown is what was read of one bundle; another one may take its place in its folder.
type grown struct {
	began   stamp // of trials.jsonl, its inode alone: another file is another run
	header  stamp
	run     result.Run
	info    RunInfo
	records lines
	log     lines
	recs    []result.Record // without what no drawing of a running run needs, the last of each ID
	whole   []result.Record // as recs, with all that they hold; nil: they are longer than mostWhole
	octets  int             // of them
	at      map[string]int
	last    result.LogLine
	tight   bool  // the run needs all CPUs of this machine
	failed  error // what cannot be read

	telemetry result.TelemetryTail
	timeline  *timeline.Growing
	drawn     *report.Timeline
	shape     string         // of drawn
	parts     map[int][]byte // drawn from a step on, encoded
	ended     int            // points that had ended when found was made
	found     []byte         // the document so far

	drew, judged time.Time
}

// lines are those of a file that grows, each with the octet at which it ends.
type lines struct {
	offset int64
	all    []line
}

type line struct {
	end  int64
	text []byte // JSON
}

// from is the index of the first line that ends behind an octet.
func (l *lines) from(offset int64) int {
	i, _ := slices.BinarySearchFunc(l.all, offset+1, func(a line, at int64) int { return int(min(max(a.end-at, -1), 1)) })
	return i
}

// poll reads what is new. It returns at once where it is too early for that.
func (g *growth) poll(now time.Time, held map[uint64][]lock) {
	g.mu.Lock()
	defer g.mu.Unlock()
	every := readEvery
	if g.tight && g.pid != 0 {
		every = tightEvery
	}
	if now.Sub(g.read) < every-readEvery/4 {
		return
	}
	g.read = now
	if pid := holder(held, g.dir); pid != g.pid {
		g.pid = pid
		g.states++
	}
	if err := g.take(now); err != nil && (g.failed == nil || g.failed.Error() != err.Error()) {
		g.failed = err
		g.states++
	}
}

func (g *growth) take(now time.Time) error {
	trials := stampOf(g.dir, result.TrialsFile)
	if trials.inode != g.began.inode || trials.size < g.records.offset {
		g.grown = grown{began: trials, at: map[string]int{}}
		g.states++
	}
	if header := stampOf(g.dir, result.RunFile); header != g.header {
		run, err := result.ReadRun(g.dir)
		if err != nil {
			return err
		}
		g.run, g.header, g.tight, g.info = run, header, needsAll(run), infoOf(g.id, run)
		g.states++
	}
	if err := g.records.grow(g.dir, result.TrialsFile, g.record); err != nil {
		return err
	}
	if err := g.log.grow(g.dir, result.LogFile, func(text []byte) ([]byte, error) {
		var l result.LogLine
		if err := json.Unmarshal(text, &l); err != nil {
			return nil, fmt.Errorf("%s has a line that is none: %w", result.LogFile, err)
		}
		g.last = l
		g.states++
		return json.Marshal(l)
	}); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := g.sample(); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	g.draw(now)
	return g.judge(now)
}

// grow reads the whole lines behind the last one.
func (l *lines) grow(dir, name string, take func([]byte) ([]byte, error)) error {
	f, err := plain(dir, name)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Size() == l.offset {
		return err
	}
	data, err := io.ReadAll(io.NewSectionReader(f, l.offset, mostLine))
	if err != nil {
		return err
	}
	if len(data) == mostLine && bytes.IndexByte(data, '\n') < 0 {
		return fmt.Errorf("%s has a line of more than %d octets", name, mostLine)
	}
	for {
		text, rest, whole := bytes.Cut(data, []byte("\n"))
		if !whole {
			return nil
		}
		if len(l.all) >= mostItems {
			return fmt.Errorf("%s has more than %d lines: boxdyno report shows all of them", name, mostItems)
		}
		out, err := take(text)
		if err != nil {
			return err
		}
		l.offset += int64(len(text)) + 1
		l.all = append(l.all, line{l.offset, out})
		data = rest
	}
}

// record takes a line of trials.jsonl.
func (g *growth) record(text []byte) ([]byte, error) {
	r, err := result.ParseRecord(text)
	if err != nil {
		return nil, fmt.Errorf("%s line %d is not a record: %w", result.TrialsFile, len(g.records.all)+1, err)
	}
	i, ok := g.at[r.ID]
	if !ok {
		i = len(g.recs)
		g.at[r.ID] = i
		g.recs = append(g.recs, r)
	}
	if g.octets += len(text); g.octets > mostWhole {
		g.whole = nil
	} else if ok {
		g.whole[i] = r
	} else {
		g.whole = append(g.whole, r)
	}
	r = slim(r)
	g.recs[i] = r
	g.states++
	return json.Marshal(r)
}

// slim is a record without what no drawing of a run that goes on needs.
func slim(r result.Record) result.Record {
	r.Digests, r.CPUs, r.DUT, r.Samples, r.KPIs, r.Copies, r.Alerts, r.Usage, r.Settings = nil, nil, nil, nil, nil, nil, nil, nil, nil
	if r.Load != nil {
		l := *r.Load
		l.Latency, l.Gaps, l.Arrivals = nil, nil, nil
		r.Load = &l
	}
	return r
}

func (g *growth) sample() error {
	f, err := plain(g.dir, result.TelemetryFile)
	if err != nil {
		return err
	}
	defer f.Close()
	if g.timeline == nil {
		g.timeline = timeline.NewGrowing(0, g.recs)
	}
	g.timeline.Trials(g.recs)
	_, err = g.telemetry.Read(f, mostRead, g.timeline.Add)
	return err
}

// draw makes the timeline as of now.
func (g *growth) draw(now time.Time) {
	if g.timeline == nil || now.Sub(g.drew) < drawEvery-readEvery/4 {
		return
	}
	t := g.timeline.Timeline(g.run, g.recs)
	if t == nil {
		return
	}
	g.drew = now
	if g.drawn != nil && t.Steps == g.drawn.Steps && t.Step == g.drawn.Step {
		return
	}
	g.drawn, g.shape, g.parts = t, shapeOf(t), map[int][]byte{}
	g.draws++
}

// shapeOf is what must be alike for one timeline to go on where another ended.
func shapeOf(t *report.Timeline) string {
	var b strings.Builder
	b.WriteString(strconv.FormatInt(t.Step, 10))
	for _, p := range t.Panels {
		b.WriteString("\x00" + p.Kind)
		for _, l := range p.Lines {
			b.WriteString("\x01" + l.Row + "\x02" + l.Name + strconv.FormatBool(l.Lo != nil))
		}
	}
	return b.String()
}

// again is how much of a timeline may still change behind its end: a collector whose
// values stay the same says so every 2 s.
const again = 4 * time.Second

// part is the timeline for a viewer who has seen so many steps of one of a shape.
func (g *growth) part(seen int, shape string) []byte {
	first := 0
	if shape == g.shape {
		first = max(seen-int(int64(again)/g.drawn.Step)-1, 0)
	}
	if g.parts[first] == nil {
		g.parts[first], _ = json.Marshal(timeline.From(g.drawn, first)) // plain data
	}
	return g.parts[first]
}

// judge says what was found so far, once points have ended.
func (g *growth) judge(now time.Time) error {
	ended := 0
	for _, r := range g.recs {
		if r.Parent == "" && r.Procedure != result.SelfTest && (r.Finished() || len(r.Values) > 0) {
			ended += 1 + len(r.Values)
		}
	}
	over := g.pid == 0
	if over {
		ended = -1 - ended
	}
	every := foundEvery
	if g.tight {
		every = 4 * tightEvery
	}
	if ended == g.ended && g.found != nil || !over && (ended == 0 || now.Sub(g.judged) < every) {
		return nil
	}
	g.judged = now
	doc, err := g.document()
	if err != nil {
		return err
	}
	doc.Plan, doc.Timeline = nil, nil
	if g.found, err = json.Marshal(page.Of(doc, nil).Document); err != nil {
		return err
	}
	g.ended = ended
	g.founds++
	return nil
}

// document is the report so far. It reads long runs again, and others never.
func (g *growth) document() (doc report.Document, err error) {
	if g.octets > mostWhole {
		doc, _, err = g.runs.open(g.dir)
		return doc, err
	}
	run, recs := g.run, slices.Clone(g.whole)
	g.runs.declare(&run, recs)
	return report.Summarize(run, recs), nil
}

// A GrowthState says how a run stands.
type GrowthState struct {
	Run      RunInfo  `json:"run"`
	Warnings []string `json:"warnings,omitempty"`
	PID      int      `json:"pid,omitempty"`
	Kind     string   `json:"kind"`  // of the last line of the log
	Text     string   `json:"text"`  // of it
	Point    string   `json:"point"` // that is measured
	Share    float64  `json:"share"` // of the run's time that is over, as estimated
	Left     float64  `json:"left_s"`
	Age      float64  `json:"age_s"`            // of share and left
	Every    float64  `json:"every_s"`          // how often this is told
	Slowed   string   `json:"slowed,omitempty"` // why that is seldom
	Error    string   `json:"error,omitempty"`
}

func (g *growth) state(now time.Time) GrowthState {
	s := GrowthState{Run: g.info, Warnings: g.run.Warnings, PID: g.pid, Kind: string(g.last.Kind), Text: g.last.Text, Point: g.last.Point, Share: g.last.Share, Left: g.last.Left, Every: drawEvery.Seconds()}
	if !g.last.At.IsZero() {
		s.Age = max(now.Sub(g.last.At).Seconds(), 0)
	}
	s.Run.State = Finished
	switch {
	case g.pid != 0:
		s.Run.State = GoesOn
	case slices.ContainsFunc(g.recs, func(r result.Record) bool { return !r.Finished() }) || len(g.recs) == 0:
		s.Run.State = Broken
	}
	for _, r := range g.recs {
		if r.Parent == "" {
			s.Run.Points++
		} else {
			s.Run.Trials++
		}
	}
	if g.tight && g.pid != 0 {
		s.Every, s.Slowed = tightEvery.Seconds(), "the run needs all CPUs of this machine"
	}
	if g.failed != nil {
		s.Error = g.failed.Error()
	}
	return s
}

// needsAll says whether a run on this machine needs all of its CPUs: by where its tester
// and its DUT are, or because it computes.
func needsAll(run result.Run) bool {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil || !slices.ContainsFunc(run.Machines, func(m result.Machine) bool { return m.BootID == strings.TrimSpace(string(boot)) }) {
		return false
	}
	used := map[string]bool{}
	for _, env := range run.Environments {
		for _, key := range []string{"tester_cpu", "dut_cpu"} {
			if cpu := result.Get(env, key); cpu != "" {
				used[cpu] = true
			}
		}
	}
	cpus := 0
	for _, m := range run.Machines {
		cpus = max(cpus, m.CPUs)
	}
	return run.Topology == "here" && run.Box == "" || len(used) > 0 && len(used) >= cpus
}
