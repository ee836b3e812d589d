// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"boxdyno/host"
	"boxdyno/result"
	"boxdyno/subject"
)

// sevenZipRow is of 7-Zip 26.02 on a virtual machine.
const sevenZipRow = `Dict     Speed Usage    R/U Rating  |      Speed Usage    R/U Rating
         KiB/s     %   MIPS   MIPS  |      KiB/s     %   MIPS   MIPS

18:       3103    34   8118   2765  |      16703    34   3962   1351
----------------------------------  | ------------------------------
Avr:      3103    34   8118   2765  |      16703    34   3962   1351
Tot:              34   6040   2058
`

func TestParseSevenZip(t *testing.T) {
	vs, err := parseSevenZip(sevenZipRow, 18)
	if err != nil || len(vs) != 2 || vs[0].Metric != "compress_ips" || vs[0].Value != 2765e6 || vs[1].Value != 1351e6 {
		t.Errorf("%v, %v", vs, err)
	}
	for _, bad := range []string{"", "18: 1 2 3", "18: 1 2 3 0 | 1 2 3 4", "18: 1 2 3 x | 1 2 3 4"} {
		if vs, err := parseSevenZip(bad, 18); err == nil {
			t.Errorf("%q is %v", bad, vs)
		}
	}
}

// A benchmark whose variables hold something else than they should has no figures.
func TestSyntheticIsChecked(t *testing.T) {
	for _, b := range []benchmark{dhrystone, whetstone} {
		s := newSynthetic(b)
		vs, err := s.read(`{"runs": 3000, "seconds": 2, "values": "` + b.right + `"}`)
		if err != nil || vs[0].Value != map[string]float64{"dhrystone": 1500, "whetstone": 1.5e9}[b.name] {
			t.Errorf("%s: %v, %v", b.name, vs, err)
		}
		if _, err := s.read(`{"runs": 3000, "seconds": 2, "values": "` + b.right + ` 1"}`); err == nil || !strings.Contains(err.Error(), "computed something else") {
			t.Errorf("%s: %v", b.name, err)
		}
		for _, bad := range []string{"", "{}", `{"runs": 1, "seconds": 0}`} {
			if _, err := s.read(bad); err == nil {
				t.Errorf("%s: %q is a figure", b.name, bad)
			}
		}
	}
}

// Every subject that computes passes its known answer, and has figures of the metrics
// that its row declares.
func TestComputing(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	for _, spec := range CPUSpecs() {
		t.Run(spec.Name, func(t *testing.T) {
			w := spec.New().(subject.Worker)
			switch s := w.(type) {
			case *Synthetic:
				s.For = 50 * time.Millisecond
			case *SevenZip:
				s.Dictionary = 18
			}
			var missing *host.Missing
			if err := w.Check(t.Context(), &host.Local{}); errors.As(err, &missing) {
				t.Skip(missing)
			} else if err != nil {
				t.Fatal(err)
			}
			if err := w.Prove(t.Context(), &host.Local{}); err != nil {
				t.Error(err)
			}
			of, err := w.Identify(t.Context(), &host.Local{})
			if err != nil || len(of) == 0 || of[0].Value == "" {
				t.Errorf("it is %v, %v", of, err)
			}
			if spec.Name == "7-zip" || spec.Name == "stress-vecfp" || spec.Name == "stress-vecmath" {
				return // their parsers have tests; a pass takes long
			}
			r, err := w.Start(t.Context(), subject.Env{})
			if err != nil {
				t.Fatal(err)
			}
			run := r.(*subject.Working)
			defer func() {
				if err := run.Stop(context.Background()); err != nil {
					t.Error(err)
				}
			}()
			if err := errors.Join(run.Ready(t.Context()), run.Begin()); err != nil {
				t.Fatal(err)
			}
			vs, err := run.Wait(t.Context())
			if err != nil || len(vs) == 0 {
				t.Fatalf("%v, %v", vs, err)
			}
			for _, v := range vs {
				declared := false
				for _, m := range spec.Metrics {
					declared = declared || m.Name == v.Metric && m.Unit == v.Unit
				}
				if !declared || v.Value < 0 {
					t.Errorf("%+v is not declared, or no figure", v)
				}
			}
			if u, err := run.Usage(); err != nil || u.CPU <= 0 {
				t.Errorf("%+v, %v", u, err)
			}
		})
	}
}

// The figure of a Synthetic is of the flags that it says, and without a compiler there
// is a remedy.
func TestSyntheticIsCompiledHere(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	var missing *host.Missing
	s := newSynthetic(dhrystone)
	if err := s.Check(t.Context(), &host.Local{}); errors.As(err, &missing) {
		t.Skip(missing)
	} else if err != nil {
		t.Fatal(err)
	}
	two, _ := s.made().Program(t.Context(), &host.Local{})
	// What a killed process left while it compiled.
	info, err := os.Stat("/proc/self/ns/pid")
	if err != nil {
		t.Fatal(err)
	}
	stale := fmt.Sprintf("boxdyno-4194305-1-%d-left", info.Sys().(*syscall.Stat_t).Ino)
	if err := os.MkdirAll(filepath.Join(cache, "boxdyno", "subjects", stale, "dir"), 0o755); err != nil {
		t.Fatal(err)
	}
	s.Optimise = "O0"
	none, err := s.made().Program(t.Context(), &host.Local{})
	if err != nil || none == two {
		t.Errorf("%s and %s, %v", none, two, err)
	}
	of, _ := s.Identify(t.Context(), &host.Local{})
	if result.Get(of, "flags") != "-O0" || result.Get(of, "compiler") == "" {
		t.Errorf("%v", of)
	}
	left, _ := os.ReadDir(cache + "/boxdyno/subjects")
	if len(left) != 2 {
		t.Errorf("the store has %v", left)
	}
	s.Optimise = "O9"
	if err := s.Check(t.Context(), &host.Local{}); err == nil || !strings.Contains(err.Error(), "O0, O1, O2, O3") {
		t.Errorf("%v", err)
	}
	t.Setenv("PATH", t.TempDir())
	s.Optimise = "O2"
	if err := s.Check(t.Context(), &host.Local{}); !errors.As(err, &missing) || !strings.Contains(err.Error(), "apt-get install -y gcc") {
		t.Errorf("without a compiler: %v", err)
	}
}
