// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"boxdyno/internal/guard"
)

// Interruptible returns a context that Ctrl-C, SIGTERM and the end of the terminal
// (SIGHUP, unless it is ignored as nohup does) end. Commands then put back what they
// changed. A second signal kills.
func Interruptible(ctx context.Context) context.Context {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(ctx, signals...)
	guard.AfterDone(ctx, stop)
	return ctx
}

// writePatience is how long somebody may take to read what is printed once the command
// is interrupted.
const writePatience = time.Second

var errUnread = errors.New("nobody reads what is printed")

// A patient writer does not wait for its reader once ctx has ended: a pipe that is full,
// or a terminal that is stopped, must not keep a command from putting settings back.
type patient struct {
	ctx context.Context
	w   io.Writer

	mu   sync.Mutex
	gone bool
}

// fileOf is the file that w writes to; nil: it is none.
func fileOf(w io.Writer) *os.File {
	if p, ok := w.(*printer); ok {
		w = p.w
	}
	if p, ok := w.(*patient); ok {
		w = p.w
	}
	f, _ := w.(*os.File)
	return f
}

func (p *patient) Write(b []byte) (n int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone {
		return 0, errUnread
	}
	done := make(chan struct{})
	text := append([]byte(nil), b...) // the caller may change b once this has returned
	var wrote int
	var failed error
	guard.Go(func() {
		defer close(done)
		wrote, failed = guard.Writer(p.w).Write(text)
	})
	select {
	case <-done:
		return wrote, failed
	case <-p.ctx.Done():
	}
	select {
	case <-done:
		return wrote, failed
	case <-time.After(writePatience):
		p.gone = true
		return 0, errUnread
	}
}
