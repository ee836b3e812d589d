// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"boxdyno/internal/guard"
)

// A run that the page starts is boxdyno run in a session of its own: it goes on when this
// server ends, and nothing but its bundle tells this server how it is.

// An Offer is something that the page may start.
type Offer struct {
	Kind  string  `json:"kind"` // procedure, plan, role
	Name  string  `json:"name"`
	Help  string  `json:"help"`
	Takes []Taken `json:"takes,omitempty"` // parameters of a procedure
}

// A Taken is a parameter that an Offer takes.
type Taken struct {
	Name    string `json:"name"`
	Help    string `json:"help"`
	Default string `json:"default,omitempty"`
}

// A Start is what a browser asks to be started.
type Start struct {
	Kind   string   `json:"kind"` // of an Offer
	Name   string   `json:"name"` // of it
	Set    []string `json:"set"`  // key=value
	Lab    string   `json:"lab"`
	Box    string   `json:"box"`
	Preset string   `json:"preset"` // quick, standard
	Repeat string   `json:"repeat"`
	Budget string   `json:"budget"`
}

// A Started is a run that the page has started.
type Started struct {
	ID    string `json:"id"`
	What  string `json:"what"`
	PID   int    `json:"pid,omitempty"`   // while it goes on
	Error string `json:"error,omitempty"` // why it has ended without a bundle
}

// mostStarted is how many runs of the page may be under way, waiting for each other.
const mostStarted = 8

type starts struct {
	o Options

	mu  sync.Mutex
	all []*child
}

type child struct {
	Started
	ended time.Time
	said  *os.File // what it says on standard error; has no name
}

func newStarts(o Options) *starts { return &starts{o: o} }

// begin starts a run, and returns its ID.
func (s *starts) begin(ask Start, now time.Time) (string, error) {
	if s.o.Argv == nil {
		return "", answer{403, "this server starts no runs"}
	}
	if !slices.ContainsFunc(s.o.Offers, func(o Offer) bool { return o.Kind == ask.Kind && o.Name == ask.Name }) {
		return "", answer{400, "there is nothing of that kind and name to start"}
	}
	args, err := s.o.Argv(ask)
	if err != nil {
		return "", answer{400, err.Error()}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	on := 0
	for _, c := range s.all {
		if c.PID != 0 {
			on++
		}
	}
	if on >= mostStarted {
		return "", answer{409, fmt.Sprintf("%d runs of this page go on or wait: cancel one", on)}
	}
	id := s.free(now.Format("20060102-150405") + "-" + ask.Name)
	said, err := os.CreateTemp("", "boxdyno-serve-")
	if err != nil {
		return "", fmt.Errorf("keep what the run says: %w", err)
	}
	_ = os.Remove(said.Name()) // nothing of it is left when both have closed it
	program := s.o.Program
	if program == "" {
		program = "/proc/self/exe"
	}
	cmd := exec.Command(program, append(args, "--out", filepath.Join(s.o.Runs, id))...)
	cmd.Dir = "/" // a name without a folder is that of no file of whoever started serve
	cmd.Stderr = said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		said.Close()
		return "", fmt.Errorf("start the run: %w", err)
	}
	c := &child{Started: Started{ID: id, What: ask.Name, PID: cmd.Process.Pid}, said: said}
	s.all = append(s.all, c)
	guard.Go(func() {
		err := cmd.Wait()
		s.mu.Lock()
		defer s.mu.Unlock()
		c.PID, c.ended = 0, time.Now()
		if err != nil {
			c.Error = lastLine(said)
			if c.Error == "" {
				c.Error = err.Error()
			}
		}
		said.Close()
	})
	return id, nil
}

// free is a name for a run that no run of the folder and of this page has.
func (s *starts) free(base string) string {
	for n, id := 2, base; ; n++ {
		_, err := os.Lstat(filepath.Join(s.o.Runs, id))
		if err != nil && !slices.ContainsFunc(s.all, func(c *child) bool { return c.ID == id }) {
			return id
		}
		id = fmt.Sprintf("%s-%d", base, n)
	}
}

// lastLine is the last one that a program has said.
func lastLine(f *os.File) string {
	const most = 4096
	info, err := f.Stat()
	if err != nil {
		return ""
	}
	b := make([]byte, most)
	n, _ := f.ReadAt(b, max(info.Size()-most, 0))
	return lastWords(b[:n])
}

// list are the runs of the page that have no bundle: yet, or at all.
func (s *starts) list(runs *library) (some []Started) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = slices.DeleteFunc(s.all, func(c *child) bool { return c.PID == 0 && time.Since(c.ended) > 10*time.Minute })
	for _, c := range s.all {
		if (c.PID != 0 || c.Error != "") && runs.find(c.ID) == "" {
			some = append(some, c.Started)
		}
	}
	return some
}

// has says whether the page has started a run of that ID, lately.
func (s *starts) has(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.all, func(c *child) bool { return c.ID == id })
}

// cancel interrupts a run that has no bundle yet; false: there is none.
func (s *starts) cancel(id string) (pid int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.all {
		if c.ID == id && c.PID != 0 { // not yet waited for: its number is no other's
			return c.PID, syscall.Kill(c.PID, syscall.SIGINT) == nil
		}
	}
	return 0, false
}
