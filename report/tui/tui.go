// SPDX-License-Identifier: Apache-2.0

// Package tui is the terminal view of a machine that is watched: cores, ports,
// drops by place, heat, clock, power and memory, with how they went over time.
//
//	ticker -> Options.Look -> history (a step each half second) -> blocks -> screen
//
// It reads nothing of the machine itself: what it shows comes from Look.
package tui

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"time"

	tea "charm.land/bubbletea/v2"
	"golang.org/x/sys/unix"

	"boxdyno/internal/guard"
	"boxdyno/result"
	"boxdyno/unit"
)

const (
	lookEvery = 500 * time.Millisecond // a step of the history
	redraws   = 10                     // at most, a second
)

// Options say what is shown, and where.
type Options struct {
	Series  []result.Series
	Look    func() Look // called twice a second, from one goroutine at a time; its answer is not changed afterwards
	Machine string      // "raspberrypi, Raspberry Pi 5 Model B"
	Kernel  string      // "Linux 6.12.20 aarch64"
	Rate    float64     // samples a second, Hz
	ASCII   bool        // the terminal has no block elements

	Input, Output *os.File // a terminal
}

// A Look is what is known at one instant.
type Look struct {
	At       unit.Instant
	Batches  []result.Batch // what each collector read last, and when
	Gaps     int            // so far, as in result.Telemetry
	Longest  unit.Instant   // lateness of a sample
	CPU      time.Duration  // that this process has used so far
	Warnings []string       // so far
}

// Run shows o until the user quits, or ctx or the terminal ends, which are no
// failures. It leaves the terminal as it was, after a panic of o.Look or of its own
// too: that is an error.
func Run(ctx context.Context, o Options) error {
	ctx, hungUp := signal.NotifyContext(ctx, unix.SIGHUP)
	defer hungUp()
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	over := make(chan struct{})
	defer close(over)
	s := &screen{model: newModel(o), wait: func() tea.Msg {
		select {
		case <-ticker.C:
			return o.Look()
		case <-over:
			return nil
		}
	}}
	p := tea.NewProgram(s, tea.WithInput(o.Input), tea.WithOutput(o.Output), tea.WithFPS(redraws), tea.WithoutSignalHandler())
	defer guard.AfterDone(ctx, p.Quit)()
	_, err := p.Run()
	switch {
	case errors.Is(err, tea.ErrProgramPanic):
		return errors.New("a fault in boxdyno: the terminal view panicked")
	case err != nil && !errors.Is(err, unix.EIO): // EIO: the terminal is gone
		return fmt.Errorf("terminal view: %w", err)
	}
	return nil
}

// A screen is the model as bubbletea wants it. It is drawn anew once a column of the
// view is full, or when the user asks for something else: bubbletea asks for it far
// more often.
type screen struct {
	model *model
	wait  tea.Cmd
	drawn string
}

// Init implements tea.Model.
func (s *screen) Init() tea.Cmd {
	return func() tea.Msg { return s.model.o.Look() }
}

// Update implements tea.Model.
func (s *screen) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	var next tea.Cmd
	switch msg := msg.(type) {
	case Look:
		next = s.wait
		if !s.model.look(msg) {
			return s, next
		}
	case tea.WindowSizeMsg:
		s.model.width, s.model.height = msg.Width, msg.Height
	case tea.KeyPressMsg:
		switch key := msg.String(); key {
		case "q", "ctrl+c":
			return s, tea.Quit
		case "ctrl+z":
			return s, tea.Suspend
		default:
			s.model.press(key)
		}
	default:
		return s, nil
	}
	s.drawn = s.model.draw()
	return s, next
}

// View implements tea.Model.
func (s *screen) View() tea.View {
	v := tea.NewView(s.drawn)
	v.AltScreen = true
	v.WindowTitle = "boxdyno watch"
	return v
}
