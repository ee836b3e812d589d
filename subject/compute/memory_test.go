// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"boxdyno/host"
	"boxdyno/internal/testutil"
	"boxdyno/result"
	"boxdyno/subject"
)

// memoryOf is a subject of little memory, whose programs are made in the test's folder.
func memoryOf(t *testing.T, name string) *Memory {
	t.Helper()
	for _, s := range MemorySpecs() {
		if s.Name == name {
			m := s.New().(*Memory)
			m.Size, m.For = 1<<20, 5*time.Millisecond
			return m
		}
	}
	t.Fatalf("no subject %s", name)
	return nil
}

// Each program proves itself, and what it prints when it is timed is a figure of the
// metrics that are declared.
func TestMemory(t *testing.T) {
	testutil.NoLeaks(t)
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	for _, spec := range MemorySpecs() {
		m := memoryOf(t, spec.Name)
		var missing *host.Missing
		if err := m.Check(t.Context(), &host.Local{}); errors.As(err, &missing) {
			t.Skip(missing)
		} else if err != nil {
			t.Fatal(err)
		}
		if err := m.Prove(t.Context(), &host.Local{}); err != nil {
			t.Errorf("%s: %v", spec.Name, err)
		}
		of, err := m.Identify(t.Context(), &host.Local{})
		if bits := result.Get(of, "bits"); err != nil || bits != "64" && bits != "32" || result.Get(of, "flags") != "-O3" {
			t.Errorf("%s is %v, %v", spec.Name, of, err)
		}
		r, err := m.Start(t.Context(), subject.Env{})
		if err != nil {
			t.Fatal(err)
		}
		run := r.(*subject.Working)
		if err := errors.Join(run.Ready(t.Context()), run.Begin()); err != nil {
			t.Fatal(err)
		}
		vs, err := run.Wait(t.Context())
		if err != nil || len(vs) == 0 {
			t.Fatalf("%s: %v, %v", spec.Name, vs, err)
		}
		for _, v := range vs {
			declared := false
			for _, d := range spec.Metrics {
				declared = declared || d.Name == v.Metric && d.Unit == v.Unit
			}
			if !declared || v.Value <= 0 {
				t.Errorf("%s: %+v is not declared, or no figure", spec.Name, v)
			}
		}
		if err := run.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	}
}

// What programs printed on an amd64 machine, and what one of 32 bits printed there.
const (
	bandwidth64 = `{"bits": 64, "locked": 2000000000, "lock": {"seconds": 4.862848893}, "write": {"passes": 2, "seconds": 0.897758136}, "read": {"passes": 1, "seconds": 0.533684914, "sum": "8680820740566259584"}, "first_copy": {"sum": "3769165734319560736", "placed": "8475172825200853984"}, "copy": {"passes": 3, "seconds": 0.658682710, "sum": "3769165734444560736", "placed": "8482985325263353984"}}`
	bandwidth32 = `{"bits": 32, "locked": 1048576, "lock": {"seconds": 0.000302659}, "write": {"passes": 266, "seconds": 0.005017735}, "read": {"passes": 66, "seconds": 0.005037220, "sum": "1818230784"}, "first_copy": {"sum": "200549156781457408", "placed": "56623644829908992"}, "copy": {"passes": 449, "seconds": 0.005007641, "sum": "200549156781522944", "placed": "56623646977425408"}}`
	latency64   = `{"bits": 64, "lines": 17039360, "seen": 17039360, "loads": 107520, "seconds": 0.101382635, "end": 7952014, "right_end": 7952014}`
	stream64    = `{"bits": 64, "size": 272629760, "copy": 0.047834629, "scale": 0.071990686, "add": 0.137624485, "triad": 0.104473468, "wrong": [0, 0, 0]}`
)

// The sums of what was read and copied are those that it must have, of words of either
// width; where they are not, there is no figure.
func TestMemoryIsChecked(t *testing.T) {
	for _, c := range []struct {
		program, text string
		size          int64
		metric        string
		value         float64
	}{
		{"memory-bandwidth", bandwidth64, 2_000_000_000, "memory_write_rate", 4e9 / 0.897758136},
		{"memory-bandwidth", bandwidth64, 2_000_000_000, "memory_copy_rate", 3e9 / 0.658682710},
		{"memory-bandwidth", bandwidth32, 1 << 20, "locked_bytes", 1 << 20},
		{"memory-latency", latency64, 1090519040, "load_latency_s", 0.101382635 / 107520},
		{"memory-stream", stream64, 272629760, "stream_triad_rate", 3 * 272629760 / 0.104473468},
	} {
		vs, err := memoryOf(t, c.program).read(c.text, c.size)
		if err != nil {
			t.Errorf("%s: %v", c.program, err)
			continue
		}
		seen := false
		for _, v := range vs {
			seen = seen || v.Metric == c.metric && v.Value > c.value*0.999999 && v.Value < c.value*1.000001
		}
		if !seen {
			t.Errorf("%s: no %s of %g in %v", c.program, c.metric, c.value, vs)
		}
	}
	for _, c := range []struct {
		program, text, from, to, want string
		size                          int64
	}{
		{"memory-bandwidth", bandwidth64, "8680820740566259584", "8680820740566259585", "was not read again", 2_000_000_000},
		{"memory-bandwidth", bandwidth64, "8482985325263353984", "8482985325263353985", "the copy is not what was copied", 2_000_000_000},
		{"memory-bandwidth", bandwidth64, "3769165734319560736", "0", "the copy is not what was copied", 2_000_000_000},
		{"memory-bandwidth", bandwidth64, `"locked": 2`, `"locked": 1`, "no figure", 2_000_000_000},
		{"memory-latency", latency64, `"seen": 17039360`, `"seen": 4000`, "came back to its first line after 4000 of 17039360", 1090519040},
		{"memory-latency", latency64, `"end": 7952014,`, `"end": 7,`, "ended on another line", 1090519040},
		{"memory-stream", stream64, "[0, 0, 0]", "[0, 1e-6, 0]", "array b of STREAM holds something else", 272629760},
		{"memory-stream", stream64, `"triad": 0.104473468`, `"triad": 0`, "no figure", 272629760},
		{"memory-stream", stream64, stream64, "Segmentation", "no figure", 272629760},
	} {
		text := strings.Replace(c.text, c.from, c.to, 1)
		if vs, err := memoryOf(t, c.program).read(text, c.size); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, %v, want %q", text, vs, err, c.want)
		}
	}
}

// A sum that is computed word by word is the one of the formula.
func TestCopiedSums(t *testing.T) {
	for _, n := range []uint64{0, 1, 2, 3, 1000, 4097} {
		for _, first := range []uint64{0, 1, 2, 1 << 63} {
			var want copied
			for i := range n {
				word := first + i*copyStep
				want.Sum += word
				want.Placed += word * (i + 1)
			}
			if got := copiedSums(n, first); got != want {
				t.Errorf("%d words from %d: %+v, want %+v", n, first, got, want)
			}
		}
	}
}

// Memory that cannot be had is a sentence with what there is, and with the remedy.
func TestMemoryThatCannotBeHad(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	var missing *host.Missing
	m := memoryOf(t, "memory-bandwidth")
	_, err := m.made().Program(t.Context(), &host.Local{})
	if errors.As(err, &missing) {
		t.Skip(missing)
	} else if err != nil {
		t.Fatal(err)
	}
	m.Size = 1 << 45
	if err := m.Check(t.Context(), &host.Local{}); !errors.As(err, &missing) || !strings.Contains(err.Error(), "a locked buffer: 35.2 TB is needed") || !strings.Contains(err.Error(), "a smaller --set size") {
		t.Errorf("more than there is: %v", err)
	}
	m.Size = 2000
	if err := m.Check(t.Context(), &host.Local{}); err == nil || !strings.Contains(err.Error(), "want 4096 octets") {
		t.Errorf("too little: %v", err)
	}
	shell := func(m *Memory, limit string, more ...string) (string, error) {
		program, err := m.made().Program(t.Context(), &host.Local{})
		if err != nil {
			return "", err
		}
		out, err := (&host.Local{}).Run(t.Context(), "", append(more, "sh", "-c", limit+"; exec "+program+" "+fmt.Sprint(m.Size)+" 0")...)
		return string(out), err
	}
	walk := memoryOf(t, "memory-latency")
	walk.Size, m.Size = 64<<20, 64<<20
	said, err := shell(walk, "ulimit -v 40000")
	if err != nil {
		t.Fatal(err)
	}
	if err := walk.refused(said); !errors.As(err, &missing) || !strings.Contains(err.Error(), "the kernel refused 71.3 MB") || !strings.Contains(err.Error(), "could have in one piece is 3") {
		t.Errorf("with addresses for 40 MB: %v", err)
	}
	if os.Geteuid() == 0 {
		said, err = shell(m, "ulimit -l 2048", "setpriv", "--bounding-set", "-ipc_lock", "--inh-caps", "-ipc_lock")
	} else {
		said, err = shell(m, "ulimit -l 2048")
	}
	if err != nil {
		t.Skipf("a program could not be kept from locking memory: %v", err)
	}
	if err := m.refused(said); !errors.As(err, &missing) || !strings.Contains(err.Error(), "may lock 2.10 MB (RLIMIT_MEMLOCK)") || !strings.Contains(err.Error(), "ulimit -l 65536") {
		t.Errorf("with 2 MiB to lock: %v", err)
	}
}

// What a program of 32 bits cannot have is said to be so, and is no missing prerequisite.
// Its lines are of programs of 32 bits with addresses for 3 GiB.
func TestMemoryOf32Bits(t *testing.T) {
	var missing *host.Missing
	m := memoryOf(t, "memory-bandwidth")
	m.Size = 3_500_000_000
	err := m.refused(`{"refused": "Cannot allocate memory", "bits": 32, "greatest": 2932867072, "allowed": 8388608}`)
	if errors.As(err, &missing) || err == nil || !strings.Contains(err.Error(), "a 32-bit program cannot lock 3.50 GB") || !strings.Contains(err.Error(), "could lock 2.93 GB in one piece") {
		t.Errorf("with 32 bits: %v", err)
	}
	s := memoryOf(t, "memory-stream")
	s.Size = 1_090_519_040
	if err := s.refused(`{"refused": "Cannot allocate memory", "bits": 32, "greatest": 1073741824, "allowed": 8388608}`); err == nil || !strings.Contains(err.Error(), "cannot have 3.27 GB in pieces of up to 1.09 GB") {
		t.Errorf("STREAM with 32 bits: %v", err)
	}
	if err := m.refused(`{"bits": 64}`); err != nil {
		t.Errorf("not refused: %v", err)
	}
}
