// SPDX-License-Identifier: Apache-2.0

package disk

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"boxdyno/host"
)

// aZram is a disk of zram, of 1 MiB; the test is skipped where there can be none.
func aZram(t *testing.T) *Disk {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root for block devices: run it as root")
	}
	d, err := NewZram(1 << 20)
	var m *host.Missing
	if errors.As(err, &m) {
		t.Skip(m)
	}
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// holdsZram is the variable of a process of this test binary that makes a disk and is
// killed.
const holdsZram = "BOXDYNO_HOLDS_ZRAM"

func holdZram(d *Disk) {
	fmt.Println("holds", d.Path)
	time.Sleep(time.Minute)
	os.Exit(1)
}

// zramOf starts such a process in a test, and is its disk and what kills it.
func zramOf(t *testing.T, test, what string) (path string, stop func()) {
	t.Helper()
	c := exec.Command(os.Args[0], "-test.run="+test)
	c.Env = append(os.Environ(), holdsZram+"="+what)
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	stop = func() { _ = c.Process.Kill(); _ = c.Wait() }
	said := ""
	for lines := bufio.NewScanner(out); path == "" && lines.Scan(); {
		path, _ = strings.CutPrefix(lines.Text(), "holds ")
		if path == lines.Text() {
			said, path = said+path+"\n", ""
		}
	}
	if _, err := os.Stat(path); err != nil {
		stop()
		t.Fatalf("%v: %s", err, said)
	}
	return path, stop
}

func awaitNoZram(t *testing.T, path string) {
	t.Helper()
	for late := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		_, device := os.Stat(path)
		_, lock := os.Stat(zramLocks + strings.TrimPrefix(path, "/dev/zram"))
		if device != nil && lock != nil {
			return
		}
		if time.Now().After(late) {
			t.Fatalf("%s or its lock is there 30 s after its process was killed", path)
		}
	}
}

// A process that is killed leaves no zram disk.
func TestZramGoesWithTheProcess(t *testing.T) {
	if os.Getenv(holdsZram) != "" {
		holdZram(aZram(t))
	}
	if err := aZram(t).Close(); err != nil {
		t.Fatal(err)
	}
	path, stop := zramOf(t, "^TestZramGoesWithTheProcess$", "disk")
	stop()
	awaitNoZram(t, path)
}

// What a killed process left is removed, and a disk that has its name since is not.
func TestSweepZram(t *testing.T) {
	if err := aZram(t).Close(); err != nil {
		t.Fatal(err)
	}
	for _, other := range []bool{false, true} {
		text, err := os.ReadFile("/sys/class/zram-control/hot_add")
		if err != nil {
			t.Fatal(err)
		}
		n := strings.TrimSpace(string(text))
		name := "zram" + n
		was := sequence(name)
		if was == "" {
			t.Skip("needs a kernel that numbers its disks (Linux 5.15)")
		}
		if other {
			was += "0"
		}
		err = errors.Join(os.WriteFile(zramLocks+n, []byte(was), 0o600), sweepZram())
		_, here := os.Stat("/sys/block/" + name)
		if err != nil || (here == nil) != other {
			t.Errorf("a disk that is another's: %v; swept: %v, %v", other, here, err)
		}
		if _, err := os.Stat(zramLocks + n); err == nil {
			t.Errorf("%s is left", zramLocks+n)
		}
		if here == nil {
			if err := removeZram(n); err != nil {
				t.Error(err)
			}
		}
	}
	if left, _ := filepath.Glob(zramLocks + "*"); len(left) > 0 {
		t.Logf("of others: %v", left)
	}
}
