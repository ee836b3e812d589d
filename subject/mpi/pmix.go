// SPDX-License-Identifier: Apache-2.0

package mpi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"boxdyno/host"
)

// beginning is how long the program of PMIx may take until it serves.
const beginning = 30 * time.Second

// Serve begins to answer the program's processes on this machine. dir is a scratch folder
// (host.MakeScratchIn), which goes with it. It ends with Close, which a caller must call.
func (p Program) Serve(ctx context.Context, h *host.Local, l Layout, gather Gather, dir string) (_ *Server, err error) {
	if err := l.check(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if !p.ByPMIx() {
		if err := os.RemoveAll(dir); err != nil {
			return nil, err
		}
		return Serve(ctx, l, gather), nil
	}
	machines := Layout{Processes: slices.Repeat([]int{1}, len(l.Processes)), Here: l.Here}
	s := Serve(ctx, machines, gather)
	defer func() {
		if err != nil {
			s.Close()
			err = errors.Join(fmt.Errorf("begin PMIx: %w", err), os.RemoveAll(dir))
		}
	}()
	stdin, err := s.Process(0)
	if err != nil {
		return nil, err
	}
	var counts []string
	for _, n := range l.Processes {
		counts = append(counts, strconv.Itoa(n))
	}
	out, said := &listing{ready: make(chan struct{})}, &listing{ready: make(chan struct{})}
	s.saying(said)
	s.pmix, err = h.Start(ctx, host.Cmd{
		Argv: []string{p.pmix, strconv.Itoa(l.Here), strings.Join(counts, ","), strconv.Itoa(MostProcesses), strconv.Itoa(mostFence)}, Stdin: stdin, Stdout: out, Stderr: said, Scratch: []string{dir},
		// What processes share by memory would outlive a killed program.
		Env: append(append(os.Environ(), Home(dir)...), "PMI_FD=0", "TMPDIR="+dir, "PMIX_MCA_gds=hash", "PMIX_MCA_ptl_tcp_if_include=lo"),
	})
	if err = errors.Join(err, stdin.Close()); err != nil {
		return nil, err
	}
	late := time.NewTimer(beginning)
	defer late.Stop()
	select {
	case <-out.ready:
	case <-s.pmix.Done():
		return nil, fmt.Errorf("it ended at once: %.200s", said.text())
	case <-late.C:
		return nil, fmt.Errorf("it does not serve after %v: %.200s", beginning, said.text())
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	s.envs = make([][]string, l.Processes[l.Here])
	for line := range strings.Lines(out.text()) {
		local, setting, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if n, err := strconv.Atoi(local); ok && err == nil && n >= 0 && n < len(s.envs) {
			s.envs[n] = append(s.envs[n], setting)
		}
	}
	return s, nil
}

// Env is what leads this machine's process of that number to the server, beside Program.Env.
func (s *Server) Env(local int) []string {
	if s.pmix == nil {
		return nil
	}
	return append(s.envs[local], "PMIX_MCA_gds=hash")
}

// A listing is what a program prints, as far as that is of use.
type listing struct {
	mu    sync.Mutex
	b     bytes.Buffer
	ready chan struct{} // closed once the line "ready" has come
	is    bool
}

const mostListing = 1 << 20

func (l *listing) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.b.Write(b[:min(len(b), mostListing-l.b.Len())])
	if !l.is && bytes.HasSuffix(l.b.Bytes(), []byte("ready\n")) {
		l.is = true
		close(l.ready)
	}
	return len(b), nil
}

// soon is the first line that the program has printed within a second, "" if there is none.
func (l *listing) soon() string {
	for begin := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		if line, _, _ := strings.Cut(l.text(), "\n"); line != "" || time.Since(begin) > time.Second {
			return line
		}
	}
}

func (l *listing) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.TrimSpace(l.b.String())
}
