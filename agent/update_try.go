// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"boxdyno/internal/guard"
	"boxdyno/internal/netns"
	"boxdyno/link"
)

// Greeted is what a program on trial prints once the hub has greeted it.
const Greeted = "the hub has greeted this program"

// slack is how much longer than its time a program on trial is waited for: it ends by itself.
// Tests shorten it.
var slack = 5 * time.Second

// Begin removes what an update that was killed has left. An agent calls it before it
// connects.
func (u *Updater) Begin() { u.remove() }

// Settle removes the program before this one. An agent calls it once the hub has greeted it.
func (u *Updater) Settle() { _ = os.Remove(u.file(oldSuffix)) } // mostly there is none

// Taken says whether a program is to be tried.
func (u *Updater) Taken() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.next != nil
}

// Drop forgets the program that was to be tried.
func (u *Updater) Drop() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.next = nil
	u.remove()
}

// Try starts the program that was taken, with args and --trial, and waits until the hub has
// greeted it. The program is then put in the agent's place, and this process becomes it.
// Where that cannot be, the agent's own program is as it was, and Try says why.
func (u *Updater) Try(ctx context.Context, args []string) error {
	u.mu.Lock()
	next := *u.next
	u.mu.Unlock()
	defer u.Drop()
	why := func(format string, a ...any) error {
		return fmt.Errorf("the update to %s was rolled back: %w", link.Cut(next.Version, 80), fmt.Errorf(format, a...))
	}
	if err := u.trial(ctx, next, args); err != nil {
		return why("%w", err)
	}
	u.Settle()
	if err := os.Link(u.Program, u.file(oldSuffix)); err != nil {
		return why("keep the program before: %w", err)
	}
	if err := os.Rename(u.file(newSuffix), u.Program); err != nil {
		u.Settle()
		return why("put the program in its place: %w", err)
	}
	err := synced(filepath.Dir(u.Program))
	if err == nil {
		become := u.exec
		if become == nil {
			become = unix.Exec
		}
		err = become(u.Program, slices.Concat([]string{u.Program}, args), os.Environ())
	}
	return why("%w", errors.Join(fmt.Errorf("start it in this process: %w", err), os.Rename(u.file(oldSuffix), u.Program)))
}

func synced(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Sync(); err != nil && !errors.Is(err, unix.EINVAL) { // some file systems know no such thing
		return err
	}
	return nil
}

// mostHeard is how much is kept of what a program on trial says.
const mostHeard = 8 << 10

type heard struct{ bytes.Buffer }

func (h *heard) Write(b []byte) (int, error) {
	h.Buffer.Write(b[:min(len(b), max(0, mostHeard-h.Len()))])
	return len(b), nil
}

// trial runs the new program until the hub has greeted it.
func (u *Updater) trial(ctx context.Context, a Update, args []string) error {
	ctx, cancel := context.WithTimeout(ctx, a.Within+slack)
	defer cancel()
	var out, errw heard
	err := netns.OnThread(func() error { // Pdeathsig goes by the thread that starts it
		_, err := freshly(func() (none struct{}, err error) {
			cmd := exec.CommandContext(ctx, u.file(newSuffix), slices.Concat(args, []string{"--trial", a.Within.String()})...)
			cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: unix.SIGKILL} // it ends with this process
			cmd.Stdout, cmd.Stderr = guard.Writer(&out), guard.Writer(&errw)
			cmd.WaitDelay = time.Second
			return none, cmd.Run()
		})
		return err
	})
	first, _, _ := strings.Cut(strings.TrimSpace(errw.String()), "\n")
	first = strings.TrimPrefix(strings.ToValidUTF8(link.Cut(first, 120), "?"), link.Name+": ")
	switch {
	case err == nil && strings.TrimSpace(out.String()) == Greeted:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("the hub did not greet it within %v (%s)", a.Within, cmp.Or(first, "it said nothing"))
	case err == nil:
		return fmt.Errorf("it ended before the hub had greeted it (%s)", cmp.Or(first, "it said nothing"))
	}
	return fmt.Errorf("it ended with %w (%s)", err, cmp.Or(first, "it said nothing"))
}
