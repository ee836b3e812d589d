// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

type faulty struct{}

func (faulty) Write([]byte) (int, error) { panic("planted") }

// Whoever watches is told of a panic, wherever it was, with where that was.
func TestFaults(t *testing.T) {
	broken := func() { panic("planted") }
	for name, begin := range map[string]func(){
		"Go":   func() { Go(broken) },
		"Call": func() { _ = Call(func() error { broken(); return nil }) },
		"Group": func() {
			var g Group
			g.Go(broken)
			g.Wait()
		},
		"After": func() { After(0, broken) },
		"AfterDone": func() {
			ctx, end := context.WithCancel(t.Context())
			AfterDone(ctx, broken)
			end()
		},
		"Writer": func() { _, _ = Writer(faulty{}).Write(nil) },
	} {
		t.Run(name, func(t *testing.T) {
			told := make(chan *Fault, 1)
			defer Watch(func(f *Fault) { told <- f })()
			begin()
			if f := <-told; f.Value != "planted" || !strings.Contains(f.Error(), "(planted)") || !strings.Contains(string(f.Stack), "guard_test.go") {
				t.Errorf("%v\n%s", f, f.Stack)
			}
		})
	}
	defer Watch(func(*Fault) {})()
	var f *Fault
	if err := Call(func() error { broken(); return nil }); !errors.As(err, &f) {
		t.Error(err)
	}
	if err := Call(func() error { return io.EOF }); err != io.EOF {
		t.Error(err)
	}
	if Writer(os.Stdout) != io.Writer(os.Stdout) || Writer(nil) != nil {
		t.Error("files and nil are not as they were")
	}
}

// While nobody watches, a panic ends the process as it always does.
func TestUnwatched(t *testing.T) {
	if os.Getenv("BOXDYNO_PANIC") != "" {
		Watch(func(*Fault) {})() // no longer
		Go(func() { panic("planted") })
		select {}
	}
	cmd := exec.Command("/proc/self/exe", "-test.run", "^TestUnwatched$")
	cmd.Env = append(os.Environ(), "BOXDYNO_PANIC=1")
	said, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 2 || !strings.Contains(string(said), "panic: planted") {
		t.Errorf("%v\n%s", err, said)
	}
}

// What runs again and again ends with its stop, which waits for it, and with its context.
func TestBeside(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var n atomic.Int64
	stop := Beside(ctx, time.Millisecond, func() { n.Add(1) })
	for n.Load() < 3 {
		time.Sleep(time.Millisecond)
	}
	stop()
	at := n.Load()
	time.Sleep(5 * time.Millisecond)
	if n.Load() != at {
		t.Error("it ran on after stop")
	}
	stop = Beside(ctx, time.Millisecond, func() { n.Add(1) })
	cancel()
	stop()
}
