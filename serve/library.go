// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"cmp"
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

// A library is the folder of runs: which there are, and whether their files have changed.
// What they say is the index's (index.go). What a browser calls a run is looked up in it, and
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
	dir     string
	files   stamps
	opened  stamp // run.json when header was read
	header  RunInfo
	indexed stamps // files when the index read them
	line    *RunInfo
}

// Stamps are those of a bundle's files that the index reads.
type stamps struct{ header, trials, tags stamp }

func stampsOf(dir string) stamps {
	return stamps{stampOf(dir, result.RunFile), stampOf(dir, result.TrialsFile), stampOf(dir, result.TagsFile)}
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
	ID       string    `json:"id"`
	Start    time.Time `json:"start"`
	What     string    `json:"what"` // role or procedures
	Role     string    `json:"role,omitempty"`
	Box      string    `json:"box,omitempty"`
	Machine  string    `json:"machine,omitempty"` // the board of the first one
	Kind     string    `json:"kind"`
	Topology string    `json:"topology"`
	Preset   string    `json:"preset"`
	Version  string    `json:"version"`
	// Procedures are all of them.
	Procedures []string      `json:"procedures,omitempty"`
	State      State         `json:"state"`
	Verdict    result.Status `json:"verdict,omitempty"`
	Sentence   string        `json:"sentence,omitempty"` // "": not read yet
	Error      string        `json:"error,omitempty"`    // why it cannot be read
	Tags       []string      `json:"tags,omitempty"`
	Points     int           `json:"points"`
	Trials     int           `json:"trials"`
	Seconds    float64       `json:"seconds"` // that its trials took, from the first to the last
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

// read reads the folder again: what has been added and removed, and with all whether the
// files of runs have changed.
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
		if there[e.Name()] = k != nil; k != nil && !all && k.files.trials != (stamp{}) {
			continue
		}
		dir := filepath.Join(l.dir, e.Name())
		files := stampsOf(dir)
		if files.header == (stamp{}) {
			there[e.Name()] = false
			made, err := e.Info()
			l.pending = l.pending || err == nil && time.Since(made.ModTime()) < time.Hour // a run may begin there
			continue
		}
		there[e.Name()] = true
		if k == nil {
			k = &kept{dir: dir, header: RunInfo{ID: e.Name()}}
			l.known[e.Name()] = k
		}
		k.files = files
		l.pending = l.pending || files.trials == (stamp{})
	}
	for id := range l.known {
		if !there[id] {
			delete(l.known, id)
		}
	}
}

// head is a run's line as far as its header says it. The header is read if it has changed.
func (k *kept) head() RunInfo {
	if k.opened == k.files.header {
		return k.header
	}
	k.opened = k.files.header
	id := k.header.ID
	run, err := result.ReadRun(k.dir)
	if err != nil {
		k.header = RunInfo{ID: id, Error: without(err.Error(), k.dir)}
		return k.header
	}
	k.header = infoOf(id, run)
	return k.header
}

// without is a text without the folder of the run, which is not a browser's business.
func without(text, dir string) string { return strings.ReplaceAll(text, dir+"/", "") }

// infoOf is a run's line as far as its header says it.
func infoOf(id string, run result.Run) RunInfo {
	i := RunInfo{ID: id, Start: run.Start, Role: run.Role, Box: run.Box, Kind: run.Kind, Topology: run.Topology, Preset: run.Preset, Version: run.Version}
	for _, p := range run.Procedures {
		if p.Name != report.SelfTestProcedure && !slices.Contains(i.Procedures, p.Name) {
			i.Procedures = append(i.Procedures, p.Name)
		}
	}
	i.What = whatOf(i.Role, i.Procedures)
	if len(run.Machines) > 0 {
		i.Machine = cmp.Or(run.Machines[0].Board, run.Machines[0].Name)
	}
	return i
}

// whatOf is what a run measures, in a word or a few.
func whatOf(role string, procedures []string) string {
	if role != "" {
		return role
	}
	if len(procedures) > 3 {
		procedures = append(slices.Clone(procedures[:3]), "...")
	}
	return strings.Join(procedures, ", ")
}

// list returns all runs, the newest first. Of a run that the index has not read yet it has
// what the header says, and more says so; headers are read for as long as there is time.
func (l *library) list(budget time.Duration) (all []RunInfo, more bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	held, end := locks(), time.Now().Add(budget)
	for _, k := range l.known {
		var info RunInfo
		switch on := l.on(held, k); {
		case on:
			info = k.head()
			info.State, info.Verdict = GoesOn, result.Running
		case k.line != nil:
			info = *k.line
		case time.Now().After(end):
			info, more = k.header, true
		default:
			info = k.head()
			more = more || info.Error == ""
		}
		all = append(all, info)
	}
	slices.SortFunc(all, func(a, b RunInfo) int { return cmp.Or(b.Start.Compare(a.Start), strings.Compare(a.ID, b.ID)) })
	return all, more
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
	return len(held[uint64(k.files.trials.inode)]) > 0 && holder(held, k.dir) != 0
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
			info := k.head()
			info.State = GoesOn
			on = append(on, info)
		}
	}
	slices.SortFunc(on, func(a, b RunInfo) int { return b.Start.Compare(a.Start) })
	return on
}

// newest is the ID of the run whose header was written last; "": there is none.
func (l *library) newest() (id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var at time.Time
	for name, k := range l.known {
		if (id == "" || cmp.Or(k.files.header.at.Compare(at), strings.Compare(name, id)) > 0) && k.head().Error == "" {
			id, at = name, k.files.header.at
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
