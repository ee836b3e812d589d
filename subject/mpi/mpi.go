// SPDX-License-Identifier: Apache-2.0

// Package mpi lets the processes of one MPI program find each other, on one machine or on
// several, without a launcher:
//
//	process ---PMI-1 over its standard input---> Server ---Gather---> those of the other machines
//
// mpirun would need a shell on each machine, or a daemon that starts whatever it is told to.
// Here each machine starts its own processes, and hands on nothing but the addresses at
// which they listen. MPICH speaks PMI-1 by itself. Open MPI 4 does so by its component flux
// and a small library (programs/pmi.c), which is compiled on the machine. Open MPI 5 speaks
// PMIx alone, with a small program (programs/pmix.c) of each machine, which speaks PMI-1:
//
//	process ---PMIx---> pmix ---PMI-1---> Server ---Gather---> those of the other machines
//
// MPI itself has no keys. While its processes run, whoever reaches their ports can talk to them.
package mpi

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"boxdyno/host"
	"boxdyno/subject/internal/made"
)

// Kinds of MPI.
const (
	OpenMPI = "openmpi"
	MPICH   = "mpich"
)

// Bounds of what processes tell each other, which passes the hub of a fleet.
const (
	MostProcesses = 1024     // of all machines
	MostGiven     = 64 << 10 // octets that a machine gives to a Gather
	// mostFence is how many octets processes of a machine give at a fence of PMIx. As text
	// in JSON they fit into MostGiven.
	mostFence = 31 << 10
)

// A Gather returns what all machines have given, in their order, once each has.
type Gather func(ctx context.Context, mine []byte) (all [][]byte, err error)

// A Layout is how many processes each machine has. Ranks are counted from the first machine on.
type Layout struct {
	Processes []int
	Here      int // index of this machine
}

// Size is the number of all processes.
func (l Layout) Size() (n int) {
	for _, p := range l.Processes {
		n += p
	}
	return n
}

// check says what no program can be begun for.
func (l Layout) check() error {
	for i, n := range l.Processes {
		if n < 1 {
			return fmt.Errorf("machine %d has %d processes of MPI: one is the least", i+1, n)
		}
	}
	switch n := l.Size(); {
	case n > MostProcesses:
		return fmt.Errorf("%d processes of MPI on %d machines: %d are the most", n, len(l.Processes), MostProcesses)
	case l.Here < 0 || l.Here >= len(l.Processes):
		return fmt.Errorf("this is machine %d of %d machines", l.Here+1, len(l.Processes))
	}
	return nil
}

// First is the rank of this machine's first process.
func (l Layout) First() (n int) {
	for _, p := range l.Processes[:l.Here] {
		n += p
	}
	return n
}

// mapping is what MPICH reads of a Layout: blocks of machines with as many processes each.
func (l Layout) mapping() string {
	var blocks []string
	for i := 0; i < len(l.Processes); {
		n := 1
		for i+n < len(l.Processes) && l.Processes[i+n] == l.Processes[i] {
			n++
		}
		blocks = append(blocks, fmt.Sprintf("(%d,%d,%d)", i, n, l.Processes[i]))
		i += n
	}
	return "(vector," + strings.Join(blocks, ",") + ")"
}

// A Program is an MPI program's library.
type Program struct {
	Kind    string
	Library string // path of libmpi.so or libmpich.so
	pmi     string // Open MPI 4: path of the compiled library
	pmix    string // Open MPI 5: path of the compiled program
}

// ByPMIx says whether the program's processes begin by PMIx: their standard input is nobody's.
func (p Program) ByPMIx() bool { return p.pmix != "" }

// Prepare is the MPI of a program by its library. What lacks is a *host.Missing.
func Prepare(ctx context.Context, h *host.Local, kind, library string) (Program, error) {
	p := Program{Kind: kind, Library: library}
	if kind == MPICH {
		return p, nil
	}
	found, _ := filepath.Glob(filepath.Join(filepath.Dir(library), "openmpi", "lib", "openmpi*", "mca_pmix_flux.so"))
	if len(found) == 0 {
		return PreparePMIx(ctx, h, library)
	}
	var err error
	p.pmi, err = made.Program{
		Name: "pmi", Sources: []string{"pmi.c"}, Flags: []string{"-O2", "-shared", "-fPIC"},
	}.Program(ctx, h)
	return p, err
}

// PreparePMIx is Prepare for an Open MPI whose processes begin by PMIx: version 5 can do
// nothing else, and version 4 can.
func PreparePMIx(ctx context.Context, h *host.Local, library string) (p Program, err error) {
	p = Program{Kind: OpenMPI, Library: library}
	p.pmix, err = made.Program{
		Name: "pmix", Sources: []string{"pmix.c", "pmi.c"}, Flags: []string{"-O2", "-I" + filepath.Join(filepath.Dir(p.Library), "pmix2", "include")},
		Libs: []string{"-lpmix"}, Packages: []string{"libpmix-dev"},
	}.Program(ctx, h)
	return p, err
}

// Home is HOME for Open MPI where this process has none, as a service of systemd: version 5
// does not begin without it.
func Home(dir string) []string {
	if os.Getenv("HOME") != "" {
		return nil
	}
	return []string{"HOME=" + dir}
}

// Why is the line of a process's standard error that says why it failed. Open MPI says it
// first, and then at length that all end.
func Why(stderr string) string {
	lines := strings.Split(strings.TrimSpace(stderr), "\n")
	why := lines[len(lines)-1]
	if strings.Contains(stderr, "MPI_ERRORS_ARE_FATAL") || strings.Contains(stderr, "Local abort") {
		why = lines[0]
	}
	if host, text, ok := strings.Cut(why, "] "); ok && strings.HasPrefix(host, "[") { // [HOST:PID]
		why = text
	}
	return strings.TrimSpace(why)
}

// Env is the environment of a process of l with that number on this machine. Its messages
// to other machines go over n; dir is a scratch folder of its own.
func (p Program) Env(l Layout, local int, n Net, dir string) []string {
	env := []string{
		"PMI_FD=0", "PMI_RANK=" + strconv.Itoa(l.First()+local), "PMI_SIZE=" + strconv.Itoa(l.Size()), "TMPDIR=" + dir,
	}
	if p.Kind == MPICH {
		return append(env,
			// Of the ways that MPICH can be built with, each takes its own.
			"MPICH_INTERFACE_HOSTNAME="+n.Address.String(),
			"UCX_NET_DEVICES="+n.Interface, "UCX_TLS=tcp,sm,self",
			"FI_PROVIDER=tcp", "FI_TCP_IFACE="+n.Interface, "FI_SOCKETS_IFACE="+n.Interface)
	}
	if !p.ByPMIx() {
		env = append(env,
			"FLUX_JOB_ID=1", "FLUX_PMI_LIBRARY_PATH="+p.pmi,
			"BOXDYNO_FIRST="+strconv.Itoa(l.First()), "BOXDYNO_LOCAL="+strconv.Itoa(l.Processes[l.Here]), "OMPI_MCA_pmix=flux")
	}
	return append(append(env, Home(dir)...),
		"OMPI_MCA_mpi_yield_when_idle=1", // as mpirun --oversubscribe does, by which hpl starts it
		"OMPI_MCA_pml=ob1", "OMPI_MCA_btl=self,vader,tcp", "OMPI_MCA_btl_tcp_if_include="+n.Prefix.String(),
		// Messages within a machine go through memory; what holds them would outlive a killed
		// process in /dev/shm.
		"OMPI_MCA_btl_vader_backing_directory="+dir, "OMPI_MCA_btl_sm_backing_directory="+dir)
}
