// SPDX-License-Identifier: Apache-2.0

package mpi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"boxdyno/host"
	"boxdyno/internal/testutil"
)

// prepared are the program of PMIx and a process that speaks it.
func prepared(t *testing.T, h *host.Local) (p Program, client string) {
	t.Helper()
	headers, _ := filepath.Glob("/usr/lib/*/pmix2/include")
	if len(headers) == 0 {
		t.Skip("there are no headers of PMIx: install libpmix-dev")
	}
	p, err := PreparePMIx(t.Context(), h, filepath.Join(headers[0], "../../libmpi.so"))
	var missing *host.Missing
	if errors.As(err, &missing) {
		t.Skip(missing)
	} else if err != nil {
		t.Fatal(err)
	}
	client = filepath.Join(t.TempDir(), "client")
	if out, err := exec.Command("cc", "-I"+headers[0], "-o", client, "testdata/client.c", "-lpmix").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return p, client
}

// Processes of two machines meet by PMIx, and hear what each has given.
func TestPMIx(t *testing.T) {
	testutil.NoLeaks(t)
	h := &host.Local{}
	p, client := prepared(t, h)
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	var b table
	var all sync.WaitGroup
	counts := []int{2, 1}
	servers := make([]*Server, len(counts))
	for here := range counts {
		all.Go(func() {
			dir, err := host.MakeScratchIn(t.TempDir())
			if err != nil {
				t.Error(err)
				return
			}
			s, err := p.Serve(ctx, h, Layout{Processes: counts, Here: here}, b.gather(here, len(counts)), dir)
			if err != nil {
				t.Error(err)
				return
			}
			servers[here] = s
			var processes sync.WaitGroup
			for local := range counts[here] {
				processes.Go(func() {
					rank := 2*here + local
					c := exec.CommandContext(ctx, client)
					c.Env = append(os.Environ(), s.Env(local)...)
					out, err := c.CombinedOutput()
					want := fmt.Sprintf("%d of 3 beside %s: at-0 at-1 at-2\n", rank, []string{"0,1", "2"}[here])
					if err != nil || string(out) != want {
						t.Errorf("process %d: %v: %q, want %q", rank, err, out, want)
					}
				})
			}
			processes.Wait()
			if err := s.Err(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for _, s := range servers {
		if s != nil {
			s.Close()
			if _, err := os.Stat("/proc/" + fmt.Sprint(s.pmix.PID)); err == nil {
				t.Error("the program of PMIx is left")
			}
		}
	}
}

// A program of PMIx that cannot serve is an error with what it said, and nothing is left.
func TestPMIxEnds(t *testing.T) {
	testutil.NoLeaks(t)
	parent := t.TempDir()
	dir, err := host.MakeScratchIn(parent)
	if err != nil {
		t.Fatal(err)
	}
	bad := filepath.Join(t.TempDir(), "pmix")
	if err := os.WriteFile(bad, []byte("#!/bin/sh\necho 'no room' >&2; exit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	_, err = Program{Kind: OpenMPI, pmix: bad}.Serve(t.Context(), &host.Local{}, Layout{Processes: []int{1}}, nil, dir)
	if err == nil || !strings.Contains(err.Error(), "no room") {
		t.Error(err)
	}
	if left, _ := os.ReadDir(parent); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// What is beyond a bound is one sentence, and never a list that is cut off or runs over.
func TestPMIxBounds(t *testing.T) {
	testutil.NoLeaks(t)
	h := &host.Local{}
	p, client := prepared(t, h)
	many := func(n int) string { return strings.TrimSuffix(strings.Repeat("1,", n), ",") }
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"too many machines":  {[]string{"0", many(1025), "1024", "500"}, "there are more than 1024 processes with those of machine 1025, and so many are the most"},
		"too many processes": {[]string{"0", "1000,25", "1024", "500"}, "there are more than 1024 processes with those of machine 2, and so many are the most"},
		"of one":             {[]string{"0", "12001", "1024", "500"}, "machine 1 has 12001 processes: a machine has 1 to 1024"},
		"none":               {[]string{"0", "4,0", "1024", "500"}, "machine 2 has 0 processes: a machine has 1 to 1024"},
		"no number":          {[]string{"0", "4,4x", "1024", "500"}, "machine 2 has 4x processes: a machine has 1 to 1024"},
		"overflows":          {[]string{"0", "4294967297", "1024", "500"}, "machine 1 has 4294967297 processes: a machine has 1 to 1024"},
		"another machine":    {[]string{"2", "1,1", "1024", "500"}, "this is machine 2, counted from 0, of 2"},
		"before the first":   {[]string{"-1", "1,1", "1024", "500"}, "this is machine -1, counted from 0, of 2"},
		"no octets":          {[]string{"0", "1,1", "1024", "0"}, "want HERE N0,N1,... PROCESSES OCTETS, the last two from 1 to 1048576"},
	} {
		out, err := exec.Command(p.pmix, c.args...).CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 2 || string(out) != c.want+"\n" {
			t.Errorf("%s: %v, %q, want %q", name, err, out, c.want)
		}
	}
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	serve := func(l Layout, gather Gather) (*Server, error) {
		dir, err := host.MakeScratchIn(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		return p.Serve(ctx, h, l, gather, dir)
	}
	alone := func(_ context.Context, mine []byte) ([][]byte, error) { return [][]byte{mine}, nil }
	s, err := serve(Layout{Processes: slices.Repeat([]int{1}, MostProcesses), Here: MostProcesses - 1}, alone)
	if err != nil {
		t.Fatalf("as many machines as may be: %v", err)
	}
	s.Close()
	for _, l := range []Layout{{Processes: slices.Repeat([]int{1}, MostProcesses+1)}, {Processes: []int{MostProcesses, 1}}, {Processes: []int{1, 0}}, {Processes: []int{1}, Here: 1}} {
		if _, err := serve(l, alone); err == nil {
			t.Errorf("%d machines, %d processes are served", len(l.Processes), l.Size())
		}
	}
	for octets, want := range map[int]string{mostFence / 2: "", 2 * mostFence: "are the most"} {
		fence := -1
		s, err := serve(Layout{Processes: []int{1, 1}}, func(_ context.Context, mine []byte) ([][]byte, error) {
			fence++ // the other one has nothing for it
			return [][]byte{mine, fmt.Appendf(nil, `{"f%d-1":"0"}`, fence)}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		c := exec.CommandContext(ctx, client, fmt.Sprint(octets))
		c.Env = append(os.Environ(), s.Env(0)...)
		out, _ := c.CombinedOutput() // the other one's value is not there
		if want != "" {
			select {
			case <-s.Broken():
			case <-ctx.Done():
			}
		}
		if err := s.Err(); want == "" && (err != nil || fence != 0) || want != "" && (err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "machine 1: the processes of a machine give each other ")) {
			t.Errorf("%d octets: %v: %s", octets, err, out)
		}
		s.Close()
	}
}

// What may be given at a fence fits into what a machine may give the others, and little more
// than that does not.
func TestFenceFits(t *testing.T) {
	sized := func(octets int) int {
		const part = 500 // as pmix.c has it
		given := map[string]string{"f99-1023": fmt.Sprint(octets)}
		for i := range (octets + part - 1) / part {
			given[fmt.Sprintf("f99-1023-%d", i)] = strings.Repeat("f", 2*min(part, octets-i*part))
		}
		text, err := json.Marshal(given)
		if err != nil {
			t.Fatal(err)
		}
		return len(text)
	}
	if n := sized(mostFence); n > MostGiven {
		t.Errorf("%d octets at a fence are %d, and %d are the most", mostFence, n, MostGiven)
	}
	if n := sized(mostFence + 1024); n <= MostGiven {
		t.Errorf("there is room for more than %d octets: %d", mostFence, n)
	}
}
