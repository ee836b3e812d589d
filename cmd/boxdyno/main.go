// SPDX-License-Identifier: Apache-2.0

// Command boxdyno measures what a network-security box carries.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"boxdyno/internal/cli"
	"boxdyno/subject"
)

func main() {
	subject.Main()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second one kills
	os.Exit(cli.Main(ctx, os.Args[1:], os.Stdout, os.Stderr))
}
