// SPDX-License-Identifier: Apache-2.0

package testutil

import (
	"os"
	"path/filepath"
	"testing"
)

// fakeStress is a stress-ng of a class with a stressor for each way to end.
const fakeStress = `#!/bin/sh
case "$1" in
--version) echo "stress-ng, version 9.9.9 (fake)"; exit;;
--stressors) echo "fails good hangs idle refused uprobe"; exit;;
--class) echo "class 'cpu' stressors: fails good hangs idle refused uprobe"; exit;;
--hangs) trap '' INT TERM; sleep 1000 & sleep 1000 & echo $! >> "$FAKE_PIDS"; wait; wait; wait; exit;;
--fails) echo "stress-ng: fail:  [7] fails: 2 is not 3" >&2; exit 2;;
--refused) echo "stress-ng: info:  [7] refused stressor will be skipped, it does not like it here" >&2; exit 0;;
--uprobe) echo "stress-ng: info:  [7] uprobe: cannot set uprobe_event: errno=2" >&2; exit 3;;
esac
touch left-behind
ops=40; [ "$1" = --idle ] && ops=0
printf -- '---\n\nmetrics:\n    - stressor: x\n      bogo-ops: %s\n      bogo-ops-per-second-real-time: 20.5\n\n...\n' $ops
`

// FakeStress puts a made-up stress-ng before all programs, and its temporary files into a
// folder of their own. It has a stressor for each way to end; FAKE_PIDS names the file with
// the processes of the one that hangs.
func FakeStress(t testing.TB) (temporary string) {
	t.Helper()
	dir, temporary := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "stress-ng"), []byte(fakeStress), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	t.Setenv("TMPDIR", temporary)
	t.Setenv("FAKE_PIDS", filepath.Join(dir, "pids"))
	return temporary
}
