// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"boxdyno/internal/guard"
	"boxdyno/result"
)

// The list of runs is the index's: boxdyno runs --json enters what is new, and prints it.
// It is asked when a browser wants the list and files of runs that have ended are not as they
// were. A run that goes on is no reason to ask. In a large library an answer takes seconds, so
// the index then rests. A few runs that have just ended are therefore read here.
//
//	GET /api/runs  -->  stamps of files  -- many changed -->  boxdyno runs --json  -->  lines
//	                                     -- a few -------->  the runs themselves   -->  lines

// askAgain is how long the index is left alone after an answer, at least, askShare how many
// times as long as the answer took, and longestRest how long at most.
const (
	askAgain    = time.Second
	askShare    = 20
	longestRest = time.Minute
)

// The runs that are read here for one request, and the octets of their records together.
const (
	mostOwn       = 8
	mostOwnOctets = 4 << 20
)

// An indexing is a question to the index, and its last answer.
type indexing struct {
	done     chan struct{} // of the question that is being answered; nil: none is
	next     time.Time     // no sooner is it asked again
	answered time.Time     // when the last one was asked that had an answer; zero: none had
	problem  string        // why there was no answer
}

// indexedRuns is what boxdyno runs --json prints, as far as a line has it.
type indexedRuns struct {
	Runs []struct {
		RunInfo
		Dir        string `json:"dir"`
		Board      string `json:"board"`
		Unfinished bool   `json:"unfinished"`
	} `json:"runs"`
	Broken []struct{ Dir, Cause string } `json:"broken"`
}

// A runList is the list of runs.
type runList struct {
	Runs []RunInfo `json:"runs"`
	More bool      `json:"more"` // some have yet to be read: ask again
	// Behind is how many runs have ended or changed since they were read, and Age how long
	// ago the index was.
	Behind  int     `json:"behind,omitempty"`
	Age     float64 `json:"age_s,omitempty"`
	Problem string  `json:"problem,omitempty"` // why there will be no more
}

// listed returns all runs. It waits for the index for a while, unless only a few runs have
// changed since.
func (s *Server) listed(ctx context.Context, budget time.Duration) (list runList) {
	s.runs.read(true)
	begun := time.Now()
	due := s.runs.due()
	s.mu.Lock()
	entered := !s.indexing.answered.IsZero()
	s.mu.Unlock()
	asked := false
	if some := few(due); len(due) > 0 && !(entered && len(some) == len(due)) {
		asked = s.ask(ctx, begun, budget)
		due = s.runs.due()
	}
	if some := few(due); len(some) > 0 && s.o.Library != nil && !s.tight() {
		s.runs.own(some)
		due = due[len(some):]
	}
	list.Runs, list.More = s.runs.list(budget - time.Since(begun))
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.indexing
	list.More, list.Problem = list.More && (asked || x.done != nil), x.problem
	if len(due) > 0 && !x.answered.IsZero() {
		list.Behind, list.Age = len(due), time.Since(x.answered).Seconds()
	}
	return list
}

// few are the first of the runs that are due, as many as are read here at once.
func few(all []due) []due {
	octets := int64(0)
	for i, d := range all {
		if octets += d.files.trials.size; i == mostOwn || octets > mostOwnOctets {
			return all[:i]
		}
	}
	return all
}

// ask has the index answer, and waits for that as long as budget. false: it is not asked.
func (s *Server) ask(ctx context.Context, now time.Time, budget time.Duration) bool {
	s.mu.Lock()
	x := &s.indexing
	if x.done == nil {
		if s.o.Library == nil || now.Before(x.next) {
			s.mu.Unlock()
			return false
		}
		done := make(chan struct{})
		x.done = done
		ctx = context.WithoutCancel(ctx) // others wait for it, too
		guard.Go(func() {
			defer close(done)
			err := s.reindex(ctx)
			s.mu.Lock()
			defer s.mu.Unlock()
			rest := min(askShare*time.Since(now), longestRest)
			x.done, x.problem = nil, ""
			if err != nil { // what was entered so far stays: the next question is answered sooner
				rest, x.problem = askAgain, err.Error()
			} else {
				x.answered = now
			}
			x.next = time.Now().Add(max(askAgain, rest))
		})
	}
	done := x.done
	s.mu.Unlock()
	select {
	case <-done:
	case <-time.After(budget):
	}
	return true
}

// reindex takes over what the index says.
func (s *Server) reindex(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := guard.AfterDone(s.life, cancel)
	defer stop()
	seen := s.runs.seen()
	out, err := s.told(ctx, s.listing, append([]string{"runs", "--json"}, s.o.Library...))
	if err != nil {
		return err
	}
	var x indexedRuns
	if err := json.Unmarshal(out, &x); err != nil {
		return fmt.Errorf("read the list of runs: %w", err)
	}
	s.runs.take(seen, x)
	return nil
}

// A due run has ended, and its files are not as its line was made of them.
type due struct {
	id, dir string
	files   stamps
}

// due are those runs, the one that was written last first.
func (l *library) due() (all []due) {
	l.mu.Lock()
	defer l.mu.Unlock()
	held := locks()
	for id, k := range l.known {
		if (k.line == nil || k.indexed != k.files) && !l.on(held, k) {
			all = append(all, due{id, k.dir, k.files})
		}
	}
	slices.SortFunc(all, func(a, b due) int {
		return cmp.Or(b.files.trials.at.Compare(a.files.trials.at), strings.Compare(a.id, b.id))
	})
	return all
}

// own makes the lines of some runs of their own files, as the index would.
func (l *library) own(some []due) {
	for _, d := range some {
		info := l.line(d.id, d.dir)
		l.mu.Lock()
		if k := l.known[d.id]; k != nil && k.files == d.files {
			k.line, k.indexed = &info, d.files
		}
		l.mu.Unlock()
	}
}

// line reads a run that has ended. A fault in what judges it is its own.
func (l *library) line(id, dir string) (info RunInfo) {
	run, err := result.ReadRun(dir)
	info = infoOf(id, run)
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("it cannot be judged: %v", v)
		}
		if err != nil {
			info.Error = without(err.Error(), dir)
		}
	}()
	if err != nil {
		return info
	}
	doc, recs, err1 := l.open(dir)
	if err = err1; err != nil {
		return info
	}
	info.State, info.Verdict, info.Sentence, info.Procedures = Finished, doc.Verdict, doc.Sentence, nil
	if info.Box == "" && len(run.Machines) > 0 {
		info.Box = run.Machines[0].Name
	}
	var from, to time.Time
	for _, r := range recs {
		if !r.Finished() {
			info.State = Broken
		}
		if r.Parent == "" {
			if info.Points++; !slices.Contains(info.Procedures, r.Procedure) {
				info.Procedures = append(info.Procedures, r.Procedure)
			}
			continue
		}
		info.Trials++
		if from.IsZero() || r.Start.Before(from) {
			from = r.Start
		}
		if end := r.Start.Add(time.Duration(r.End - r.Begin)); end.After(to) {
			to = end
		}
	}
	if info.Points == 0 {
		info.State = Broken
	}
	info.What, info.Seconds = whatOf(info.Role, info.Procedures), max(0, to.Sub(from).Seconds())
	info.Tags, err = result.ReadTags(dir)
	return info
}

// seen are the files of all runs.
func (l *library) seen() map[string]stamps {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := map[string]stamps{}
	for id, k := range l.known {
		all[id] = k.files
	}
	return all
}

// take replaces the lines of runs whose files were seen before the index read them.
func (l *library) take(seen map[string]stamps, x indexedRuns) {
	l.mu.Lock()
	defer l.mu.Unlock()
	lines := map[string]RunInfo{} // by folder
	same := map[string]RunInfo{}  // by name and begin: a copy of a run is that run
	name := func(id string, start time.Time) string { return id + start.UTC().Format(time.RFC3339Nano) }
	for _, r := range x.Runs {
		info := r.RunInfo
		info.What, info.State = whatOf(info.Role, info.Procedures), Finished
		if r.Board != "" {
			info.Machine = r.Board
		}
		if r.Unfinished {
			info.State = Broken
		}
		lines[r.Dir], same[name(r.ID, r.Start)] = info, info
	}
	causes := map[string]string{}
	for _, b := range x.Broken {
		causes[b.Dir] = b.Cause
	}
	for id, files := range seen {
		k := l.known[id]
		if k == nil {
			continue
		}
		info, ok := lines[k.dir]
		if cause, broken := causes[k.dir]; broken {
			info = k.head()
			info.Error = without(cause, k.dir)
		} else if !ok {
			run, err := result.ReadRun(k.dir)
			if err != nil {
				info = k.head()
			} else if info, ok = same[name(run.ID, run.Start)]; ok {
				info.Tags, _ = result.ReadTags(k.dir) // what is no tag is none
			} else {
				info = infoOf(id, run)
			}
		}
		info.ID = id
		k.line, k.indexed = &info, files
	}
}
