// SPDX-License-Identifier: Apache-2.0

package mpi

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	"boxdyno/internal/testutil"
)

// A process speaks as one of MPI does.
type process struct {
	t     *testing.T
	conn  net.Conn
	lines *bufio.Reader
}

func begin(t *testing.T, s *Server, local int) *process {
	t.Helper()
	f, err := s.Process(local)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.FileConn(f)
	if err = errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	return &process{t, conn, bufio.NewReader(conn)}
}

// ask sends a line and returns the answer; "" where the server says nothing more.
func (p *process) ask(line string) string {
	_, _ = fmt.Fprintln(p.conn, line) // an end shows in the answer
	got, _ := p.lines.ReadString('\n')
	return strings.TrimSuffix(got, "\n")
}

// A table has machines of one process exchange what they give.
type table struct {
	mu    sync.Mutex
	given [][]byte
	all   chan struct{}
}

func (b *table) gather(here, machines int) Gather {
	return func(ctx context.Context, mine []byte) ([][]byte, error) {
		b.mu.Lock()
		if b.given == nil {
			b.given, b.all = make([][]byte, machines), make(chan struct{})
		}
		b.given[here] = mine
		given, all := b.given, b.all
		full := true
		for _, g := range given {
			full = full && g != nil
		}
		if full {
			b.given = nil
			close(all)
		}
		b.mu.Unlock()
		select {
		case <-all:
			return given, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Processes of two machines hear, behind a barrier, what each of them has put before it.
func TestProcessesMeet(t *testing.T) {
	testutil.NoLeaks(t)
	var b table
	var all sync.WaitGroup
	counts := []int{2, 1}
	for here := range counts {
		l := Layout{Processes: counts, Here: here}
		s := Serve(t.Context(), l, b.gather(here, len(counts)))
		defer s.Close()
		for local := range counts[here] {
			p := begin(t, s, local)
			rank := l.First() + local
			all.Go(func() {
				for _, c := range [][2]string{
					{"cmd=init pmi_version=1 pmi_subversion=1", "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0"},
					{"cmd=get_maxes", "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024"},
					{"cmd=get_universe_size", "cmd=universe_size size=3"},
					{"cmd=get_my_kvsname", "cmd=my_kvsname kvsname=boxdyno"},
					{"cmd=get kvsname=boxdyno key=PMI_process_mapping", "cmd=get_result rc=0 msg=success value=(vector,(0,1,2),(1,1,1))"},
					{fmt.Sprintf("cmd=put kvsname=boxdyno key=at-%d value=10.0.0.%d:7#= -", rank, rank), "cmd=put_result rc=0 msg=success"},
					{"cmd=barrier_in", "cmd=barrier_out rc=0"},
					{"cmd=get kvsname=boxdyno key=at-0", "cmd=get_result rc=0 msg=success value=10.0.0.0:7#= -"},
					{"cmd=get kvsname=boxdyno key=at-2", "cmd=get_result rc=0 msg=success value=10.0.0.2:7#= -"},
					{"cmd=get kvsname=boxdyno key=at-3", "cmd=get_result rc=-1 msg=key_not_found value=unknown"},
					{"cmd=barrier_in", "cmd=barrier_out rc=0"},
					{"cmd=finalize", "cmd=finalize_ack"},
				} {
					if got := p.ask(c[0]); got != c[1] {
						t.Errorf("process %d asks %s: %q, want %q", rank, c[0], got, c[1])
						return
					}
				}
				_ = p.conn.Close()
			})
		}
		defer func() {
			if err := s.Err(); err != nil {
				t.Error(err)
			}
		}()
	}
	all.Wait()
}

// A process that ends early, asks for what it must not, or puts what would be another line
// breaks the work, and so does another machine that lies.
func TestBroken(t *testing.T) {
	for name, c := range map[string]struct {
		says  string
		other string
		want  string
	}{
		"ends":         {"", "", "process 0: it ended before its work was done"},
		"spawns":       {"cmd=spawn", "", `asked for "spawn"`},
		"a long key":   {"cmd=put key=" + strings.Repeat("k", 65) + " value=x", "", "cannot be handed on"},
		"no value":     {"cmd=put key=k", "", "cannot be handed on"},
		"a long line":  {strings.Repeat("x", mostLine+1), "", "it ended"},
		"gives up":     {"cmd=abort", "", "it gave up"},
		"another lies": {"cmd=barrier_in", `{"k":"x\ncmd=barrier_out"}`, "what machine 2 says cannot be used"},
		"says no JSON": {"cmd=barrier_in", `[`, "what machine 2 says cannot be used"},
		"puts ours":    {"cmd=barrier_in", `{"PMI_process_mapping":"(vector,(0,2,1))x"}`, "was put before"},
		"leaves":       {"cmd=barrier_in", "gone", "it is gone"},
	} {
		t.Run(name, func(t *testing.T) {
			testutil.NoLeaks(t)
			s := Serve(t.Context(), Layout{Processes: []int{1, 1}}, func(_ context.Context, mine []byte) ([][]byte, error) {
				if c.other == "gone" {
					return nil, errors.New("it is gone")
				}
				return [][]byte{mine, []byte(c.other)}, nil
			})
			defer s.Close()
			p := begin(t, s, 0)
			if c.says != "" {
				_, _ = fmt.Fprintln(p.conn, c.says)
			}
			if c.want == "process 0: it ended before its work was done" || name == "a long line" {
				_ = p.conn.Close()
			}
			<-s.Broken()
			if err := s.Err(); !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			_ = p.conn.Close()
		})
	}
}

func TestShared(t *testing.T) {
	n := func(prefix string) Net {
		p := netip.MustParsePrefix(prefix)
		return Net{Prefix: p.Masked(), Address: p.Addr(), Interface: "e0"}
	}
	for name, c := range map[string]struct {
		all  [][]Net
		want string
		at   string // of the last one; "": none
	}{
		"one":               {[][]Net{{n("10.0.0.1/24")}}, "", "127.0.0.1"},
		"the first of two":  {[][]Net{{n("10.0.1.1/24"), n("10.0.0.1/24")}, {n("10.0.0.2/24"), n("10.0.1.2/24")}}, "", "10.0.0.2"},
		"the one asked for": {[][]Net{{n("10.0.1.1/24"), n("10.0.0.1/24")}, {n("10.0.0.2/24"), n("10.0.1.2/24")}}, "10.0.1.0/24", "10.0.1.2"},
		"not all are there": {[][]Net{{n("10.0.0.1/24"), n("10.0.1.1/24")}, {n("10.0.1.2/24")}}, "", "10.0.1.2"},
		"the same address":  {[][]Net{{n("10.0.0.1/24")}, {n("10.0.0.1/24")}}, "", ""},
		"twice":             {[][]Net{{n("10.0.0.1/24"), n("10.0.0.3/24")}, {n("10.0.0.2/24")}}, "", ""},
		"another's address": {[][]Net{{n("10.0.0.1/24")}, {{Prefix: netip.MustParsePrefix("10.0.0.0/24"), Address: netip.MustParseAddr("192.168.7.7"), Interface: "e0"}}}, "", ""},
		"not asked for":     {[][]Net{{n("10.0.0.1/24")}, {n("10.0.0.2/24")}}, "10.9.0.0/24", ""},
	} {
		var want netip.Prefix
		if c.want != "" {
			want = netip.MustParsePrefix(c.want)
		}
		at, err := Shared(c.all, want)
		if (err != nil) != (c.at == "") || err == nil && at[len(at)-1].Address.String() != c.at {
			t.Errorf("%s: %v, %v, want %q", name, at, err, c.at)
		}
	}
}

// A service of systemd has no HOME, without which Open MPI 5 does not begin.
func TestHome(t *testing.T) {
	l := Layout{Processes: []int{1}}
	for home, want := range map[string]bool{"": true, "/root": false} {
		t.Setenv("HOME", home)
		for _, p := range []Program{{Kind: OpenMPI}, {Kind: OpenMPI, pmix: "pmix"}} {
			if got := slices.Contains(p.Env(l, 0, loopback, "/scratch"), "HOME=/scratch"); got != want {
				t.Errorf("HOME=%s, %+v: %v", home, p, got)
			}
		}
	}
}

func TestWhy(t *testing.T) {
	for stderr, want := range map[string]string{
		"[f1:00704] Error: Unable to get the user home directory\n-----\nIt looks like opal_init failed\n*** MPI_ERRORS_ARE_FATAL (processes)\n[f1:00689] Local abort before MPI_INIT completed": "Error: Unable to get the user home directory",
		"a warning\nHPL ERROR from process # 0\n": "HPL ERROR from process # 0",
		"[": "[",
	} {
		if got := Why(stderr); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
