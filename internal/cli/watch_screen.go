// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"os"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"boxdyno/host"
	"boxdyno/report/tui"
	"boxdyno/result"
	"boxdyno/telemetry"
	"boxdyno/unit"
)

// screen is the terminal that a view may be drawn on, nil where standard output or
// standard input is none.
func (a *app) screen() *os.File {
	if terminalWidth(a.out) == 0 {
		return nil
	}
	if _, err := unix.IoctlGetTermios(int(os.Stdin.Fd()), unix.TCGETS); err != nil {
		return nil
	}
	return fileOf(a.out) // or it had no width
}

// show is the terminal view of what s reads.
func show(ctx context.Context, s *telemetry.Sampler, m result.Machine, rate float64, screen *os.File, said *warnings) error {
	machine := m.Name
	if m.Board != "" && m.Board != m.Name {
		machine += ", " + m.Board
	}
	begin := unit.Now()
	return tui.Run(ctx, tui.Options{
		Series: s.Series(), Machine: machine, Kernel: "Linux " + m.Kernel + " " + m.Machine, Rate: cmp.Or(rate, telemetry.DefaultRate), ASCII: !blockElements(os.Getenv),
		Look: func() tui.Look {
			user, system, _ := host.Own()
			l := tui.Look{At: unit.Now() - begin, Warnings: said.all(), CPU: user + system}
			l.Batches, l.Gaps, l.Longest = s.Look()
			return l
		},
		Input: os.Stdin, Output: screen,
	})
}

// blockElements says whether the terminal can show U+2581 to U+2588: the Linux
// console's fonts have few of them.
func blockElements(env func(string) string) bool {
	locale := strings.ToLower(cmp.Or(env("LC_ALL"), env("LC_CTYPE"), env("LANG")))
	return env("TERM") != "linux" && (strings.Contains(locale, "utf-8") || strings.Contains(locale, "utf8"))
}

// warnings are kept from the screen until it is given back.
type warnings struct {
	mu    sync.Mutex
	lines []string
}

func (w *warnings) add(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lines = append(w.lines, text)
}

func (w *warnings) all() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clip(w.lines)
}

func (w *warnings) tell(a *app) {
	for _, l := range w.all() {
		a.note("%s", l)
	}
}
