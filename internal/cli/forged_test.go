// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"boxdyno/fleet/hub"
	"boxdyno/reference/sizing"
	"boxdyno/result"
	"boxdyno/runner"
)

// What a run or a board says of itself makes no line, no cell of a list of its own, and no
// formula.
func TestForgedLines(t *testing.T) {
	state := t.TempDir()
	t.Setenv("XDG_STATE_HOME", state)
	const forged = "pi5\nforged\tforward\tpi5"
	b, err := result.Create(filepath.Join(state, "boxdyno", "runs", "evil"), result.Run{Schema: result.Schema, ID: "evil", Kind: "real", Box: forged, Start: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)})
	if err == nil {
		err = b.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	code, out, errw := call(t.Context(), runner.Plugins(), "runs")
	if lines := strings.Split(strings.TrimSpace(out), "\n"); code != exitOK || len(lines) != 2 || !strings.Contains(lines[1], "pi5 forged forward pi5") {
		t.Errorf("exit code %d\n%s%s", code, out, errw)
	}
	var boards bytes.Buffer
	a := &app{out: &boards}
	if err := a.printBoards([]hub.Entry{{Board: hub.Board{Name: "pi"}, Version: forged, Arch: forged, Why: forged}}, []hub.Stranger{{From: "x", Why: forged}}, time.Now()); err != nil {
		t.Fatal(err)
	}
	if lines := strings.Split(strings.TrimSpace(boards.String()), "\n"); len(lines) != 3 {
		t.Errorf("%s", boards.String())
	}
	var cells bytes.Buffer
	if err := sizeCSV(&cells, sizing.Result{Rows: []sizing.Row{{Candidate: sizing.Candidate{Name: "=HYPERLINK(1)"}}}}); err != nil || !strings.Contains(cells.String(), "\n'=HYPERLINK(1),") {
		t.Errorf("%v: a formula in %s", err, cells.String())
	}
}
