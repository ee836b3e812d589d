// SPDX-License-Identifier: Apache-2.0

// Package serve is the page that stays open: runs as they go on, and all that were kept.
//
//	boxdyno run --> run.json, trials.jsonl, telemetry.jsonl.gz, log.jsonl --> Server --> browsers
//	                     (a bundle; nobody tells the server anything)           |
//	                                                 boxdyno run, a child <-----+ with the token
//
// The server never holds the measurement. It reads bundles while they grow, so a run from
// the command line and one from the page look alike. It can be killed and started again
// in mid-run: a viewer says how far it has read, in octets of the bundle's files.
//
//	serve.go     listening            guard.go    who may ask what
//	library.go   the folder of runs   index.go    what the index has of them
//	locks.go     which runs go on, and whose they are
//	growth.go    one run that grows   events.go   what its viewers are sent
//	api.go       answers in JSON      start.go    runs that the page starts and cancels
//	boards.go    the catalogue of boards   fleet.go    the boards of the hub
//	choose.go    history and size
package serve

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	_ "embed" // the page
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"regexp"
	"sync"
	"sync/atomic"
	"time"

	"boxdyno/internal/guard"
	"boxdyno/result"
)

// Options are what a Server needs.
type Options struct {
	Version string // of boxdyno
	Runs    string // folder of runs; it need not exist yet

	// Token is what starting and cancelling runs needs, and reading too where Open is
	// not set. "" with ReadOnly alone.
	Token    string
	ReadOnly bool     // no run is started or cancelled
	Open     bool     // reading needs no token
	Hosts    []string // names by which browsers may call the server, beside addresses and localhost
	TLS      *tls.Certificate

	// Declare adds the declarations of metrics that old runs lack; nil: none.
	Declare func(*result.Run, []result.Record)
	// Offers are what the page may start; Argv makes arguments of boxdyno, without its
	// name and without --out, from what was asked, or says in a sentence why not.
	Offers []Offer
	Argv   func(Start) ([]string, error)
	// Boards is the catalogue of boards that meet needs, in the syntax of --need; nil:
	// there is none. Errors are sentences for the reader.
	Boards func(needs string) (any, error)
	// Library are the arguments by which boxdyno runs, history and size find the runs of this
	// server, none for those at the default place; nil: they answer nothing here, and runs
	// have no verdicts in the list.
	Library []string
	// Metrics are what the page History offers.
	Metrics []Metric
	// Fleet is the boards of the hub in this process; nil: there is no hub.
	Fleet func() Fleet
	// Program is started with Argv's arguments, and for runs, history and size; "": this program.
	Program string
}

// A Server answers browsers. Close it, or end the context of Serve.
type Server struct {
	o       Options
	runs    *library
	started *starts
	page    []byte
	csp     string
	handler http.Handler

	mu       sync.Mutex // of what follows
	growing  map[string]*growth
	viewers  map[*viewer]bool
	pulsing  bool
	windows  windows
	indexing indexing

	life context.Context // of Serve
	end  context.CancelFunc

	answering chan struct{} // has a place for the one process that answers History or Size
	listing   chan struct{} // and this for the one that lists runs, which may take long

	active atomic.Pointer[[]byte] // an Activity, encoded
	conns  atomic.Int64
	asked  atomic.Int64 // requests
}

// The bounds of requests.
const (
	mostHeader  = 16 << 10 // octets
	mostBody    = 64 << 10
	mostViewers = 32
	mostConns   = 256
)

// patience is how long a header may take to come, and a browser to read. A test has less.
var patience = 5 * time.Second

//go:embed dist/serve.html
var app []byte

var (
	scripts = regexp.MustCompile(`(?s)<script[^>]*>(.*?)</script>`)
	styles  = regexp.MustCompile(`(?s)<style[^>]*>(.*?)</style>`)
)

// policy returns the Content-Security-Policy of a page with scripts and styles in it.
func policy(html []byte) string {
	hashes := func(of *regexp.Regexp) (list string) {
		for _, m := range of.FindAllSubmatch(html, -1) {
			sum := sha256.Sum256(m[1])
			list += " 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
		}
		return list
	}
	return "default-src 'none'; script-src" + hashes(scripts) + "; style-src" + hashes(styles) +
		"; img-src 'self' data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}

// New returns a server for the runs in a folder.
func New(o Options) *Server {
	s := &Server{o: o, runs: newLibrary(o.Runs, o.Declare), page: app, csp: policy(app), growing: map[string]*growth{}, viewers: map[*viewer]bool{}, answering: make(chan struct{}, 1), listing: make(chan struct{}, 1)}
	s.life, s.end = context.WithCancel(context.Background())
	s.started = newStarts(o)
	s.handler = s.guarded(s.routes())
	return s
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// Serve answers on a listener until ctx ends. Runs that the page has started go on.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	h := &http.Server{
		Handler:           s,
		ReadHeaderTimeout: patience, ReadTimeout: 2 * patience, WriteTimeout: 12 * patience, IdleTimeout: 12 * patience,
		MaxHeaderBytes: mostHeader,
		ErrorLog:       log.New(io.Discard, "", 0), // what strangers send is no news
		BaseContext:    func(net.Listener) context.Context { return ctx },
		ConnState: func(c net.Conn, state http.ConnState) {
			switch state {
			case http.StateNew:
				if s.conns.Add(1) > mostConns {
					c.Close()
				}
			case http.StateClosed, http.StateHijacked:
				s.conns.Add(-1)
			}
		},
	}
	if s.o.TLS != nil {
		l = tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{*s.o.TLS}, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}})
	}
	stop := guard.AfterDone(ctx, func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		if h.Shutdown(end) != nil {
			h.Close()
		}
	})
	defer stop()
	defer s.close()
	if err := h.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return ctx.Err()
}

// close ends the process that answers.
func (s *Server) close() {
	s.end()
	s.mu.Lock()
	done := s.indexing.done
	s.mu.Unlock()
	if done != nil {
		<-done
	}
}
