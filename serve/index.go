// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"boxdyno/internal/guard"
	"boxdyno/result"
)

// The list of runs is the index's: boxdyno runs --json enters what is new, and prints it.
// It is asked when a browser wants the list and files of a run that has ended are not as they
// were. A run that goes on is no reason to ask.
//
//	GET /api/runs  -->  stamps of files  -- changed -->  boxdyno runs --json  -->  lines

// askAgain is how long the index is left alone after an answer, at least, askShare how many
// times as long as the answer took, and longestRest how long at most.
const (
	askAgain    = time.Second
	askShare    = 20
	longestRest = time.Minute
)

// An indexing is a question to the index, and its last answer.
type indexing struct {
	done    chan struct{} // of the question that is being answered; nil: none is
	next    time.Time     // no sooner is it asked again
	problem string        // why there was no answer
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

// listed returns all runs. It waits for the index for a while; more says that the list is
// not whole yet, and problem why it will not be.
func (s *Server) listed(ctx context.Context, budget time.Duration) (all []RunInfo, more bool, problem string) {
	s.runs.read(true)
	begun := time.Now()
	asked := s.runs.stale() && s.ask(ctx, begun, budget)
	all, more = s.runs.list(budget - time.Since(begun))
	s.mu.Lock()
	defer s.mu.Unlock()
	return all, more && (asked || s.indexing.done != nil), s.indexing.problem
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
	out, err := s.told(ctx, append([]string{"runs", "--json"}, s.o.Library...))
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

// stale says whether a run that has ended is not as the index read it.
func (l *library) stale() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	held := locks()
	for _, k := range l.known {
		if (k.line == nil || k.indexed != k.files) && !l.on(held, k) {
			return true
		}
	}
	return false
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
			info.Error = k.without(cause)
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
