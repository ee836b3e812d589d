// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"boxdyno/internal/guard"
	"boxdyno/result"
	"boxdyno/unit"
)

const token = "0123456789abcdef0123456789abcdef"

var begun = time.Date(2026, 3, 14, 9, 26, 53, 0, time.UTC)

// bundle makes a run that goes on for as long as it is open.
func bundle(t testing.TB, runs, id string) *result.Bundle {
	t.Helper()
	b, err := result.Create(filepath.Join(runs, id), result.Run{Schema: result.Schema, ID: id, Start: begun, Kind: "memory", Topology: "mem", Preset: "quick", Command: []string{"boxdyno", "run", "forward"}, Plan: []byte("{}"),
		Procedures: []result.Procedure{{Name: "forward"}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

// trial appends trial n of the one point.
func trial(t testing.TB, b *result.Bundle, n int, status result.Status) {
	t.Helper()
	const point = "forward/route/64#1"
	at := unit.Instant(n) * 1e9
	r := result.Record{Schema: result.Schema, ID: fmt.Sprintf("%s/%d", point, n), Parent: point, Procedure: "forward", Config: []result.Pair{{Key: "trial", Value: "search"}, {Key: "n", Value: fmt.Sprint(n)}},
		Start: begun.Add(time.Duration(at)), Begin: at, End: at + 5e8, Status: status, Load: &result.Load{MeanSize: 64, Streams: 1, Offered: 1000, Forwarded: 1000, Backend: "mem"}}
	if err := b.Append(r); err != nil {
		t.Fatal(err)
	}
	if err := b.Log(result.LogLine{At: r.Start, Kind: result.LogTrialDone, Text: r.ID, Point: point, Share: float64(n) / 100}); err != nil {
		t.Fatal(err)
	}
}

// over appends the point's own record and ends the run.
func over(t testing.TB, b *result.Bundle) {
	t.Helper()
	r := result.Record{Schema: result.Schema, ID: "forward/route/64#1", Procedure: "forward", Config: []result.Pair{{Key: "service", Value: "route"}}, Start: begun, End: 1e9, Status: result.Passed}
	if err := b.Append(r); err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
}

// A host is a server that listens.
type host struct {
	*Server
	addr string
	stop func()
}

func (h host) url(path string) string { return "http://" + h.addr + path }

// listening serves until the test ends, or stop is called; at addr, "" anywhere.
func listening(t testing.TB, o Options, addr string) host {
	t.Helper()
	if addr == "" {
		addr = "127.0.0.1:0"
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	h := host{Server: New(o), addr: l.Addr().String()}
	done := make(chan struct{})
	guard.Go(func() {
		defer close(done)
		_ = h.Serve(ctx, l)
	})
	h.stop = func() { cancel(); <-done }
	t.Cleanup(h.stop)
	return h
}

func opts(runs string) Options {
	return Options{Version: "test", Runs: runs, Token: token, Open: true, Library: []string{"--runs=" + runs}}
}

// ask sends a request with the token.
func ask(t testing.TB, method, url, body string) (int, string) {
	t.Helper()
	r, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

// An event is one that was sent.
type event struct{ name, id, data string }

// A listener reads events.
type listener struct {
	t    testing.TB
	res  *http.Response
	in   *bufio.Scanner
	last string // id
}

func listen(t testing.TB, h host, run, last string) *listener {
	t.Helper()
	r, err := http.NewRequest("GET", h.url("/api/events?run="+run), nil)
	if err != nil {
		t.Fatal(err)
	}
	if last != "" {
		r.Header.Set("Last-Event-ID", last)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	if res.StatusCode != 200 {
		t.Fatalf("status %d", res.StatusCode)
	}
	l := &listener{t: t, res: res, in: bufio.NewScanner(res.Body), last: last}
	l.in.Buffer(nil, 16<<20)
	return l
}

// next is the next event that is no beat; ok is false where the connection ends.
func (l *listener) next() (e event, ok bool) {
	for l.in.Scan() {
		line := l.in.Text()
		switch {
		case strings.HasPrefix(line, "event: "):
			e.name = line[7:]
		case strings.HasPrefix(line, "id: "):
			e.id = line[4:]
			l.last = e.id
		case strings.HasPrefix(line, "data: "):
			e.data = line[6:]
		case line == "" && e.name != "beat":
			return e, true
		case line == "":
			e = event{}
		}
	}
	return e, false
}

// trials reads events until there are records of n trials, and returns their numbers.
func (l *listener) trials(n int) (ids []string) {
	l.t.Helper()
	for len(ids) < n {
		e, ok := l.next()
		if !ok {
			l.t.Fatalf("the connection ended after %d trials", len(ids))
		}
		if e.name == "anew" {
			ids = append(ids, "anew")
		}
		if e.name != "records" {
			continue
		}
		var some []result.Record
		if err := json.Unmarshal([]byte(e.data), &some); err != nil {
			l.t.Fatal(err)
		}
		for _, r := range some {
			if r.Parent != "" {
				ids = append(ids, r.ID[strings.LastIndexByte(r.ID, '/')+1:])
			}
		}
	}
	return ids
}
