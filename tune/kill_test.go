// SPDX-License-Identifier: Apache-2.0

package tune

import (
	"bufio"
	"context"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"boxdyno/internal/snapshot"
)

// TestMain is also the process that TestKilled kills: it applies and reverts, again and
// again, until it is.
func TestMain(m *testing.M) {
	if path := os.Getenv("TUNE_VICTIM"); path != "" {
		victim(path, os.Getenv("TUNE_JOURNALS"))
	}
	os.Exit(m.Run())
}

func victim(path, dir string) {
	tb := &testing.B{} // only to fail by
	tn, on := onVeth(tb, dir, path)
	r := recipeOf(tb, vethSteps)
	os.Stdout.WriteString("begun\n")
	for {
		a, _, err := tn.Apply(context.Background(), r, on, Options{By: "victim"})
		if err == nil {
			_, err = a.Revert(context.Background(), Revert{})
		}
		if err != nil {
			os.Stderr.WriteString(err.Error() + "\n")
			os.Exit(1)
		}
	}
}

// A process that is killed at any moment of apply and revert leaves what the next one
// puts back, byte for byte, in a real namespace.
func TestKilled(t *testing.T) {
	const kills = 8
	path := veth(t)
	dir := t.TempDir()
	before := snap(t, path)
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 0))
	amid := 0
	for i := range kills {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "TUNE_VICTIM="+path, "TUNE_JOURNALS="+dir)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(random.Int64N(int64(300 * time.Millisecond))))
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
			t.Fatalf("the victim ended by itself: %v", err)
		}
		left, _ := filepath.Glob(dir + "/*")
		changed := len(snapshot.Diff(before, snap(t, path)))
		if len(left) > 0 {
			amid++
		}
		tn, _ := onVeth(t, dir, path)
		notes, err := tn.Recover(t.Context(), nil)
		if err != nil {
			t.Errorf("kill %d, seed %d: %v", i, seed, err)
		}
		for _, d := range snapshot.Diff(before, snap(t, path)) {
			t.Errorf("kill %d, seed %d: left: %s", i, seed, d)
		}
		if again, _ := filepath.Glob(dir + "/*"); len(again) > 0 {
			t.Errorf("kill %d, seed %d: journals are left: %v", i, seed, again)
		}
		t.Logf("kill %d: %d settings differed; %s", i, changed, strings.Join(notes, "; "))
	}
	if amid == 0 {
		t.Errorf("seed %d: no kill of %d met a journal", seed, kills)
	}
}
