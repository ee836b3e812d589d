// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"boxdyno/internal/guard"
)

// Several that write the same bundles at once come to the same as one.
func TestTwoWriters(t *testing.T) {
	each(t, func(t *testing.T, x *Index, where string) {
		runs := t.TempDir()
		for n := range 40 {
			keep(t, filepath.Join(runs, fmt.Sprint(n)), aRun(n, nil), aPoint("64", 1, float64(n)), aPoint("128", 1, float64(n)))
		}
		var all guard.Group
		errs := make([]error, 3)
		for i := range errs {
			y := open(t, where)
			all.Go(func() {
				_, errs[i] = y.Update(context.Background(), Scan{Dirs: []string{runs}, Judge: worst, Rebuild: i == 2})
			})
		}
		all.Wait()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		update(t, x, Scan{Again: true})
		if n := len(figures(t, x)); n != 160 || len(list(t, x, Filter{})) != 40 {
			t.Errorf("%d figures, %d runs", n, len(list(t, x, Filter{})))
		}
	})
}

// indexUntilKilled is what TestKilled kills.
func indexUntilKilled(dir string) {
	x, err := Open(context.Background(), os.Getenv("BOXDYNO_TEST_WHERE"))
	if err != nil {
		panic(err)
	}
	for {
		if _, err := x.Update(context.Background(), Scan{Dirs: []string{dir}, Judge: worst, Rebuild: true}); err != nil {
			panic(err)
		}
	}
}

// What SIGKILL leaves is whole bundles; the next Update completes it.
func TestKilled(t *testing.T) {
	each(t, func(t *testing.T, x *Index, where string) {
		runs := t.TempDir()
		for n := range 30 {
			keep(t, filepath.Join(runs, fmt.Sprint(n)), aRun(n, nil), aPoint("64", 1, float64(n)), aPoint("128", 1, float64(n)))
		}
		random := rand.New(rand.NewPCG(24, 1))
		for range 4 {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), "BOXDYNO_TEST_INDEX="+runs, "BOXDYNO_TEST_WHERE="+where)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Duration(20+random.IntN(150)) * time.Millisecond)
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait()
			if n := len(figures(t, x)); n%4 != 0 {
				t.Errorf("%d figures, which are not those of whole bundles", n)
			}
		}
		update(t, x, Scan{Dirs: []string{runs}})
		if n := len(figures(t, x)); n != 120 || len(list(t, x, Filter{})) != 30 {
			t.Errorf("%d figures, %d runs", n, len(list(t, x, Filter{})))
		}
	})
}
