// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"time"

	"boxdyno/internal/guard"
)

// Server-sent events: beat twice a second, runs when a run begins or ends, and of the run
// that is asked for state, records, log, telemetry and found. An event's id is how far
// its viewer has read, in octets of trials.jsonl and log.jsonl, so that any server for
// the same folder can go on where another one was killed:
//
//	id: 3f21-48211-9120      inode of trials.jsonl, octets of it, octets of log.jsonl

// beat is how often a viewer is told that the connection is there.
const beat = 500 * time.Millisecond

// The most that one event holds.
const (
	recordsAtOnce = 200
	linesKept     = 2000 // of the log, for a viewer who comes late
)

// A viewer is one browser that listens.
type viewer struct {
	wake chan struct{}
	run  string // ID; "": none
	of   *growth

	inode        int64
	records, log int64 // octets that it has
	draws        int
	steps        int
	shape        string
	founds       int
	states       int
	every        time.Time // when state was sent last
	active       *[]byte
}

var position = regexp.MustCompile(`^([0-9a-f]{1,16})-(\d{1,18})-(\d{1,18})$`)

// events is GET /api/events?run=ID.
func (s *Server) events(w http.ResponseWriter, r *http.Request) error {
	v := &viewer{wake: make(chan struct{}, 1), run: r.URL.Query().Get("run")}
	if last := r.Header.Get("Last-Event-ID"); last != "" {
		m := position.FindStringSubmatch(last)
		if m == nil {
			return answer{http.StatusBadRequest, "Last-Event-ID is none of this server's"}
		}
		inode, _ := strconv.ParseUint(m[1], 16, 64) // digits, as many as fit
		v.inode = int64(inode)
		v.records, _ = strconv.ParseInt(m[2], 10, 64)
		v.log, _ = strconv.ParseInt(m[3], 10, 64)
	}
	if v.run != "" {
		if dir := s.runs.find(v.run); dir != "" {
			v.of = s.grow(v.run, dir)
		} else if !s.started.has(v.run) {
			return answer{http.StatusNotFound, "there is no such run"}
		}
	}
	if !s.enter(v) {
		return answer{http.StatusServiceUnavailable, fmt.Sprintf("%d viewers are here already: close one", mostViewers)}
	}
	defer s.leave(v)
	out := &stream{w: w, c: http.NewResponseController(w)}
	_ = out.c.SetReadDeadline(time.Time{}) // that of the request has been read
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	out.add("hello", "", []byte(fmt.Sprintf(`{"version":%q,"run":%q,"retry_ms":%d}`, s.o.Version, v.run, beat.Milliseconds())))
	for {
		s.pending(v, out, time.Now())
		out.add("beat", "", []byte("{}"))
		if err := out.flush(); err != nil {
			return nil // the browser is gone
		}
		select {
		case <-r.Context().Done():
			return nil
		case <-v.wake:
		}
	}
}

// A stream writes events, and gives a browser that does not read them up.
type stream struct {
	w   http.ResponseWriter
	c   *http.ResponseController
	buf bytes.Buffer
}

func (o *stream) add(event, id string, data []byte) {
	o.buf.WriteString("event: " + event + "\n")
	if id != "" {
		o.buf.WriteString("id: " + id + "\n")
	}
	o.buf.WriteString("data: ")
	o.buf.Write(data) // JSON on one line
	o.buf.WriteString("\n\n")
}

func (o *stream) flush() error {
	_ = o.c.SetWriteDeadline(time.Now().Add(patience))
	if _, err := o.w.Write(o.buf.Bytes()); err != nil {
		return err
	}
	if o.buf.Reset(); o.buf.Cap() > 1<<20 {
		o.buf = bytes.Buffer{}
	}
	return o.c.Flush()
}

// pending adds what v does not have yet.
func (s *Server) pending(v *viewer, out *stream, now time.Time) {
	if active := s.active.Load(); active != nil && active != v.active {
		v.active = active
		out.add("runs", "", *active)
	}
	g := v.of
	if g == nil {
		if v.run != "" { // the page has started it, and it has no bundle yet
			if dir := s.runs.find(v.run); dir != "" {
				g = s.grow(v.run, dir)
				s.mu.Lock()
				v.of = g
				s.mu.Unlock()
			}
		}
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.at == nil {
		return // nothing was read yet
	}
	if v.inode != g.began.inode || v.records > g.records.offset || v.log > g.log.offset {
		v.inode, v.records, v.log, v.draws, v.shape, v.founds = g.began.inode, 0, 0, 0, "", 0
		out.add("anew", "", []byte("{}"))
	}
	where := func() string { return fmt.Sprintf("%x-%d-%d", v.inode, v.records, v.log) }
	if v.states != g.states || now.Sub(v.every) >= 10*time.Second {
		v.states, v.every = g.states, now
		out.add("state", "", marshal(g.state(now)))
	}
	for some := range slices.Chunk(g.records.all[g.records.from(v.records):], recordsAtOnce) {
		v.records = some[len(some)-1].end
		out.add("records", where(), joined(some))
	}
	if news := g.log.all[g.log.from(v.log):]; len(news) > 0 {
		if left := len(news) - linesKept; left > 0 {
			news = news[left:]
		}
		v.log = g.log.offset
		out.add("log", where(), joined(news))
	}
	if v.draws != g.draws && g.drawn != nil {
		out.add("telemetry", "", g.part(v.steps, v.shape))
		v.draws, v.steps, v.shape = g.draws, g.drawn.Steps, g.shape
	}
	if v.founds != g.founds && g.found != nil {
		v.founds = g.founds
		out.add("found", "", g.found)
	}
}

func joined(some []line) []byte {
	texts := make([][]byte, len(some))
	for i, l := range some {
		texts[i] = l.text
	}
	return slices.Concat([]byte("["), bytes.Join(texts, []byte(",")), []byte("]"))
}

// marshal encodes plain data.
func marshal(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		return []byte("{}") // a number that JSON does not have; nothing here holds one
	}
	return data
}

// An Activity is what goes on.
type Activity struct {
	Active  []RunInfo `json:"active"`
	Started []Started `json:"started,omitempty"` // by the page, and not seen yet
	Newest  string    `json:"newest,omitempty"`
}

// look sees which runs go on.
func (s *Server) look(held map[uint64][]lock) {
	now := marshal(Activity{s.runs.active(held), s.started.list(s.runs), s.runs.newest()})
	if was := s.active.Load(); was == nil || !bytes.Equal(*was, now) {
		s.active.Store(&now)
	}
}

// grow returns the growth of a run, which its viewers share.
func (s *Server) grow(id, dir string) *growth {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.growing[id]
	if g == nil {
		g = &growth{id: id, dir: dir, runs: s.runs}
		s.growing[id] = g
	}
	return g
}

// enter adds a viewer; false: there is no room.
func (s *Server) enter(v *viewer) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.viewers) >= mostViewers {
		if v.of != nil {
			s.forget()
		}
		return false
	}
	s.viewers[v] = true
	if !s.pulsing {
		s.pulsing = true
		guard.Go(s.pulse)
	}
	return true
}

func (s *Server) leave(v *viewer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.viewers, v)
	s.forget()
}

// forget lets go of runs that nobody looks at.
func (s *Server) forget() {
	for id, g := range s.growing {
		watched := false
		for v := range s.viewers {
			watched = watched || v.of == g
		}
		if !watched {
			delete(s.growing, id)
		}
	}
}

// pulse reads what is new and wakes the viewers, for as long as there are some. Without
// one this program does nothing at all.
func (s *Server) pulse() {
	tick := time.NewTicker(beat)
	defer tick.Stop()
	for {
		s.mu.Lock()
		if len(s.viewers) == 0 {
			s.pulsing = false
			s.mu.Unlock()
			return
		}
		var all []*growth
		for _, g := range s.growing {
			all = append(all, g)
		}
		viewers := make([]*viewer, 0, len(s.viewers))
		for v := range s.viewers {
			viewers = append(viewers, v)
		}
		s.mu.Unlock()
		now, held := time.Now(), locks()
		s.look(held)
		for _, g := range all {
			g.poll(now, held)
		}
		for _, v := range viewers {
			select {
			case v.wake <- struct{}{}:
			default: // it has yet to write
			}
		}
		<-tick.C
	}
}

// Viewers is how many browsers listen.
func (s *Server) Viewers() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.viewers)
}
