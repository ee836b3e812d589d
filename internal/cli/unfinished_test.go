// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"boxdyno/internal/testutil"
	"boxdyno/procedure"
	"boxdyno/result"
)

func TestInterruptKeepsTheRun(t *testing.T) {
	testutil.NoLeaks(t)
	ctx, cancel := context.WithCancel(context.Background())
	n := 0
	trial := func(ctx context.Context, env *procedure.Env) (procedure.Outcome, error) {
		for i := range 2 {
			if _, err := env.Trial(ctx, nil, func(ctx context.Context) (procedure.Outcome, error) {
				if n++; n == 2 {
					cancel()
					<-ctx.Done()
					return procedure.Outcome{}, ctx.Err()
				}
				return procedure.Outcome{Status: result.Passed, Reason: fmt.Sprint(i)}, nil
			}); err != nil {
				return procedure.Outcome{}, fmt.Errorf("trial: %w", err)
			}
		}
		return procedure.Outcome{Status: result.Passed}, nil
	}
	c := scripted(trial)
	dir := filepath.Join(t.TempDir(), "run")
	code, out, errw := call(ctx, c, "run", "probe", "--out", dir)
	if code != exitInterrupted || out != "" || !strings.Contains(errw, "run --resume "+dir) {
		t.Fatalf("exit code %d, %q, %q", code, out, errw)
	}
	code, _, errw = call(context.Background(), c, "run", "--resume", dir)
	if code != exitOK || n != 3 {
		t.Errorf("resumed: exit code %d, %d trials in all, want 3: %s", code, n, errw)
	}
	_, recs, err := result.Open(dir)
	if err != nil || len(recs) != 3 {
		t.Errorf("%d records, %v", len(recs), err)
	}
	code, _, errw = call(context.Background(), c, "run", "--resume", dir)
	if code != exitOK || n != 3 {
		t.Errorf("resumed once more: %d, %d trials: %s", code, n, errw)
	}
}

// A disk that is full stops the run with one sentence, and keeps what fits.
func TestFullDisk(t *testing.T) {
	if !alone(t) {
		return
	}
	dir := filepath.Join(t.TempDir(), "run")
	c := scripted(func(ctx context.Context, env *procedure.Env) (procedure.Outcome, error) {
		smallFiles(t, 10)
		return procedure.Outcome{Status: result.Passed}, nil
	})
	code, _, errw := call(context.Background(), c, "--quiet", "run", "probe", "--out", dir)
	if code != exitOther || !strings.Contains(errw, "file too large") || !strings.Contains(errw, "--resume "+dir) || strings.Count(errw, "\n") != 1 {
		t.Errorf("exit code %d, %q", code, errw)
	}
}

// alone says whether this process runs only this test. If not, it runs the test in one that
// does: what a test changes of its process reaches neither others nor go test's own files.
func alone(t *testing.T) bool {
	const name = "BOXDYNO_TEST_ALONE"
	if os.Getenv(name) == t.Name() {
		return true
	}
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), name+"="+t.Name())
	if out, err := cmd.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("--- PASS: "+t.Name())) {
		t.Errorf("%v\n%s", err, out)
	}
	return false
}

// smallFiles lets no file of this process grow beyond n octets until the test ends: what
// is written then fails in the middle, as on a full disk.
func smallFiles(t *testing.T, n uint64) {
	var old syscall.Rlimit
	err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old)
	if err == nil {
		err = syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: n, Max: old.Max})
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Setrlimit(syscall.RLIMIT_FSIZE, &old) })
}

func TestInterruptedAtOnce(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	c := scripted(nil)
	dir := filepath.Join(t.TempDir(), "run")
	code, out, errw := call(ctx, c, "run", "probe", "--out", dir)
	if code != exitInterrupted || out != "" || strings.Count(errw, "interrupted") != 1 {
		t.Errorf("%d %q %q", code, out, errw)
	}
}
