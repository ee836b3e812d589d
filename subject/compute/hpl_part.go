// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"time"

	"boxdyno/host"
	"boxdyno/result"
	"boxdyno/subject"
	"boxdyno/subject/internal/made"
	"boxdyno/subject/mpi"
)

// An HPLPart is this machine's processes of an HPL that several machines solve together. It
// needs no launcher (package mpi). Each Start is the next process; that of rank 0 has the
// figures.
type HPLPart struct {
	HPL
	Kind   string // mpi.OpenMPI or mpi.MPICH
	Layout mpi.Layout
	Net    mpi.Net // between the machines
	Gather mpi.Gather
	CPUs   []int // of the processes; nil: any

	mpi    mpi.Program
	rings  string      // path of the library that shortens hpcc's rings; "": they are whole
	server *mpi.Server // of the processes that were started last
	next   int
}

// mpiLibraries are the libraries of kinds of MPI, as Debian names them.
var mpiLibraries = map[string]string{mpi.OpenMPI: "libmpi.so", mpi.MPICH: "libmpich.so"}

// Choose finds the build of hpcc that is linked to kind: hpcc, or hpcc.KIND. auto takes
// whatever hpcc is linked to. None is a *host.Missing.
func (s *HPLPart) Choose(ctx context.Context, h *host.Local, kind string) error {
	for _, name := range []string{hplProgram, hplProgram + "." + kind} {
		if host.Has(name) != nil {
			continue
		}
		linked, err := hplLinked(ctx, h, name, "")
		if err != nil {
			return err
		}
		for _, of := range []string{mpi.MPICH, mpi.OpenMPI} {
			library := linked[mpiLibraries[of]]
			if library == "" || kind != of && kind != "auto" {
				continue
			}
			s.Kind, s.other = of, name
			if s.mpi, err = mpi.Prepare(ctx, h, of, library); err == nil && of == mpi.OpenMPI { // MPICH needs no compiler
				s.rings, err = ringsLibrary.Program(ctx, h)
			}
			return err
		}
	}
	if err := host.Has(hplProgram); err != nil {
		return err
	}
	return &host.Missing{What: "hpcc linked to " + kind, Hint: "the hpcc that is installed here is linked to another MPI: put one that is made with " + kind + " into a folder of PATH as hpcc." + kind}
}

var ringsLibrary = made.Program{Name: "rings", Sources: []string{"rings.c"}, Flags: []string{"-O2", "-shared", "-fPIC"}, Libs: []string{"-ldl"}}

// Check implements Subject, once Choose has found the program.
func (s *HPLPart) Check(ctx context.Context, h *host.Local) error {
	if err := s.problem(); err != nil {
		return err
	}
	if _, _, err := s.blas(ctx, h); err != nil {
		return err
	}
	return s.fits(h, s.bytes()*float64(s.Layout.Processes[s.Layout.Here])/float64(s.Layout.Size()))
}

// Version is that of MPI's package, such as "openmpi 4.1.4-3+b1".
func (s *HPLPart) Version(ctx context.Context, h *host.Local) string {
	real, err := filepath.EvalSymlinks(s.mpi.Library)
	if err != nil {
		real = s.mpi.Library
	}
	return s.Kind + " " + fileVersion(ctx, h, real)
}

// Identify implements Worker.
func (s *HPLPart) Identify(ctx context.Context, h *host.Local) ([]result.Pair, error) {
	_, blas, err := s.blas(ctx, h)
	over := s.Net.Prefix.String()
	if len(s.Layout.Processes) == 1 {
		over = "memory"
	}
	rings := "whole"
	if s.rings != "" {
		rings = "shortened"
	}
	return []result.Pair{
		{Key: "N", Value: strconv.Itoa(s.Order)}, {Key: "NB", Value: strconv.Itoa(s.Block)}, {Key: "PxQ", Value: fmt.Sprintf("%dx%d", s.Rows, s.Columns)},
		{Key: "linked_to", Value: blas}, {Key: "mpi", Value: s.Version(ctx, h)}, {Key: "hpcc", Value: packageVersion(ctx, h, hplProgram)}, {Key: "over", Value: over}, {Key: "rings", Value: rings},
	}, err
}

// What hpcc sends before it solves a system, whatever that is: its bench_lat_bw.c.
const (
	pairOctets = 21 * 8 * 2e6         // of pairs, one after the other
	ringOctets = 22 * 4 * 2 * 2 * 2e6 // of each process, in rings
	// slowestNetwork is in octets a second of a machine: 10 Mbit/s.
	slowestNetwork = 10e6 / 8
)

// Patience is how long hpcc may take for all that it does beside the system.
func (s *HPLPart) Patience() time.Duration {
	octets := 0.0
	if len(s.Layout.Processes) > 1 {
		octets = pairOctets
		if s.rings == "" {
			octets += ringOctets * float64(slices.Max(s.Layout.Processes))
		}
	}
	return 5*time.Minute + time.Duration(octets/slowestNetwork*1e9)
}

// Prove implements Worker: all machines solve a small system together, whose solution has a
// small residual.
func (s *HPLPart) Prove(ctx context.Context, h *host.Local) (err error) {
	small := *s
	small.Block = 16
	small.Order = 6 * small.Block
	var runs []*subject.Working
	defer func() {
		end := context.WithoutCancel(ctx)
		for _, r := range runs {
			err = errors.Join(err, r.Stop(end))
		}
		small.End()
	}()
	for i := range s.Layout.Processes[s.Layout.Here] {
		e := subject.Env{Host: h}
		if i < len(s.CPUs) {
			e.CPUs = s.CPUs[i : i+1]
		}
		r, err := small.Start(ctx, e)
		if err != nil {
			return err
		}
		runs = append(runs, r.(*subject.Working))
	}
	for _, r := range runs {
		if err := r.Ready(ctx); err != nil {
			return err
		}
	}
	for _, r := range runs {
		if err := r.Begin(); err != nil {
			return err
		}
	}
	limit, begun := s.Patience().Round(time.Second), time.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("a small system was not solved within %v", limit))
	defer cancel()
	err = subject.AllDone(ctx, runs, small.Broken())
	if errors.Is(err, subject.ErrBroken) {
		err = small.Why()
	}
	for _, r := range runs {
		if err == nil {
			_, err = r.Wait(ctx)
		}
	}
	if ctx.Err() == nil {
		err = subject.AtLimit(err, time.Since(begun), limit)
	}
	return err
}

// Broken is closed once the processes that were started last can no longer work together.
func (s *HPLPart) Broken() <-chan struct{} { return s.server.Broken() }

// Why is what broke them; nil: nothing did.
func (s *HPLPart) Why() error { return s.server.Err() }

// End ends what serves the processes that were started last. No process may work any more.
func (s *HPLPart) End() {
	if s.server != nil {
		s.server.Close()
	}
	s.server, s.next = nil, 0
}

// partScript runs a command in whose folder hpcc writes its report, and prints of it the
// sections that are read. hpcc measures the network before it solves the system.
const partScript = `"$@" >&2 && sed -n -e '/^Begin of HPL section/,/^End of HPL section/p' -e '/^Begin of Summary section/,/^End of Summary section/p' hpccoutf.txt`

// Start implements Subject: the next one of this machine's processes.
func (s *HPLPart) Start(ctx context.Context, e subject.Env) (subject.Running, error) {
	libraries, _, err := s.blas(ctx, e.Machine())
	if err != nil {
		return nil, err
	}
	local := s.next
	if local >= s.Layout.Processes[s.Layout.Here] {
		return nil, errors.New("this machine has no more processes of HPL")
	}
	if s.server == nil {
		own, err := host.MakeScratchIn(inMemory())
		if err != nil {
			return nil, err
		}
		if s.server, err = s.mpi.Serve(context.WithoutCancel(ctx), e.Machine(), s.Layout, s.Gather, own); err != nil {
			s.server = nil
			return nil, err
		}
	}
	dir, err := host.MakeScratchIn(inMemory())
	if err != nil {
		return nil, err
	}
	first := s.Layout.First()+local == 0
	c := subject.Command{Name: hplProgram, Dir: dir, Argv: []string{s.program()}, Why: mpi.Why, Env: slices.Concat(s.mpi.Env(s.Layout, local, s.Net, dir), s.server.Env(local), oneThread)}
	if libraries != "" {
		c.Env = append(c.Env, "LD_LIBRARY_PATH="+libraries)
	}
	if s.rings != "" {
		c.Env = append(c.Env, "LD_PRELOAD="+s.rings)
	}
	c.Read = func(subject.Worked) ([]result.Value, error) { return nil, nil }
	if first {
		c.Argv = []string{"sh", "-c", partScript, "sh", s.program()}
		c.Read = func(w subject.Worked) ([]result.Value, error) { return s.readPart(w.Stdout) }
		err = os.WriteFile(filepath.Join(dir, "hpccinf.txt"), []byte(s.input()), 0o644)
	}
	if err == nil && !s.mpi.ByPMIx() {
		c.Stdin, err = s.server.Process(local)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("begin hpcc: %w", err), os.RemoveAll(dir))
	}
	s.next++
	return c.Start(ctx, e)
}

// hpccLine is a line of hpcc's summary.
var hpccLine = regexp.MustCompile(`(?m)^(\w+)=([0-9.e+-]+)\s*$`)

// readPart takes the figures of all processes together, and of the network before.
func (s *HPLPart) readPart(text string) ([]result.Value, error) {
	vs, err := s.read(text)
	if err != nil {
		return nil, err
	}
	said := map[string]float64{}
	for _, m := range hpccLine.FindAllStringSubmatch(text, -1) {
		if v, err := strconv.ParseFloat(m[2], 64); err == nil {
			said[m[1]] = v
		}
	}
	get := func(name string) float64 {
		i := slices.IndexFunc(vs, func(v result.Value) bool { return v.Metric == name })
		return vs[i].Value // read returns them all
	}
	processes := float64(s.Rows * s.Columns)
	if each := said["StarDGEMM_Gflops"] * 1e9; each > 0 {
		vs = append(vs, result.Value{Metric: "hpl_efficiency", Unit: "1", Value: get("hpl_rate") / (processes * each)})
	}
	latency, bandwidth := said["MaxPingPongLatency_usec"]/1e6, said["MinPingPongBandwidth_GBytes"]*1e9
	if processes < 2 {
		return vs, nil
	}
	if !(latency > 0) || !(bandwidth > 0) {
		return nil, fmt.Errorf("its report has no latency and bandwidth between %g processes", processes)
	}
	return append(vs,
		result.Value{Metric: "mpi_latency_s", Unit: "s", Value: latency},
		result.Value{Metric: "mpi_bandwidth_bytes_per_s", Unit: "B/s", Value: bandwidth},
		result.Value{Metric: "hpl_messages_ratio", Unit: "1", Value: s.messages(latency, bandwidth) / get("hpl_s")}), nil
}

// messages is how long HPL's messages take by its authors' model of its algorithm, in
// seconds (netlib.org/benchmark/hpl/scalability.html).
func (s *HPL) messages(latency, bandwidth float64) float64 {
	n, nb, p, q := float64(s.Order), float64(s.Block), float64(s.Rows), float64(s.Columns)
	return 8/bandwidth*n*n*(3*p+q)/(2*p*q) + latency*n*((nb+1)*math.Log2(p)+p)/nb
}

// HPLPartMetrics are those of HPLParts together, beside HPLMetrics.
var HPLPartMetrics = []result.Metric{
	{Name: "hpl_efficiency", Label: "efficiency", Share: true, Unit: "1", Better: 1, Help: "hpl_rate as a share of what all processes did at once by DGEMM, a product of matrices without messages, right before"},
	{Name: "mpi_latency_s", Label: "latency", Unit: "s", Better: -1, Help: "time of a message of 8 octets one way, right before, between the worst pair of processes; absent for one process"},
	{Name: "mpi_bandwidth_bytes_per_s", Label: "bandwidth", Unit: "B/s", Better: 1, Help: "octets a second of messages of 2,000,000 octets, right before, between the worst pair of processes"},
	{Name: "hpl_messages_ratio", Label: "messages", Share: true, Unit: "1", Better: -1, Help: "time of HPL's messages by its authors' model and the two figures before, as a share of the time of the solution; no measured time"},
}
