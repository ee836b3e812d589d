// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"boxdyno/subject/internal/program"
)

// A file is read as it grows; a line without its end, and one that is far too long, are
// none.
func TestTail(t *testing.T) {
	dir := t.TempDir()
	var got []string
	var last Told
	log := LogFile{Name: "x.log", Said: func(string) Told { return Nothing }}
	tails, err := openTails(dir, []LogFile{log})
	if err != nil {
		t.Fatal(err)
	}
	defer tails[0].file.Close()
	if _, err := openTails(dir, []LogFile{log}); err == nil {
		t.Error("a file that is there is taken")
	}
	f, err := os.OpenFile(filepath.Join(dir, "x.log"), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	step := func(text string) {
		t.Helper()
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
		if more, err := tails[0].read(func(s Told, line string) { got, last = append(got, line), s }, tailMost); more || err != nil {
			t.Error(more, err)
		}
	}
	step("a\n\nb")
	step("c\nd")
	if strings.Join(got, ",") != "a,bc" {
		t.Errorf("%q", got)
	}
	step("\n" + strings.Repeat("x", 3*program.LongestLine))
	if !last.Garbage || len(got) != 4 || len(tails[0].rest) > program.LongestLine {
		t.Errorf("%d lines, the last %+v", len(got), last)
	}
	step("y\nlast\n")
	if len(got) != 5 || got[4] != "last" {
		t.Errorf("%q", got[len(got)-1])
	}
	if err := os.Remove(filepath.Join(dir, "x.log")); err != nil {
		t.Fatal(err)
	}
	step("after its folder\n")
	if got[len(got)-1] != "after its folder" {
		t.Errorf("%q", got[len(got)-1])
	}
	if _, err := f.WriteString(strings.Repeat("0123456\n", 1<<14)); err != nil {
		t.Fatal(err)
	}
	got = nil
	if more, err := tails[0].read(func(s Told, line string) { got = append(got, line) }, tailRead); !more || err != nil || len(got) != tailRead/8 {
		t.Errorf("%d lines, %v, %v", len(got), more, err)
	}
}
