// SPDX-License-Identifier: Apache-2.0

package tui

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"boxdyno/internal/testutil"
	"boxdyno/result"
	"boxdyno/unit"
)

// However the view ends, the terminal is as it was, and nothing is left behind.
func TestTerminalIsRestored(t *testing.T) {
	t.Setenv("TERM", "xterm-256color")
	_, stop := signal.NotifyContext(t.Context(), os.Interrupt) // the runtime keeps a goroutine from the first one on
	stop()
	for _, c := range []struct {
		name, keys string
		cancel     bool
		panics     bool
		fails      string
	}{
		{name: "q", keys: "q"},
		{name: "Ctrl-C", keys: "\x03"},
		{name: "keys first", keys: "\t\x1b[B-+p?2pq"},
		{name: "the end of its time", cancel: true},
		{name: "a panic", panics: true, fails: "panicked"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.panics { // then bubbletea leaves its reader, and the process ends
				testutil.Unraced(t, "the reader that is left races with the end")
			} else {
				testutil.NoLeaks(t)
			}
			x := testutil.NewTerminal(t, 80, 24)
			before := x.State(t)
			o, looks := pi()
			o.Input, o.Output = x.File, x.File
			n := 0
			o.Look = func() Look {
				if n == 2 && c.panics {
					panic("made by the test")
				}
				n++
				return looks[n-1]
			}
			if c.panics { // bubbletea prints the stack
				stderr, err := unix.Dup(2)
				null := open(t, os.DevNull)
				if err := errors.Join(err, unix.Dup3(int(null.Fd()), 2, 0)); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() {
					if err := errors.Join(unix.Dup3(stderr, 2, 0), unix.Close(stderr), null.Close()); err != nil {
						t.Error(err)
					}
				})
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			done := make(chan error, 1)
			go func() { done <- Run(ctx, o) }()
			x.Await(t, 0, "Raspberry Pi 4")
			x.Await(t, 0, "Throttled")
			if x.State(t) == before {
				t.Error("the terminal is not in raw mode")
			}
			x.Type(t, c.keys)
			if c.cancel {
				cancel()
			}
			select {
			case err := <-done:
				if err == nil && c.fails != "" || err != nil && (c.fails == "" || !strings.Contains(err.Error(), c.fails)) {
					t.Errorf("it ended with %v", err)
				}
			case <-time.After(time.Minute):
				t.Fatal("it did not end")
			}
			if got := x.State(t); got != before {
				t.Errorf("the terminal was %+v and is %+v", before, got)
			}
			x.Await(t, 0, "\x1b[?1049l") // the main screen
			x.Await(t, strings.LastIndex(x.Written(), "\x1b[?25l"), "\x1b[?25h")
		})
	}
}

func open(t *testing.T, name string) *os.File {
	t.Helper()
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// Colour is not used where NO_COLOR is set, and is nowhere the only sign.
func TestNoColour(t *testing.T) {
	t.Setenv("TERM", "xterm-256color")
	const red = "\x1b[31"
	for _, no := range []string{"", "1"} {
		t.Setenv("NO_COLOR", no)
		x := testutil.NewTerminal(t, 80, 24)
		at := unit.Now()
		o := Options{Rate: 10, Input: x.File, Output: x.File, Series: []result.Series{lab("node_memory_MemTotal_bytes")}, Look: func() Look {
			return Look{At: unit.Now() - at, Warnings: []string{"a warning"}}
		}}
		done := make(chan error, 1)
		go func() { done <- Run(t.Context(), o) }()
		x.Await(t, 0, "! a warning")
		x.Type(t, "q")
		if err := <-done; err != nil {
			t.Error(err)
		}
		if got := strings.Contains(x.Written(), red); got != (no == "") {
			t.Errorf("with NO_COLOR=%q it was red: %v\n%q", no, got, x.Written())
		}
	}
}
