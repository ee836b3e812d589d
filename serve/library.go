// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"boxdyno/report"
	"boxdyno/result"
)

// A library is the folder of runs. What a browser calls a run is looked up in it, and
// never becomes a part of a path.
type library struct {
	dir     string
	declare func(*result.Run, []result.Record)

	mu      sync.Mutex
	known   map[string]*kept // by ID
	changed time.Time        // the folder, when it was read last
	pending bool             // a folder in it has no run yet
}

// A kept run is what is known of one without its records.
type kept struct {
	dir           string
	header, found stamp  // of run.json; of trials.jsonl when it was summarized
	inode         uint64 // of trials.jsonl
	RunInfo
}

// A stamp tells whether a file is another one, or has grown.
type stamp struct {
	inode, size int64
	at          time.Time
}

func stampOf(dir, name string) stamp {
	info, err := os.Lstat(filepath.Join(dir, name))
	if err != nil || !info.Mode().IsRegular() {
		return stamp{}
	}
	return stamp{inodeOf(info), info.Size(), info.ModTime()}
}

// A RunInfo is a line of the list of runs.
type RunInfo struct {
	ID       string        `json:"id"`
	Start    time.Time     `json:"start"`
	What     string        `json:"what"` // role or procedures
	Role     string        `json:"role,omitempty"`
	Box      string        `json:"box,omitempty"`
	Machine  string        `json:"machine,omitempty"` // the board of the first one
	Kind     string        `json:"kind"`
	Topology string        `json:"topology"`
	Preset   string        `json:"preset"`
	Version  string        `json:"version"`
	State    State         `json:"state"`
	Verdict  result.Status `json:"verdict,omitempty"`
	Sentence string        `json:"sentence,omitempty"` // "": not read yet
	Error    string        `json:"error,omitempty"`    // why it cannot be read
	Tags     []string      `json:"tags,omitempty"`
	Points   int           `json:"points"`
	Trials   int           `json:"trials"`
	Seconds  float64       `json:"seconds"` // that its trials took, from the first to the last
}

// A State is whether a run goes on.
type State string

// The states of runs.
const (
	GoesOn   State = "running"
	Finished State = "finished"
	Broken   State = "broken off" // killed or interrupted; boxdyno run --resume goes on
)

func newLibrary(dir string, declare func(*result.Run, []result.Record)) *library {
	if declare == nil {
		declare = func(*result.Run, []result.Record) {}
	}
	return &library{dir: dir, declare: declare, known: map[string]*kept{}}
}

// read reads the folder again: what has been added and removed, and with all every
// run's header, if it has changed.
func (l *library) read(all bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	info, err := os.Stat(l.dir)
	if err != nil {
		return // none yet: those that were known are gone, or the disk is
	}
	if !all && !l.pending && info.ModTime().Equal(l.changed) {
		return
	}
	entries, err := os.ReadDir(l.dir)
	if err != nil {
		return
	}
	l.changed, l.pending = info.ModTime(), false
	there := map[string]bool{}
	for _, e := range entries {
		if !e.IsDir() || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		k := l.known[e.Name()]
		if there[e.Name()] = k != nil; k != nil && !all {
			continue
		}
		dir := filepath.Join(l.dir, e.Name())
		header := stampOf(dir, result.RunFile)
		if header == (stamp{}) {
			there[e.Name()] = false
			made, err := e.Info()
			l.pending = l.pending || err == nil && time.Since(made.ModTime()) < time.Hour // a run may begin there
			continue
		}
		if there[e.Name()] = true; k == nil || k.header != header {
			l.known[e.Name()] = opened(e.Name(), dir, header)
		}
	}
	for id := range l.known {
		if !there[id] {
			delete(l.known, id)
		}
	}
}

// opened reads the header of a run.
func opened(id, dir string, header stamp) *kept {
	k := &kept{dir: dir, header: header, inode: uint64(stampOf(dir, result.TrialsFile).inode), RunInfo: RunInfo{ID: id}}
	run, err := result.ReadRun(dir)
	if err != nil {
		k.Error = err.Error()
		return k
	}
	k.RunInfo = infoOf(id, run)
	return k
}

// infoOf is a run's line as far as its header says it.
func infoOf(id string, run result.Run) RunInfo {
	i := RunInfo{ID: id, Start: run.Start, What: whatOf(run), Role: run.Role, Box: run.Box, Kind: run.Kind, Topology: run.Topology, Preset: run.Preset, Version: run.Version}
	if len(run.Machines) > 0 {
		if i.Machine = run.Machines[0].Board; i.Machine == "" {
			i.Machine = run.Machines[0].Name
		}
	}
	return i
}

// whatOf is what a run measures, in a word or a few.
func whatOf(run result.Run) string {
	if run.Role != "" {
		return run.Role
	}
	var names []string
	for _, p := range run.Procedures {
		if p.Name != "self-test" && !slices.Contains(names, p.Name) {
			names = append(names, p.Name)
		}
	}
	if n := len(names); n > 3 {
		names = append(names[:3], "...")
	}
	return strings.Join(names, ", ")
}

// list returns all runs, the newest first, after at most so much time of summarizing
// those that were not read yet; more says that some were not.
func (l *library) list(budget time.Duration) (all []RunInfo, more bool) {
	l.read(true)
	l.mu.Lock()
	defer l.mu.Unlock()
	held := locks()
	var runs []*kept
	for _, k := range l.known {
		runs = append(runs, k)
	}
	slices.SortFunc(runs, func(a, b *kept) int {
		if c := b.Start.Compare(a.Start); c != 0 {
			return c
		}
		return strings.Compare(b.ID, a.ID)
	})
	end := time.Now().Add(budget)
	for _, k := range runs {
		on := l.on(held, k)
		if !on && k.Error == "" {
			if trials := stampOf(k.dir, result.TrialsFile); k.found != trials {
				if time.Now().After(end) {
					more = true
				} else {
					l.summarize(k, trials)
				}
			}
		}
		info := k.RunInfo
		if of := stampOf(k.dir, result.TagsFile); of != (stamp{}) {
			info.Tags, _ = result.ReadTags(k.dir) // what is no tag is none
		}
		if on {
			info.State, info.Verdict, info.Sentence = GoesOn, result.Running, ""
		}
		all = append(all, info)
	}
	return all, more
}

// summarize reads a run's records for its line.
func (l *library) summarize(k *kept, trials stamp) {
	k.found = trials
	doc, recs, err := l.open(k.dir)
	if err != nil {
		k.Error = err.Error()
		return
	}
	k.Verdict, k.Sentence, k.State = doc.Verdict, doc.Sentence, Finished
	k.Points, k.Trials = 0, 0
	var from, to time.Time
	for _, r := range recs {
		if !r.Finished() {
			k.State = Broken
		}
		if r.Parent == "" && r.Procedure != "self-test" {
			k.Points++
			continue
		}
		k.Trials++
		if from.IsZero() || r.Start.Before(from) {
			from = r.Start
		}
		if end := r.Start.Add(time.Duration(r.End - r.Begin)); end.After(to) {
			to = end
		}
	}
	k.Seconds = to.Sub(from).Seconds()
	if k.Points == 0 {
		k.State = Broken
	}
}

// open reads a run as report does.
func (l *library) open(dir string) (report.Document, []result.Record, error) {
	if err := isPlain(dir); err != nil {
		return report.Document{}, nil, err
	}
	run, recs, err := result.Open(dir)
	if err != nil {
		return report.Document{}, nil, err
	}
	l.declare(&run, recs)
	return report.Summarize(run, recs), recs, nil
}

// on says whether a run goes on.
func (l *library) on(held map[uint64][]lock, k *kept) bool {
	return len(held[k.inode]) > 0 && holder(held, k.dir) != 0
}

// find returns the folder of a run; "" for one that is not there.
func (l *library) find(id string) string {
	l.read(false)
	l.mu.Lock()
	defer l.mu.Unlock()
	if k := l.known[id]; k != nil {
		return k.dir
	}
	return ""
}

// active are the runs that go on, the newest first.
func (l *library) active(held map[uint64][]lock) (on []RunInfo) {
	l.read(false)
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range l.known {
		if l.on(held, k) {
			info := k.RunInfo
			info.State = GoesOn
			on = append(on, info)
		}
	}
	slices.SortFunc(on, func(a, b RunInfo) int { return b.Start.Compare(a.Start) })
	return on
}

// newest is the ID of the newest run; "": there is none.
func (l *library) newest() (id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var start time.Time
	for _, k := range l.known {
		if k.Error == "" && (id == "" || k.Start.After(start)) {
			id, start = k.ID, k.Start
		}
	}
	return id
}

func inodeOf(info fs.FileInfo) int64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return int64(st.Ino)
	}
	return 0
}
