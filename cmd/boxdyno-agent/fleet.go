// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"boxdyno/agent"
	"boxdyno/fleet"
	"boxdyno/internal/version"
	"boxdyno/link"
	"boxdyno/procedure/far"
	"boxdyno/subject/catalog"
)

// usageError is of the command line.
type usageError struct{ error }

// join has a hub admit this board.
func join(ctx context.Context, args []string) error {
	fs := flag.NewFlagSet("join", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	folder, name, allow := fs.String("folder", "", ""), fs.String("name", "", ""), fs.String("allow", "", "")
	words, err := parsed(fs, args, 2)
	if err != nil {
		return err
	}
	if *folder, err = ownFolder(*folder); err != nil {
		return err
	}
	if *name == "" {
		if *name, err = os.Hostname(); err != nil {
			return fmt.Errorf("find this board's name: %w", err)
		}
	}
	var kinds []string
	if *allow != "" {
		kinds = strings.Split(*allow, ",")
	}
	token := words[1]
	if token == "-" { // from where no list of processes shows it
		data, err := io.ReadAll(io.LimitReader(os.Stdin, fleet.MaxToken+1))
		if err != nil {
			return fmt.Errorf("read the token: %w", err)
		}
		token = string(data)
	}
	id, there, err := fleet.JoinOnce(ctx, *folder, words[0], token, *name, kinds)
	if err != nil {
		return err
	}
	how := "joined the fleet at"
	if there {
		how = "is in the fleet already at"
	}
	fmt.Printf("board %s %s %s\n", id.Key(), how, id.URL)
	return nil
}

// connect answers the hub until it is stopped. Where that is done in the same folder
// already it does nothing. On trial it ends once the hub has greeted it.
func connect(ctx context.Context, args []string) error {
	fs := flag.NewFlagSet("connect", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	folder, trial := fs.String("folder", "", ""), fs.Duration("trial", 0, "")
	if _, err := parsed(fs, args, 0); err != nil {
		return err
	}
	var err error
	if *folder, err = ownFolder(*folder); err != nil {
		return err
	}
	id, err := fleet.Load(*folder)
	if err != nil {
		return err
	}
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find the agent's program: %w", err)
	}
	u := &agent.Updater{Program: program, Version: version.Version()}
	board := func(leave func()) *fleet.Board {
		u.Leave = leave
		b := &fleet.Board{Identity: id, Version: version.Version(), Note: note}
		b.Open = func(ctx context.Context) (func(string) link.Handler, func() error) {
			return agent.Open(ctx, *folder, version.Version(), catalog.All, append(far.Methods(slices.Concat(far.Specs, far.Joint), far.Paired...), agent.UpdateMethods(u)...)...)
		}
		return b
	}
	if *trial > 0 {
		return tried(ctx, *folder, board, *trial)
	}
	lock, err := os.OpenFile(filepath.Join(*folder, "connect.lock"), os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return fmt.Errorf("lock the agent's folder: %w", err)
	}
	defer lock.Close()
	if unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		note("an agent answers the hub already")
		return nil
	}
	if err := errors.Join(lock.Truncate(0), errorOf(fmt.Fprintln(lock, os.Getpid())), environment(*folder)); err != nil {
		return err
	}
	u.Begin()
	agent.Recover(ctx, *folder, note)
	why := "" // the last update did not succeed
	for {
		here, leave := context.WithCancel(ctx)
		b := board(leave)
		b.Why, b.Greeted = why, u.Settle
		err := b.Run(here)
		leave()
		if err != nil || ctx.Err() != nil || !u.Taken() {
			u.Drop()
			return err
		}
		why = u.Try(ctx, append([]string{"connect"}, args...)).Error() // or this process is the new program
		note(why)
	}
}

// tried reaches the hub as connect does, says that it was greeted, and ends.
func tried(ctx context.Context, folder string, board func(leave func()) *fleet.Board, within time.Duration) error {
	if err := environment(folder); err != nil {
		return err
	}
	agent.Recover(ctx, folder, note)
	ctx, leave := context.WithTimeout(ctx, within)
	defer leave()
	var greeted atomic.Bool
	b := board(leave)
	b.Trial, b.Greeted = true, func() { greeted.Store(true); leave() }
	if err := b.Run(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if !greeted.Load() {
		return fmt.Errorf("the hub at %s did not greet this program within %v", b.URL, within)
	}
	fmt.Println(agent.Greeted)
	return nil
}

func errorOf(_ int, err error) error { return err }

// parsed reads flags wherever they stand, and want words.
func parsed(fs *flag.FlagSet, args []string, want int) (words []string, err error) {
	for len(args) > 0 && err == nil {
		err = fs.Parse(args)
		if args = fs.Args(); err == nil && len(args) > 0 {
			words, args = append(words, args[0]), args[1:]
		}
	}
	if err == nil && len(words) != want {
		err = errors.New("")
	}
	if err != nil {
		return nil, usageError{err}
	}
	return words, nil
}

func ownFolder(given string) (string, error) {
	if given != "" {
		return given, nil
	}
	return agent.Folder()
}

func note(s string) { fmt.Fprintln(os.Stderr, link.Name+":", s) }
