// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"boxdyno/host"
	"boxdyno/result"
	"boxdyno/subject"
)

// hplSection is of hpcc 1.5.0 on a virtual machine, without HPL's explanations.
const hplSection = `Begin of HPL section.
N      :    2000 
T/V                N    NB     P     Q               Time                 Gflops
--------------------------------------------------------------------------------
WR11C2R4        2000    80     1     2               3.28              1.628e+00
--------------------------------------------------------------------------------
||Ax-b||_oo/(eps*(||A||_oo*||x||_oo+||b||_oo)*N)=        0.0064451 ...... PASSED
================================================================================
End of HPL section.
`

// Figures come only from the problem that was given, with a residual that passes.
func TestReadHPL(t *testing.T) {
	s := &HPL{Order: 2000, Block: 80, Rows: 1, Columns: 2, BLAS: SystemBLAS}
	vs, err := s.read(hplSection)
	if err != nil || len(vs) != len(HPLMetrics) {
		t.Fatalf("%v, %v", vs, err)
	}
	for i, want := range []float64{1.628e9, 3.28, 0.0064451, 2000, 80, 1, 2} {
		if vs[i].Value != want || vs[i].Metric != HPLMetrics[i].Name || vs[i].Unit != HPLMetrics[i].Unit {
			t.Errorf("%+v, want %v %s", vs[i], want, HPLMetrics[i].Unit)
		}
	}
	for _, c := range []struct{ from, to, want string }{
		{"0.0064451 ...... PASSED", "17.2 ...... FAILED", "residual is 17.2 (FAILED)"},
		{"0.0064451 ...... PASSED", "17.2 ...... PASSED", "must be below 16"},
		{"0.0064451 ...... PASSED", "nan ...... FAILED", "residual is nan"},
		{"0.0064451", "nan", "residual is nan"},
		{"2000    80", "1999    80", "another problem"},
		{"1.628e+00", "1.628e+01", "its time of 3.28 s says"},
		{"1.628e+00", "0.000e+00", "it says 0 flop/s"},
		{"WR11C2R4", "", "no row of HPL"},
		{"||Ax-b||", "", "no row of HPL"},
	} {
		text := strings.Replace(hplSection, c.from, c.to, 1)
		if text == hplSection {
			t.Fatalf("%q is not in the report", c.from)
		}
		if vs, err := s.read(text); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, %v, want %q", c.to, vs, err, c.want)
		}
	}
}

// fakeHPL puts an hpcc on the PATH that reads its problem and reports a residual, or
// does as script says, with an mpirun that starts it once and a linker that knows it.
func fakeHPL(t *testing.T, script string) {
	t.Helper()
	dir := t.TempDir()
	lib := filepath.Join(dir, "x86_64-linux-gnu", "blas")
	if err := os.MkdirAll(lib, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"hpcc":                               script,
		"mpirun":                             `if [ "$1" = --version ]; then echo "mpirun (Open MPI) 4.1.4"; exit; fi; while [ "$1" != hpcc ]; do shift; done; "$@"`,
		"ldd":                                `echo "	libblas.so.3 => ` + lib + `/libblas.so.3 (0x1)"; echo "	libmpi.so.40 => /lib/libmpi.so.40 (0x2)"`,
		"x86_64-linux-gnu/blas/libblas.so.3": "",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

const fakeSolution = `line() { sed -n "$1s/ .*//p" hpccinf.txt; }
n=$(line 6) b=$(line 8) p=$(line 11) q=$(line 12)
cat > hpccoutf.txt <<X
Begin of HPL section.
WR11C2R4 $n $b $p $q 0.01 1.5e+00
||Ax-b||_oo/(eps*(||A||_oo*||x||_oo+||b||_oo)*N)= RESIDUAL
End of HPL section.
X`

// solve has s solve its system.
func solve(t *testing.T, s *HPL) ([]result.Value, error) {
	t.Helper()
	r, err := s.Start(t.Context(), subject.Env{})
	if err != nil {
		return nil, err
	}
	run := r.(*subject.Working)
	defer func() {
		if err := run.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	if err := errors.Join(run.Ready(t.Context()), run.Begin()); err != nil {
		return nil, err
	}
	return run.Wait(t.Context())
}

// What is wrong with hpcc is one sentence, and its folder goes with it.
func TestHPLFails(t *testing.T) {
	before, _ := filepath.Glob(filepath.Join(inMemory(), "boxdyno-*"))
	for _, c := range []struct{ script, want string }{
		{strings.Replace(fakeSolution, "RESIDUAL", "0.003 ...... PASSED", 1), ""},
		{strings.Replace(fakeSolution, "RESIDUAL", "99 ...... FAILED", 1), "its solution is wrong"},
		{"echo no memory for a matrix >&2; exit 3", `exit code 3; it said "no memory for a matrix"`},
		{"echo > hpccoutf.txt", "no row of HPL"},
		{"kill -SEGV $$", "hpcc"},
	} {
		fakeHPL(t, c.script)
		s := &HPL{Order: 300, Block: 20, Rows: 2, Columns: 3, BLAS: SystemBLAS}
		if err := s.Check(t.Context(), &host.Local{}); err != nil {
			t.Fatal(err)
		}
		vs, err := solve(t, s)
		if (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, %v, want %q", c.script, vs, err, c.want)
		}
	}
	fakeHPL(t, strings.Replace(fakeSolution, "RESIDUAL", "99 ...... FAILED", 1))
	if err := NewHPL().Prove(t.Context(), &host.Local{}); err == nil || !strings.Contains(err.Error(), "its solution is wrong") {
		t.Errorf("proven: %v", err)
	}
	if after, _ := filepath.Glob(filepath.Join(inMemory(), "boxdyno-*")); len(after) > len(before) {
		t.Errorf("left: %v", after)
	}
}

func TestHPLIsRefused(t *testing.T) {
	fakeHPL(t, "exit 1")
	local := &host.Local{}
	for _, c := range []struct {
		s       HPL
		want    string
		missing bool
	}{
		{HPL{Order: 10, Block: 11, Rows: 1, Columns: 1, BLAS: SystemBLAS}, "larger than the matrix", false},
		{HPL{Order: 10, Block: 1, Columns: 1, BLAS: SystemBLAS}, "want 1 or more", false},
		{HPL{Order: 10_000_000, Block: 100, Rows: 1, Columns: 1, BLAS: SystemBLAS}, "takes 800000.0 GB", true},
		{HPL{Order: 10, Block: 5, Rows: 1, Columns: 1, BLAS: "mkl"}, `blas "mkl": want one of system, reference`, false},
	} {
		err := c.s.Check(t.Context(), local)
		var missing *host.Missing
		if err == nil || !strings.Contains(err.Error(), c.want) || errors.As(err, &missing) != c.missing {
			t.Errorf("%+v: %v, want %q", c.s, err, c.want)
		}
	}
	for object, want := range map[string]string{
		"/usr/lib/x86_64-linux-gnu/blas/libblas.so.3.11.0": "reference", "/usr/lib/arm-linux-gnueabihf/atlas/libblas.so.3.10.3": "atlas",
		"/usr/lib/x86_64-linux-gnu/openblas-pthread/libblas.so.3": "openblas", "/opt/vendor/libblas.so.3": "vendor",
	} {
		if got := blasName(object); got != want {
			t.Errorf("%s is %s, want %s", object, got, want)
		}
	}
	if k, err := blasNamed("atlas"); err != nil || k.folder("no-such-architecture") != "" {
		t.Errorf("%+v, %v", k, err)
	}
}

// hpcc itself solves a small system with every library that is installed.
func TestHPL(t *testing.T) {
	s := NewHPL()
	var missing *host.Missing
	if err := s.Check(t.Context(), &host.Local{}); errors.As(err, &missing) {
		t.Skip(missing)
	} else if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	s.Rows, s.Columns = 1, 2
	if err := s.Prove(ctx, &host.Local{}); err != nil {
		t.Error(err)
	}
	for _, name := range BLASNames() {
		s.BLAS = name
		of, err := s.Identify(ctx, &host.Local{})
		if errors.As(err, &missing) {
			continue
		}
		i := slices.IndexFunc(of, func(p result.Pair) bool { return p.Key == "linked_to" })
		if err != nil || i < 0 || !filepath.IsAbs(of[i].Value[strings.LastIndex(of[i].Value, " ")+1:]) || name != SystemBLAS && !strings.HasPrefix(of[i].Value, name+" ") {
			t.Errorf("%s: %v, %v", name, of, err)
		}
	}
}
