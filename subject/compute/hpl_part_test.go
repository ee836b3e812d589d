// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"context"
	"errors"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"boxdyno/host"
	"boxdyno/internal/testutil"
	"boxdyno/result"
	"boxdyno/subject/mpi"
)

// hpccSummary is of the summary of hpcc 1.5.0 on a virtual machine.
const hpccSummary = `Begin of Summary section.
VersionMajor=1
StarDGEMM_Gflops=1.0175
MaxPingPongLatency_usec=50
MinPingPongBandwidth_GBytes=0.1
End of Summary section.
`

// The figures of the network are those of the worst pair before the system, and the share
// of messages follows from them.
func TestReadHPLPart(t *testing.T) {
	s := &HPLPart{HPL: HPL{Order: 2000, Block: 80, Rows: 1, Columns: 2}}
	vs, err := s.readPart(hplSection + hpccSummary)
	if err != nil {
		t.Fatal(err)
	}
	// 8 octets x 2000^2 x (3+2)/(2x2) at 100 MB/s, and 2000 x 1/80 messages of 50 us.
	messages := 8*4e6*5/4/1e8 + 2000.0/80*50e-6
	for name, want := range map[string]float64{
		"hpl_rate": 1.628e9, "hpl_efficiency": 0.8, "mpi_latency_s": 50e-6, "mpi_bandwidth_bytes_per_s": 1e8, "hpl_messages_ratio": messages / 3.28,
	} {
		found := false
		for _, v := range vs {
			found = found || v.Metric == name && math.Abs(v.Value/want-1) < 1e-9
		}
		if !found {
			t.Errorf("%s is not %g: %+v", name, want, vs)
		}
	}
	if _, err := s.readPart(hplSection + strings.Replace(hpccSummary, "MaxPing", "MinPing", 1)); err == nil || !strings.Contains(err.Error(), "no latency") {
		t.Error(err)
	}
	if _, err := s.readPart(hpccSummary); err == nil {
		t.Error("no system was solved")
	}
}

// A build of hpcc for another MPI is found beside; what is not there is named.
func TestChooseMPI(t *testing.T) {
	fakeHPL(t, "exit 1")
	s := &HPLPart{}
	var missing *host.Missing
	if err := s.Choose(t.Context(), &host.Local{}, mpi.MPICH); !errors.As(err, &missing) || !strings.Contains(err.Error(), "hpcc.mpich") {
		t.Error(err)
	}
	bin := t.TempDir()
	for name, text := range map[string]string{
		"hpcc.mpich": "exit 1",
		"ldd":        `case "$1" in *mpich) echo "	libmpich.so.12 => /lib/libmpich.so.12 (0x1)";; *) echo "	libmpi.so.40 => /none/libmpi.so.40 (0x2)";; esac; echo "	libblas.so.3 => /lib/blas/libblas.so.3 (0x1)"`,
	} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	if err := s.Choose(t.Context(), &host.Local{}, mpi.MPICH); err != nil || s.program() != "hpcc.mpich" || s.Kind != mpi.MPICH {
		t.Errorf("%+v, %v", s, err)
	}
	for library, want := range map[string]string{"": "whole", "rings.so": "shortened"} { // of hpcc's messages before
		s.rings = library
		if facts, _ := s.Identify(t.Context(), &host.Local{}); result.Get(facts, "rings") != want {
			t.Errorf("with library %q: %v", library, facts)
		}
	}
	// Open MPI without its component flux, as version 5 is, and without the headers of PMIx.
	if err := s.Choose(t.Context(), &host.Local{}, "auto"); !errors.As(err, &missing) || !strings.Contains(err.Error(), "libpmix-dev") {
		t.Error(err)
	}
}

// hpcc itself solves a small system in two processes that find each other without mpirun, on
// one machine and as if on two.
func TestHPLPart(t *testing.T) {
	testutil.Long(t)
	chosen := &HPLPart{HPL: *NewHPL()}
	var missing *host.Missing
	if err := chosen.Choose(t.Context(), &host.Local{}, "auto"); errors.As(err, &missing) {
		t.Skip(missing)
	} else if err != nil {
		t.Fatal(err)
	}
	nets, err := mpi.Shared(make([][]mpi.Net, 1), mpi.Network{}.Prefix)
	if err != nil {
		t.Fatal(err)
	}
	for name, machines := range map[string][]int{"on one": {2}, "as on two": {1, 1}} {
		t.Run(name, func(t *testing.T) {
			ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
			defer stop()
			meet := &meeting{machines: len(machines), met: make(chan struct{})}
			var all sync.WaitGroup
			for here := range machines {
				s := *chosen
				s.Rows, s.Columns, s.Net, s.Layout = 1, 2, nets[0], mpi.Layout{Processes: machines, Here: here}
				s.Gather = func(_ context.Context, mine []byte) ([][]byte, error) { return meet.give(here, mine), nil }
				all.Go(func() {
					if err := errors.Join(s.Check(ctx, &host.Local{}), s.Prove(ctx, &host.Local{})); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
		})
	}
}

// A meeting has machines of one process give each other what they have.
type meeting struct {
	machines int

	mu    sync.Mutex
	given [][]byte
	got   int
	met   chan struct{}
}

func (m *meeting) give(here int, mine []byte) [][]byte {
	m.mu.Lock()
	if m.got == 0 {
		m.given, m.met = make([][]byte, m.machines), make(chan struct{})
	}
	given, met := m.given, m.met
	given[here] = mine
	if m.got++; m.got == m.machines {
		m.got = 0
		close(met)
	}
	m.mu.Unlock()
	<-met
	return given
}

// Of a message of hpcc's rings both ends arrive and nothing is between them; other messages
// are whole.
func TestRings(t *testing.T) {
	library, err := ringsLibrary.Program(t.Context(), &host.Local{})
	var missing *host.Missing
	if errors.As(err, &missing) {
		t.Skip(missing)
	} else if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	compile := func(out string, args ...string) string {
		out = filepath.Join(dir, out)
		if said, err := exec.CommandContext(t.Context(), "cc", append([]string{"-o", out}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, said)
		}
		return out
	}
	mpi := compile("libmpi.so", "-shared", "-fPIC", "testdata/rings_mpi.c")
	program := compile("rings", "testdata/rings.c", mpi, "-Wl,-rpath,"+dir)
	for preload, want := range map[string]string{
		"":      "2000000 2000000 2000000 2000000 8 2000000",
		library: "2 2 2 2 8 2000000",
	} {
		c := exec.CommandContext(t.Context(), program)
		c.Env = append(os.Environ(), "LD_PRELOAD="+preload)
		said, err := c.CombinedOutput()
		if got := strings.TrimSpace(string(said)); err != nil || got != want {
			t.Errorf("with %q: %q, %v, want %q", preload, got, err, want)
		}
	}
}

// How long a system may take follows from what hpcc sends before it.
func TestPartPatience(t *testing.T) {
	for name, c := range map[string]struct {
		part HPLPart
		want time.Duration
	}{
		"one machine":              {HPLPart{Layout: mpi.Layout{Processes: []int{4}}}, 5 * time.Minute},
		"two, without their rings": {HPLPart{Layout: mpi.Layout{Processes: []int{4, 4}}, rings: "rings"}, 5*time.Minute + 268800*time.Millisecond},
		"two, with their rings":    {HPLPart{Layout: mpi.Layout{Processes: []int{1, 4}}}, 5*time.Minute + (268800+4*563200)*time.Millisecond},
	} {
		if got := c.part.Patience(); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
