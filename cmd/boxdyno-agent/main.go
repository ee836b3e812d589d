// SPDX-License-Identifier: Apache-2.0

// Command boxdyno-agent runs on a box for a boxdyno at the other end of the cable.
package main

import (
	"context"
	"errors"
	"fmt"
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

const usage = `usage: boxdyno-agent serve [--folder DIR] | --version

serve answers a tester on standard input and output, and ends with them. boxdyno starts
it by ssh: see boxdyno box --help. --folder is the agent's own
(default /var/lib/boxdyno-agent for root, else $XDG_STATE_HOME/boxdyno-agent).

Exit codes: 0 done, 2 usage, 3 a privilege is missing, 5 another failure, 130 interrupted.
`

func main() {
	catalog.Main()
	os.Exit(run(os.Args[1:]))
}

func run(args []string) int {
	switch {
	case len(args) == 1 && args[0] == "--version":
		fmt.Printf("%s %s %s/%s\n", link.Name, version.Version(), runtime.GOOS, runtime.GOARCH)
		return 0
	case len(args) == 1 && (args[0] == "--help" || args[0] == "-h"):
		fmt.Print(usage)
		return 0
	case len(args) == 0 || args[0] != "serve" || len(args) != 1 && (len(args) != 3 || args[1] != "--folder" || args[2] == ""):
		fmt.Fprint(os.Stderr, usage)
		return 2
	}
	folder, err := agent.Folder()
	if len(args) == 3 {
		folder, err = args[2], nil
	}
	if err == nil {
		err = errors.Join(os.Setenv("TMPDIR", folder), os.Setenv("XDG_CACHE_HOME", filepath.Join(folder, "cache"))) // what subjects write
	}
	if err == nil {
		// A tester that is gone must not end the agent before settings are put back.
		signal.Ignore(syscall.SIGHUP, syscall.SIGPIPE)
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		in, out := link.Streams()
		err = agent.Serve(ctx, in, out, folder, version.Version(), catalog.All, func(s string) { fmt.Fprintln(os.Stderr, link.Name+":", s) }, far.Methods(far.Specs)...)
		if err == nil && ctx.Err() != nil {
			return 130
		}
	}
	if err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, link.Name+":", err)
	if errors.As(err, new(*host.Missing)) {
		return 3
	}
	return 5
}
