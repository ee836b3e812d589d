// SPDX-License-Identifier: Apache-2.0

// Package web runs a server of HTTP, nginx, here or on a box (Machine).
package web

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"boxdyno/host"
	"boxdyno/result"
)

// A Machine is where the server runs: this one, or a box.
type Machine interface {
	// HasWeb is a *host.Missing where there is no nginx.
	HasWeb(ctx context.Context) error
	// ServeWeb starts a server and waits until it listens at an IPv4 address of the machine
	// and has answered once. It has a worker for each of cpus, or of all CPUs where that is nil.
	ServeWeb(ctx context.Context, at netip.AddrPort, cpus []int) (Server, error)
}

// A Server is one that listens.
type Server interface {
	Usage() (result.Usage, error)
	Kill() error
}

// A Local is a Machine that is this one, or a namespace of it.
type Local struct {
	Host *host.Local
	Dir  string // folder for the server's own, which exists; "": the one for temporary files
}

// HasWeb implements Machine.
func (l Local) HasWeb(context.Context) error { return l.Host.Has("nginx") }

// Answer is how many octets the body of each answer has.
const Answer = 1024

// configuration has each request on a connection of its own, and no files: the answer is
// in it.
const configuration = `daemon off;
worker_processes %s;
pid %[2]s/pid;
error_log stderr crit;
events { worker_connections 4096; }
http {
	access_log off;
	keepalive_timeout 0;
	client_body_temp_path %[2]s/body;
	proxy_temp_path %[2]s/proxy;
	fastcgi_temp_path %[2]s/fastcgi;
	uwsgi_temp_path %[2]s/uwsgi;
	scgi_temp_path %[2]s/scgi;
	server {
		listen %[3]s;%[5]s
		location / { return 200 "%[4]s"; }
	}
}
`

// A serving removes its folder with its process.
type serving struct {
	*host.Process
	dir string
}

func (s *serving) Kill() error { return errors.Join(s.Process.Kill(), os.RemoveAll(s.dir)) }

const (
	listens        = 5 * time.Second // at most, until it answers
	socketPathMost = 107             // octets that unix(7) has room for
)

// ServeWeb implements Machine. An error is what nginx said instead.
func (l Local) ServeWeb(ctx context.Context, at netip.AddrPort, cpus []int) (_ Server, err error) {
	if !at.Addr().Is4() || at.Addr().IsUnspecified() || at.Port() == 0 {
		return nil, fmt.Errorf("%v is no address of IPv4 and port to listen at", at)
	}
	dir, err := host.MakeScratchIn(cmp.Or(l.Dir, os.TempDir()))
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	workers := "auto"
	if len(cpus) > 0 {
		workers = fmt.Sprint(len(cpus))
	}
	socket, also := filepath.Join(dir, "socket"), ""
	if len(socket) > socketPathMost {
		socket = "" // its first answer is then a client's
	} else {
		also = " listen unix:" + socket + ";"
	}
	name := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(name, fmt.Appendf(nil, configuration, workers, dir, at, strings.Repeat("x", Answer), also), 0o600); err != nil {
		return nil, err
	}
	var said saying
	p, err := l.Host.Start(ctx, host.Cmd{Argv: []string{"nginx", "-p", dir, "-e", "stderr", "-c", name}, Stdout: &said, Stderr: &said, CPUs: cpus, Bound: true}) // its workers do not end with it
	if err != nil {
		return nil, err
	}
	s := &serving{p, dir}
	ctx, cancel := context.WithTimeout(ctx, listens)
	defer cancel()
	for {
		select {
		case <-p.Done():
			return nil, errors.Join(fmt.Errorf("nginx did not listen at %v: %s", at, said.text()), s.Kill())
		default:
		}
		there, err := l.listens(at)
		if err == nil && !there {
			err = host.Pause(ctx, 5*time.Millisecond)
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("nginx does not listen at %v: %w: %s", at, err, said.text()), s.Kill())
		}
		if there {
			break
		}
	}
	if socket == "" {
		return s, nil
	}
	if err := answered(ctx, socket); err != nil {
		return nil, errors.Join(fmt.Errorf("nginx at %v does not answer: %w: %s", at, err, said.text()), s.Kill())
	}
	return s, nil
}

// answered gets one answer at a socket of the file system, so that no port has a frame of it: a
// server listens before its workers answer.
func answered(ctx context.Context, socket string) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
	if err != nil {
		return err
	}
	defer conn.Close()
	until, _ := ctx.Deadline()
	if err := conn.SetDeadline(until); err != nil {
		return err
	}
	if _, err := io.WriteString(conn, "GET / HTTP/1.0\r\n\r\n"); err != nil {
		return err
	}
	got, err := io.ReadAll(io.LimitReader(conn, 4*Answer))
	if err == nil && len(got) < Answer {
		err = fmt.Errorf("it answered %q", got)
	}
	return err
}

// listens says whether a socket does.
func (l Local) listens(at netip.AddrPort) (yes bool, err error) {
	raw := at.Addr().As4()
	want := fmt.Sprintf("%08X:%04X", binary.NativeEndian.Uint32(raw[:]), at.Port())
	err = l.Host.View(func(root fs.FS) error {
		data, err := fs.ReadFile(root, "proc/thread-self/net/tcp")
		for line := range strings.Lines(string(data)) {
			f := strings.Fields(line)
			yes = yes || len(f) > 3 && f[1] == want && f[3] == "0A"
		}
		return err
	})
	return yes, err
}

// A saying keeps the end of what a program says.
type saying struct {
	mu   sync.Mutex
	last bytes.Buffer
}

func (s *saying) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last.Len()+len(b) > 1<<12 {
		s.last.Reset()
	}
	s.last.Write(b[max(0, len(b)-1<<12):])
	return len(b), nil
}

func (s *saying) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.TrimSpace(s.last.String())
}
