// SPDX-License-Identifier: Apache-2.0

// Package guard keeps a fault of this program in a goroutine from ending it before what
// it changed is put back. Goroutines begin here, and nowhere else.
package guard

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"sync"
	"time"
)

// A Fault is a panic as an error.
type Fault struct {
	Value any
	Stack []byte // of the goroutine that panicked
}

func (f *Fault) Error() string {
	return fmt.Sprintf("a fault of this program ended it (%v): report it with the command and the output of BOXDYNO_TRACE=1", f.Value)
}

var (
	mu       sync.Mutex
	watchers = map[*func(*Fault)]bool{}
)

// Watch has tell called with every fault until stop is called. While nobody watches, a
// fault ends the process, as panics do.
func Watch(tell func(*Fault)) (stop func()) {
	mu.Lock()
	defer mu.Unlock()
	watchers[&tell] = true
	return func() {
		mu.Lock()
		defer mu.Unlock()
		delete(watchers, &tell)
	}
}

func watching() (all []func(*Fault)) {
	mu.Lock()
	defer mu.Unlock()
	for tell := range watchers {
		all = append(all, *tell)
	}
	return all
}

// Call runs f. Those who watch are told of its panic, which is returned as a *Fault.
func Call(f func() error) (err error) {
	defer func() {
		all := watching()
		if len(all) == 0 {
			return
		}
		if v := recover(); v != nil {
			fault := Caught(v)
			for _, tell := range all {
				tell(fault)
			}
			err = fault
		}
	}()
	return f()
}

// Caught is the fault of what a deferred function has recovered. BOXDYNO_TRACE shows
// where it was.
func Caught(v any) *Fault {
	f := &Fault{Value: v, Stack: debug.Stack()}
	if os.Getenv("BOXDYNO_TRACE") != "" {
		os.Stderr.Write(f.Stack)
	}
	return f
}

// Go runs f in a goroutine of its own.
func Go(f func()) { go do(f) }

func do(f func()) {
	_ = Call(func() error { f(); return nil }) // those who watch know
}

// After runs f in a goroutine of its own once d has passed, as time.AfterFunc does.
func After(d time.Duration, f func()) *time.Timer {
	return time.AfterFunc(d, func() { do(f) })
}

// AfterDone runs f in a goroutine of its own once ctx has ended, as context.AfterFunc does.
func AfterDone(ctx context.Context, f func()) (stop func() bool) {
	return context.AfterFunc(ctx, func() { do(f) })
}

// Every runs f again and again, so often, until ctx ends.
func Every(ctx context.Context, often time.Duration, f func()) {
	t := time.NewTicker(often)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			f()
		}
	}
}

// Beside does as Every in a goroutine of its own, until stop, which waits for its end.
func Beside(ctx context.Context, often time.Duration, f func()) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var g Group
	g.Go(func() { Every(ctx, often, f) })
	return func() { cancel(); g.Wait() }
}

// A Group waits for goroutines. The zero Group is ready to use.
type Group struct{ all sync.WaitGroup }

// Go runs f in a goroutine that Wait waits for.
func (g *Group) Go(f func()) { g.all.Go(func() { do(f) }) }

// Wait returns once all have ended.
func (g *Group) Wait() { g.all.Wait() }

// Writer guards a writer that goroutines of others write to, such as os/exec's; a file
// and nil are returned as they are.
func Writer(w io.Writer) io.Writer {
	if _, ok := w.(*os.File); ok || w == nil {
		return w
	}
	return guarded{w}
}

type guarded struct{ w io.Writer }

func (g guarded) Write(b []byte) (n int, err error) {
	err = Call(func() (err error) {
		n, err = g.w.Write(b)
		return err
	})
	return n, err
}
