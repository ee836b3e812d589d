// SPDX-License-Identifier: Apache-2.0

package mpi

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"boxdyno/host"
	"boxdyno/internal/guard"
)

// What PMI-1's server says are the most octets, as that of MPICH does.
const (
	mostName  = 256
	mostKey   = 64
	mostValue = 1024
	mostLine  = 4096
	mostKeys  = 256 // of a process
)

// kvs is the name of the one set of keys and values.
const kvs = "boxdyno"

// A Server answers the processes of one machine, and hands what they tell each other on to
// the other machines.
type Server struct {
	layout Layout
	gather Gather
	ctx    context.Context
	cancel context.CancelFunc
	serves guard.Group

	mu      sync.Mutex
	values  map[string]string
	fresh   map[string]string // put since the last barrier
	waiting map[int]net.Conn  // at a barrier
	conns   []net.Conn
	err     error
	broken  chan struct{} // closed once err is set

	said *listing      // what the program of PMIx says of itself; nil: there is none
	pmix *host.Process // nil: processes speak PMI-1 themselves
	envs [][]string    // of each process, which lead it to pmix
}

// Serve begins to answer. It ends with Close, which a caller must call.
func Serve(ctx context.Context, l Layout, gather Gather) *Server {
	s := &Server{layout: l, gather: gather, values: map[string]string{"PMI_process_mapping": l.mapping()}, fresh: map[string]string{}, waiting: map[int]net.Conn{}, broken: make(chan struct{})}
	s.ctx, s.cancel = context.WithCancel(ctx)
	return s
}

// Process is the standard input of this machine's process of that number, which the caller
// closes once it is the process's.
func (s *Server) Process(local int) (*os.File, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("make a socket for a process of MPI: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "pmi"), os.NewFile(uintptr(pair[1]), "pmi")
	conn, err := net.FileConn(ours)
	if err = errors.Join(err, ours.Close()); err != nil {
		return nil, errors.Join(err, theirs.Close())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns = append(s.conns, conn)
	rank := s.layout.First() + local
	s.serves.Go(func() {
		if err := s.serve(conn, rank); err != nil {
			s.fail(s.blame(rank, err))
		}
	})
	return theirs, nil
}

// saying has the server ask a program of PMIx, which prints to said, why it gave up.
func (s *Server) saying(said *listing) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.said = said
}

// blame says whose error it is. A program of PMIx, which speaks for all processes of its
// machine, has a sentence of its own.
func (s *Server) blame(rank int, err error) error {
	s.mu.Lock()
	said := s.said
	s.mu.Unlock()
	if said == nil {
		return fmt.Errorf("process %d: %w", rank, err)
	}
	if errors.Is(err, errGaveUp) {
		if line := said.soon(); line != "" {
			err = fmt.Errorf("%.200s", line)
		}
	}
	return fmt.Errorf("machine %d: %w", rank+1, err)
}

var errGaveUp = errors.New("it gave up")

// Broken is closed once the processes can no longer work together; Err says why.
func (s *Server) Broken() <-chan struct{} { return s.broken }

// Err is why the processes cannot work together; nil: they can.
func (s *Server) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Close ends it.
func (s *Server) Close() {
	s.cancel()
	s.mu.Lock()
	for _, c := range s.conns {
		_ = c.Close() // its process may be gone
	}
	s.mu.Unlock()
	s.serves.Wait()
	if s.pmix != nil {
		_ = s.pmix.Kill() // its work has ended
	}
}

func (s *Server) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
		close(s.broken)
	}
}

// serve answers one process until it is done.
func (s *Server) serve(conn net.Conn, rank int) error {
	lines := bufio.NewReaderSize(conn, mostLine)
	puts := 0
	for {
		line, err := lines.ReadSlice('\n')
		if err != nil {
			return errors.New("it ended before its work was done")
		}
		asked := parse(string(line))
		reply := ""
		switch asked["cmd"] {
		case "init":
			reply = "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0"
		case "get_maxes":
			reply = fmt.Sprintf("cmd=maxes kvsname_max=%d keylen_max=%d vallen_max=%d", mostName, mostKey, mostValue)
		case "get_appnum":
			reply = "cmd=appnum appnum=0"
		case "get_my_kvsname":
			reply = "cmd=my_kvsname kvsname=" + kvs
		case "get_universe_size":
			reply = fmt.Sprintf("cmd=universe_size size=%d", s.layout.Size())
		case "put":
			if puts++; puts > mostKeys {
				return fmt.Errorf("it put more than %d values", mostKeys)
			}
			if err := s.put(asked["key"], asked["value"]); err != nil {
				return err
			}
			reply = "cmd=put_result rc=0 msg=success"
		case "get":
			s.mu.Lock()
			v, ok := s.values[asked["key"]]
			s.mu.Unlock()
			if reply = "cmd=get_result rc=0 msg=success value=" + v; !ok {
				reply = "cmd=get_result rc=-1 msg=key_not_found value=unknown"
			}
		case "barrier_in":
			if err := s.barrier(conn, rank); err != nil {
				return err
			}
			continue
		case "finalize":
			_, _ = fmt.Fprintln(conn, "cmd=finalize_ack") // it may not wait
			return nil
		case "abort":
			return errGaveUp
		default:
			return fmt.Errorf("it asked for %.40q, which no process needs here", asked["cmd"])
		}
		if _, err := fmt.Fprintln(conn, reply); err != nil {
			return errors.New("it ended before its work was done")
		}
	}
}

// parse is the words key=value of a line. A value that is put comes last, and may have
// blanks: Open MPI's do.
func parse(line string) map[string]string {
	m := map[string]string{}
	line, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " value=")
	if ok {
		m["value"] = value
	}
	for word := range strings.FieldsSeq(line) {
		k, v, _ := strings.Cut(word, "=")
		m[k] = v
	}
	return m
}

// fits says whether a key and its value can be handed on: in one line, the key as a word.
func fits(key, value string) error {
	line := func(s string, most int) bool {
		return s != "" && len(s) <= most && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
	}
	if !line(key, mostKey) || !line(value, mostValue) || strings.Contains(key, " ") {
		return fmt.Errorf("a value that cannot be handed on was put: %.40q, %.40q", key, value)
	}
	return nil
}

func (s *Server) put(key, value string) error {
	if err := fits(key, value); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.values[key], s.fresh[key] = value, value
	return nil
}

// barrier is a process's that waits for all others. The last one of this machine gathers.
func (s *Server) barrier(conn net.Conn, rank int) error {
	s.mu.Lock()
	if s.waiting[rank] != nil {
		s.mu.Unlock()
		return errors.New("it waits for others twice")
	}
	s.waiting[rank] = conn
	if len(s.waiting) < s.layout.Processes[s.layout.Here] {
		s.mu.Unlock()
		return nil
	}
	all, fresh := s.waiting, s.fresh
	s.waiting, s.fresh = map[int]net.Conn{}, map[string]string{}
	s.mu.Unlock()
	mine, err := json.Marshal(fresh)
	if err != nil {
		return err
	}
	if len(mine) > MostGiven {
		return fmt.Errorf("the processes of its machine tell the others %d octets at once, and %d are the most", len(mine), MostGiven)
	}
	theirs, err := s.gather(s.ctx, mine)
	if err != nil {
		return err
	}
	for i, text := range theirs {
		if err := s.take(text); err != nil {
			return fmt.Errorf("what machine %d says cannot be used: %w", i+1, err)
		}
	}
	for _, c := range all {
		if _, err := fmt.Fprintln(c, "cmd=barrier_out rc=0"); err != nil {
			return errors.New("another one ended before its work was done")
		}
	}
	return nil
}

// take keeps what a machine has put.
func (s *Server) take(text []byte) error {
	var values map[string]string
	if err := json.Unmarshal(text, &values); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, v := range values {
		if err := fits(k, v); err != nil {
			return err
		}
		if was, ok := s.values[k]; ok && was != v {
			return fmt.Errorf("%s was put before, as something else", k)
		}
		if len(s.values) > mostKeys*s.layout.Size() {
			return fmt.Errorf("there are more than %d values of a process", mostKeys)
		}
		s.values[k] = v
	}
	return nil
}
