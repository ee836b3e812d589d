// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"boxdyno/host"
	"boxdyno/result"
	"boxdyno/subject"
	"boxdyno/subject/mpi"
)

// An HPL is High-Performance Linpack, as the HPC Challenge benchmark (Debian's hpcc) has
// it: a dense system of linear equations in double precision, solved by LU factorisation
// in several processes that pass messages over MPI. It is the last of that program's
// tests, which all run. It needs Open MPI.
type HPL struct {
	Order   int    // N, of the matrix: 1 or more
	Block   int    // NB, of its blocks: 1 to Order
	Rows    int    // P, of the grid of processes
	Columns int    // Q: there are P x Q processes, one thread each
	BLAS    string // one of BLASNames

	other string // another build of hpcc; "": hpcc itself
}

func (s *HPL) program() string { return cmp.Or(s.other, hplProgram) }

const (
	hplProgram = "hpcc"
	mpiProgram = "mpirun"
	// hplThreshold is the scaled residual above which a solution is wrong, HPL's own.
	hplThreshold = 16.0
)

// NewHPL is a small problem on one process.
func NewHPL() *HPL { return &HPL{Order: 1000, Block: 100, Rows: 1, Columns: 1, BLAS: SystemBLAS} }

// SolverSpecs are the subjects that solve a dense system of linear equations.
func SolverSpecs() subject.Specs {
	return subject.Specs{{
		Name: hplProgram, Work: "hpl", Doc: "HPL over Open MPI: a dense system of linear equations, solved by LU factorisation (Debian's hpcc)",
		Metrics: HPLMetrics, New: func() subject.Subject { return NewHPL() },
	}}
}

// Flags implements Subject.
func (s *HPL) Flags(fs *flag.FlagSet) {
	fs.IntVar(&s.Order, "order", s.Order, "`N` of the matrix")
	fs.IntVar(&s.Block, "block", s.Block, "`NB` of its blocks")
	fs.IntVar(&s.Rows, "rows", s.Rows, "`P` of the grid of processes")
	fs.IntVar(&s.Columns, "columns", s.Columns, "`Q` of the grid of processes")
	fs.StringVar(&s.BLAS, "blas", s.BLAS, "`library` of basic linear algebra: "+strings.Join(BLASNames(), ", "))
}

// problem refuses one that is none.
func (s *HPL) problem() error {
	switch {
	case s.Order < 1 || s.Block < 1 || s.Rows < 1 || s.Columns < 1:
		return fmt.Errorf("order %d, block %d, grid %dx%d: want 1 or more of each", s.Order, s.Block, s.Rows, s.Columns)
	case s.Block > s.Order:
		return fmt.Errorf("block %d: it is larger than the matrix, whose order is %d", s.Block, s.Order)
	}
	return nil
}

// fits is a *host.Missing where so many octets of the matrix are not free in memory.
func (s *HPL) fits(h *host.Local, octets float64) error {
	if free := h.MemoryAvailable(); free > 0 && octets > float64(free) {
		return &host.Missing{
			What: fmt.Sprintf("memory: a matrix of order %d takes %.1f GB, and %.1f GB are available", s.Order, octets/1e9, float64(free)/1e9),
			Hint: "end what uses memory, or ask for a smaller order",
		}
	}
	return nil
}

// Check implements Subject. Memory that the matrix does not fit into is a *host.Missing.
func (s *HPL) Check(ctx context.Context, h *host.Local) error {
	if err := s.problem(); err != nil {
		return err
	}
	for _, program := range []string{hplProgram, mpiProgram} {
		if err := host.Has(program); err != nil {
			return err
		}
	}
	linked, err := hplLinked(ctx, h, hplProgram, "")
	if err != nil {
		return err
	}
	if linked["libmpi.so"] == "" {
		return &host.Missing{What: "hpcc linked to Open MPI", Hint: "the hpcc that is installed here is linked to another MPI, which boxdyno does not start"}
	}
	if _, _, err := s.blas(ctx, h); err != nil {
		return err
	}
	return s.fits(h, s.bytes())
}

func (s *HPL) bytes() float64 { return 8 * float64(s.Order) * float64(s.Order) }

// Identify implements Worker.
func (s *HPL) Identify(ctx context.Context, h *host.Local) ([]result.Pair, error) {
	_, blas, err := s.blas(ctx, h)
	if err != nil {
		return nil, err
	}
	out, err := h.Run(ctx, "", mpiProgram, "--version")
	mpi, _, _ := strings.Cut(string(out), "\n")
	return []result.Pair{
		{Key: "N", Value: strconv.Itoa(s.Order)}, {Key: "NB", Value: strconv.Itoa(s.Block)}, {Key: "PxQ", Value: fmt.Sprintf("%dx%d", s.Rows, s.Columns)},
		{Key: "linked_to", Value: blas}, {Key: "mpi", Value: strings.NewReplacer("mpirun ", "", "(", "", ")", "").Replace(mpi)}, {Key: "hpcc", Value: packageVersion(ctx, h, hplProgram)},
	}, err
}

// packageVersion is that of Debian's package; "unknown" where there is no such package.
func packageVersion(ctx context.Context, h *host.Local, name string) string {
	out, err := h.Run(ctx, "", "dpkg-query", "--show", "--showformat=${Version}\n", name)
	first, _, _ := strings.Cut(string(out), "\n") // a package may be there for several architectures
	if err != nil || first == "" {
		return "unknown"
	}
	return first
}

// Prove implements Worker: a small system's solution has a small residual.
func (s *HPL) Prove(ctx context.Context, _ *host.Local) (err error) {
	small := *s
	small.Block = 16
	small.Order = 6 * small.Block
	r, err := small.Start(ctx, subject.Env{})
	if err != nil {
		return err
	}
	run := r.(*subject.Working)
	defer func() { err = errors.Join(err, run.Stop(context.WithoutCancel(ctx))) }()
	if err := errors.Join(run.Ready(ctx), run.Begin()); err != nil {
		return err
	}
	_, err = run.Wait(ctx)
	return err
}

// hplScript runs a command in whose folder hpcc writes its report, and prints of it the
// section of HPL, which is the last.
const hplScript = `"$@" >&2 && sed -n '/^Begin of HPL section/,/^End of HPL section/p' hpccoutf.txt`

// oneThread is for a process that has one thread: there is one for each CPU.
var oneThread = []string{"OMP_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=1", "BLIS_NUM_THREADS=1"}

// Start implements Subject. All that MPI keeps in files is in a folder in memory that
// goes with its processes.
func (s *HPL) Start(ctx context.Context, e subject.Env) (subject.Running, error) {
	libraries, _, err := s.blas(ctx, e.Machine())
	if err != nil {
		return nil, err
	}
	dir, err := host.MakeScratchIn(inMemory())
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "hpccinf.txt"), []byte(s.input()), 0o644); err != nil {
		return nil, errors.Join(fmt.Errorf("write hpcc's input: %w", err), os.RemoveAll(dir))
	}
	env := append([]string{
		"TMPDIR=" + dir,
		"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
		// Messages go through memory; what holds them would outlive a killed process in
		// /dev/shm. The second name is Open MPI 5's.
		"OMPI_MCA_btl=^openib,tcp", "OMPI_MCA_btl_vader_backing_directory=" + dir, "OMPI_MCA_btl_sm_backing_directory=" + dir,
	}, slices.Concat(mpi.Home(dir), oneThread)...)
	if libraries != "" {
		env = append(env, "LD_LIBRARY_PATH="+libraries)
	}
	return subject.Command{
		Name: hplProgram, Dir: dir, Env: env, Why: mpi.Why,
		Argv: []string{"sh", "-c", hplScript, "sh", mpiProgram, "--oversubscribe", "--bind-to", "none", "-np", strconv.Itoa(s.Rows * s.Columns), hplProgram},
		Read: func(w subject.Worked) ([]result.Value, error) { return s.read(w.Stdout) },
	}.Start(ctx, e)
}

// inMemory is a folder of a file system in memory; $TMPDIR where there is none.
func inMemory() string {
	const shm = "/dev/shm"
	if unix.Access(shm, unix.W_OK|unix.X_OK) == nil {
		return shm
	}
	return os.TempDir()
}

// input is hpcc's input file: one problem, and of the algorithm's variants those that
// come with it.
func (s *HPL) input() string {
	return fmt.Sprintf(`HPLinpack benchmark input file
written by boxdyno
HPL.out  output file name (if any)
8        device out (6=stdout,7=stderr,file)
1        # of problems sizes (N)
%d Ns
1        # of NBs
%d NBs
0        PMAP process mapping (0=Row-,1=Column-major)
1        # of process grids (P x Q)
%d Ps
%d Qs
%.1f     threshold
1        # of panel fact
2        PFACTs (0=left, 1=Crout, 2=Right)
1        # of recursive stopping criterium
4        NBMINs (>= 1)
1        # of panels in recursion
2        NDIVs
1        # of recursive panel fact.
1        RFACTs (0=left, 1=Crout, 2=Right)
1        # of broadcast
1        BCASTs (0=1rg,1=1rM,2=2rg,3=2rM,4=Lng,5=LnM)
1        # of lookahead depth
1        DEPTHs (>=0)
2        SWAP (0=bin-exch,1=long,2=mix)
64       swapping threshold
0        L1 in (0=transposed,1=no-transposed) form
0        U  in (0=transposed,1=no-transposed) form
1        Equilibration (0=no,1=yes)
8        memory alignment in double (> 0)
##### This line (no. 32) is ignored (it serves as a separator). ######
0        Number of additional problem sizes for PTRANS
1200     values of N
0        number of additional blocking sizes for PTRANS
40       values of NB
`, s.Order, s.Block, s.Rows, s.Columns, hplThreshold)
}

var (
	hplRow      = regexp.MustCompile(`(?m)^W[0-9RLC]+ +(\d+) +(\d+) +(\d+) +(\d+) +([0-9.]+) +([0-9.e+-]+)\s*$`)
	hplResidual = regexp.MustCompile(`(?m)^\|\|Ax-b\|\|[^=]*= *(\S+) \.+ (\w+)`)
)

// read takes the one row of HPL's report, which must be of the problem that was asked
// for, with a residual that passes, and a rate that agrees with its time.
func (s *HPL) read(text string) ([]result.Value, error) {
	row, check := hplRow.FindStringSubmatch(text), hplResidual.FindStringSubmatch(text)
	if row == nil || check == nil {
		return nil, fmt.Errorf("its report has no row of HPL with a residual: %.200q", strings.TrimSpace(text))
	}
	var n [6]float64
	for i := range n {
		v, err := strconv.ParseFloat(row[i+1], 64)
		if err != nil {
			return nil, fmt.Errorf("its row of HPL %q has %q where a number should be", row[0], row[i+1])
		}
		n[i] = v
	}
	if got, want := fmt.Sprint(n[:4]), fmt.Sprint([]float64{float64(s.Order), float64(s.Block), float64(s.Rows), float64(s.Columns)}); got != want {
		return nil, fmt.Errorf("it solved another problem than it was given: N, NB, P, Q are %s and not %s", got, want)
	}
	residual, err := strconv.ParseFloat(check[1], 64) // "nan" is a number here, and not below the threshold
	if err != nil || !(residual < hplThreshold) || check[2] != "PASSED" {
		return nil, fmt.Errorf("its solution is wrong: the scaled residual is %s (%s), and must be below %g", check[1], check[2], hplThreshold)
	}
	seconds, rate := n[4], n[5]*1e9
	// Of a time so short that its two decimals say little there is nothing to compare.
	if counted := s.operations() / seconds; !(rate > 0) || seconds >= 1 && math.Abs(rate/counted-1) > 0.05 {
		return nil, fmt.Errorf("it says %g flop/s, and its time of %g s says %g", rate, seconds, counted)
	}
	return []result.Value{
		{Metric: "hpl_rate", Unit: "flop/s", Value: rate}, {Metric: "hpl_s", Unit: "s", Value: seconds}, {Metric: "hpl_residual", Unit: "1", Value: residual},
		{Metric: "hpl_order", Unit: "1", Value: n[0]}, {Metric: "hpl_block", Unit: "1", Value: n[1]}, {Metric: "hpl_rows", Unit: "1", Value: n[2]}, {Metric: "hpl_columns", Unit: "1", Value: n[3]},
	}, nil
}

// operations are those that HPL counts a solution as.
func (s *HPL) operations() float64 {
	n := float64(s.Order)
	return 2.0/3.0*n*n*n + 3.0/2.0*n*n
}

// HPLMetrics are those of an HPL.
var HPLMetrics = []result.Metric{
	{Name: "hpl_rate", Label: "HPL", Interval: "range", Heads: true, Unit: "flop/s", Better: 1, Help: "floating-point operations a second in double precision, of a solution that counts as 2/3 N^3 + 3/2 N^2"},
	{Name: "hpl_s", Label: "took", Unit: "s", Help: "time of the solution"},
	{Name: "hpl_residual", Label: "residual", Unit: "1", Help: "scaled residual of the solution, which must be below 16"},
	{Name: "hpl_order", Label: "N", Unit: "1", Exact: true, Help: "N, the order of the matrix"},
	{Name: "hpl_block", Unit: "1", Exact: true, Help: "NB, the order of its blocks"},
	{Name: "hpl_rows", Unit: "1", Exact: true, Help: "P, rows of the grid of processes"},
	{Name: "hpl_columns", Unit: "1", Exact: true, Help: "Q, its columns"},
}
