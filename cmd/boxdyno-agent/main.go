// SPDX-License-Identifier: Apache-2.0

// Command boxdyno-agent runs on a box for a boxdyno at the other end of the cable.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"

	"boxdyno/agent"
	"boxdyno/host"
	"boxdyno/internal/version"
	"boxdyno/link"
	"boxdyno/procedure/far"
	"boxdyno/subject/catalog"
)

const usage = `usage: boxdyno-agent serve [--folder DIR]
       boxdyno-agent join URL TOKEN [--name NAME] [--allow KIND[,KIND]] [--folder DIR]
       boxdyno-agent connect [--folder DIR]
       boxdyno-agent --version

serve answers a tester on standard input and output, and ends with them. boxdyno starts
it by ssh: see boxdyno box --help. join has the hub of a fleet admit this board; boxdyno
fleet token prints URL and TOKEN; - in the place of TOKEN reads it from standard input.
connect then answers that hub until it is stopped, which is no error. --allow lets the
hub do more than measure: subjects, tune, services, network (works that reach other
boards), update (another program in the agent's place).
--folder is the agent's own
(default /var/lib/boxdyno-agent for root, else $XDG_STATE_HOME/boxdyno-agent).

Exit codes: 0 done, 2 usage, 3 a privilege is missing, 5 another failure, 130 interrupted.
`

func main() {
	catalog.Main()
	os.Exit(run(os.Args[1:]))
}

func run(args []string) int {
	if len(args) == 1 {
		switch args[0] {
		case "--version":
			fmt.Printf("%s %s %s/%s\n", link.Name, version.Version(), runtime.GOOS, runtime.GOARCH)
			return 0
		case "--help", "-h":
			fmt.Print(usage)
			return 0
		}
	}
	commands := map[string]func(context.Context, []string) error{"serve": serve, "join": join, "connect": connect}
	if len(args) == 0 || commands[args[0]] == nil {
		fmt.Fprint(os.Stderr, usage)
		return 2
	}
	// A tester that is gone must not end the agent before settings are put back.
	signal.Ignore(syscall.SIGHUP, syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := commands[args[0]](ctx, args[1:])
	switch {
	case errors.As(err, new(usageError)):
		fmt.Fprint(os.Stderr, usage)
		return 2
	case err == nil && ctx.Err() != nil && args[0] != "connect": // that has no end of its own
		return 130
	case err == nil:
		return 0
	}
	note(err.Error())
	if errors.As(err, new(*host.Missing)) {
		return 3
	}
	return 5
}

// serve answers one tester on the standard streams.
func serve(ctx context.Context, args []string) error {
	fs := flag.NewFlagSet("serve", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	given := fs.String("folder", "", "")
	if _, err := parsed(fs, args, 0); err != nil {
		return err
	}
	folder, err := ownFolder(*given)
	if err == nil {
		err = environment(folder)
	}
	if err != nil {
		return err
	}
	in, out := link.Streams()
	return agent.Serve(ctx, in, out, folder, version.Version(), catalog.All, note, far.Methods(far.Specs)...)
}

// environment has what subjects write go into the agent's folder.
func environment(folder string) error {
	return errors.Join(os.Setenv("TMPDIR", folder), os.Setenv("XDG_CACHE_HOME", filepath.Join(folder, "cache")))
}
