// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"boxdyno/result"
	"boxdyno/runner"
)

// A FIFO that nobody writes to is refused wherever a file is named; nothing waits for it.
func TestFIFOsAreRefused(t *testing.T) {
	dir := t.TempDir()
	state := filepath.Join(dir, "state")
	t.Setenv("XDG_STATE_HOME", state)
	fifo, bundle, journals := filepath.Join(dir, "fifo.yaml"), filepath.Join(dir, "bundle"), filepath.Join(state, "boxdyno", "tune")
	journal := filepath.Join(journals, "00000000000000000001-1.journal")
	err := errors.Join(os.Mkdir(bundle, 0o755), os.MkdirAll(journals, 0o755))
	for _, name := range []string{fifo, filepath.Join(bundle, result.RunFile), journal} {
		err = errors.Join(err, unix.Mkfifo(name, 0o644))
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range []string{
		"run " + fifo + " --dry-run",
		"qualify " + fifo + " --dry-run",
		"run forward --lab mem --dry-run --tune " + fifo,
		"run ids --dry-run --set rules_file=" + fifo,
		"tune status",
		"tune show " + fifo,
		"replay -i lo " + fifo,
		"send -i lo --templates " + fifo,
		"report " + bundle,
		"compare " + bundle + " " + bundle,
		"run --resume " + bundle,
	} {
		said := make(chan string, 1)
		go func() {
			code, _, errw := call(context.Background(), runner.Plugins(), strings.Fields(args)...)
			if code == exitOK && args != "tune status" {
				errw = "exit code 0"
			}
			said <- errw
		}()
		select {
		case s := <-said:
			if !strings.Contains(s, "it is not a regular file") {
				t.Errorf("%s: %q", args, s)
			}
		case <-time.After(10 * time.Second):
			t.Errorf("%s: it hangs", args)
		}
	}
}
