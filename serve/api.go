// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"

	"boxdyno/report"
	"boxdyno/report/page"
	"boxdyno/report/timeline"
	"boxdyno/result"
)

// mostCompared is how many runs a comparison has.
const mostCompared = 16

func (s *Server) routes() http.Handler {
	m := http.NewServeMux()
	handle := func(pattern string, f func(http.ResponseWriter, *http.Request) error) {
		m.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if err := f(w, r); err != nil {
				fail(w, err)
			}
		})
	}
	handle("GET /{$}", func(w http.ResponseWriter, _ *http.Request) error {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write(s.page)
		return nil
	})
	handle("GET /api/about", s.about)
	handle("GET /api/events", s.events)
	handle("GET /api/runs", s.list)
	handle("GET /api/runs/{id}/page", s.runPage)
	handle("GET /api/runs/{id}/report", s.file)
	handle("GET /api/runs/{id}/timeline", s.window)
	handle("GET /api/compare", s.compare)
	handle("GET /api/boards", s.boards)
	handle("GET /api/history", s.history)
	handle("GET /api/history/metrics", s.metricsList)
	handle("GET /api/size", s.size)
	handle("GET /api/fleet", s.fleet)
	handle("GET /metrics", s.metrics)
	handle("POST /api/runs", s.begin)
	handle("POST /api/runs/{id}/cancel", s.cancel)
	handle("/", func(http.ResponseWriter, *http.Request) error {
		return answer{http.StatusNotFound, "there is no such page"}
	})
	return m
}

func reply(w http.ResponseWriter, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode the answer: %w", err)
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(data)
	return nil
}

// An About says what this server does.
type About struct {
	Version  string  `json:"version"`
	ReadOnly bool    `json:"read_only"`
	Knows    bool    `json:"knows"` // the token that was sent
	Fleet    bool    `json:"fleet"` // there is a hub
	Offers   []Offer `json:"offers,omitempty"`
}

func (s *Server) about(w http.ResponseWriter, r *http.Request) error {
	a := About{Version: s.o.Version, ReadOnly: s.o.ReadOnly, Knows: s.knows(r), Fleet: s.o.Fleet != nil}
	if !s.o.ReadOnly {
		a.Offers = s.o.Offers
	}
	return reply(w, a)
}

// listBudget is how long one request for the list may wait for the index.
const listBudget = time.Second

func (s *Server) list(w http.ResponseWriter, r *http.Request) error {
	all := s.listed(r.Context(), listBudget)
	if all.Runs == nil {
		all.Runs = []RunInfo{}
	}
	return reply(w, all)
}

// dir is the folder of the run that a request names.
func (s *Server) dir(r *http.Request) (id, dir string, err error) {
	id = r.PathValue("id")
	if dir = s.runs.find(id); dir == "" {
		return id, "", answer{http.StatusNotFound, "there is no such run"}
	}
	return id, dir, nil
}

// document is what the report of a run has.
func (s *Server) document(dir string) (report.Document, []result.Record, error) {
	doc, recs, err := s.runs.open(dir)
	if err != nil {
		return doc, nil, answer{http.StatusUnprocessableEntity, without(err.Error(), dir)}
	}
	in, err := result.OpenTelemetry(dir)
	if err == nil {
		run, rerr := result.ReadRun(dir)
		if err = rerr; err == nil {
			doc.Timeline, err = timeline.Read(in, run, recs)
		}
		in.Close()
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		doc.Warnings = append(doc.Warnings[:len(doc.Warnings):len(doc.Warnings)], fmt.Sprintf("not all that was sampled is drawn: %s", without(err.Error(), dir)))
	}
	return doc, recs, nil
}

func (s *Server) runPage(w http.ResponseWriter, r *http.Request) error {
	_, dir, err := s.dir(r)
	if err != nil {
		return err
	}
	doc, recs, err := s.document(dir)
	if err != nil {
		return err
	}
	return reply(w, page.Of(doc, recs))
}

// file is the report as a file that opens from disk.
func (s *Server) file(w http.ResponseWriter, r *http.Request) error {
	_, dir, err := s.dir(r)
	if err != nil {
		return err
	}
	doc, recs, err := s.document(dir)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Disposition", `attachment; filename="boxdyno-report.html"`)
	w.Header().Set("Content-Security-Policy", "sandbox; default-src 'none'")
	return page.Write(w, doc, recs)
}

func (s *Server) compare(w http.ResponseWriter, r *http.Request) error {
	ids := r.URL.Query()["run"]
	if len(ids) < 2 || len(ids) > mostCompared {
		return answer{http.StatusBadRequest, fmt.Sprintf("name 2 to %d runs to compare", mostCompared)}
	}
	var sides []report.Side
	for _, id := range ids {
		dir := s.runs.find(id)
		if dir == "" {
			return answer{http.StatusNotFound, "there is no such run"}
		}
		doc, recs, err := s.runs.open(dir)
		if err != nil {
			return answer{http.StatusUnprocessableEntity, without(err.Error(), dir)}
		}
		sides = append(sides, report.Side{Name: id, Runs: []report.Kept{{Document: doc, Records: recs}}})
	}
	c, err := report.Compare(s.o.Version, sides, r.URL.Query()["ignore"])
	if err != nil {
		return answer{http.StatusUnprocessableEntity, err.Error()}
	}
	return reply(w, c)
}

func (s *Server) begin(w http.ResponseWriter, r *http.Request) error {
	var ask Start
	if err := body(r, &ask); err != nil {
		return err
	}
	id, err := s.started.begin(ask, time.Now())
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_, _ = w.Write(marshal(map[string]string{"id": id}))
	return nil
}

// body reads what was sent in JSON.
func body(r *http.Request, v any) error {
	if r.Header.Get("Content-Type") != "application/json" {
		return answer{http.StatusUnsupportedMediaType, "send JSON, with Content-Type: application/json"}
	}
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	err := d.Decode(v)
	if err == nil && d.More() {
		err = errors.New("there is more behind it")
	}
	if big := (*http.MaxBytesError)(nil); errors.As(err, &big) {
		return answer{http.StatusRequestEntityTooLarge, fmt.Sprintf("send at most %d octets", mostBody)}
	}
	if err != nil {
		return answer{http.StatusBadRequest, "what was sent is not what is asked for: " + err.Error()}
	}
	return nil
}

func (s *Server) cancel(w http.ResponseWriter, r *http.Request) error {
	var nothing struct{}
	if err := body(r, &nothing); err != nil {
		return err
	}
	id, dir, err := s.dir(r)
	if err != nil {
		if pid, ok := s.started.cancel(id); ok {
			return reply(w, map[string]int{"pid": pid})
		}
		return err
	}
	pid, err := interrupt(dir)
	if err != nil {
		return err
	}
	return reply(w, map[string]int{"pid": pid})
}

// A window of a timeline is asked for again and again while a reader zooms: the last
// runs' telemetry is kept as it was read, with as many steps as it has, up to these.
const (
	mostFine  = 1 << 17
	mostSteps = 4000 // of an answer
	mostKept  = 2    // runs
)

type windows struct {
	mu   sync.Mutex
	kept []fine
}

type fine struct {
	dir      string
	of       stamp // telemetry
	read     time.Time
	timeline *report.Timeline
}

// window is GET /api/runs/ID/timeline?from=ns&to=ns&steps=n: a part of the timeline in
// steps as fine as were sampled, or as asked for.
func (s *Server) window(w http.ResponseWriter, r *http.Request) error {
	_, dir, err := s.dir(r)
	if err != nil {
		return err
	}
	q := r.URL.Query()
	from, err1 := strconv.ParseInt(q.Get("from"), 10, 64)
	to, err2 := strconv.ParseInt(q.Get("to"), 10, 64)
	steps, err3 := strconv.Atoi(q.Get("steps"))
	if errors.Join(err1, err2, err3) != nil || from < 0 || to <= from || steps < 1 || steps > mostSteps {
		return answer{http.StatusBadRequest, fmt.Sprintf("give from and to in ns, and 1 to %d steps", mostSteps)}
	}
	t, err := s.windows.of(dir, s.runs)
	switch {
	case errors.Is(err, fs.ErrNotExist) || err == nil && t == nil:
		return answer{http.StatusNotFound, "the run has no telemetry"}
	case err != nil:
		return answer{http.StatusUnprocessableEntity, without(err.Error(), dir)}
	}
	return reply(w, timeline.Window(t, from, to, steps))
}

// of is a run's timeline with all of its steps.
func (c *windows) of(dir string, runs *library) (*report.Timeline, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, of := time.Now(), stampOf(dir, result.TelemetryFile)
	for i, k := range c.kept {
		if k.dir == dir && (k.of == of || now.Sub(k.read) < 10*time.Second) { // it grows while a run goes on
			c.kept = append(append(c.kept[:i:i], c.kept[i+1:]...), k)
			return k.timeline, nil
		}
	}
	if err := isPlain(dir); err != nil {
		return nil, err
	}
	run, recs, err := result.Open(dir)
	if err != nil {
		return nil, err
	}
	f, err := plain(dir, result.TelemetryFile)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	t, err := readFine(f, run, recs)
	if err != nil {
		return nil, err
	}
	kept := c.kept[:0:0]
	for _, k := range c.kept {
		if k.dir != dir {
			kept = append(kept, k)
		}
	}
	if len(kept) >= mostKept {
		kept = kept[1:]
	}
	c.kept = append(kept, fine{dir, of, now, t})
	return t, nil
}

func readFine(f *os.File, run result.Run, recs []result.Record) (*report.Timeline, error) {
	g := timeline.NewGrowing(mostFine, recs)
	g.Trials(recs)
	var tail result.TelemetryTail
	for more := true; more; {
		var err error
		if more, err = tail.Read(f, mostRead, g.Add); err != nil {
			return nil, err
		}
	}
	return g.Timeline(run, recs), nil
}
