// SPDX-License-Identifier: Apache-2.0

package mpi

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"boxdyno/host"
	"boxdyno/internal/testutil"
)

// Processes of two machines meet by PMIx, and hear what each has given.
func TestPMIx(t *testing.T) {
	testutil.NoLeaks(t)
	h := &host.Local{}
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
	client := filepath.Join(t.TempDir(), "client")
	if out, err := exec.Command("cc", "-I"+headers[0], "-o", client, "testdata/client.c", "-lpmix").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
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
