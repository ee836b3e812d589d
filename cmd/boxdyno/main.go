// SPDX-License-Identifier: Apache-2.0

// Command boxdyno measures what a network-security box carries.
package main

import (
	"context"
	"os"

	"boxdyno/internal/cli"
	"boxdyno/subject/catalog"
)

func main() {
	catalog.Main()
	os.Exit(cli.Main(cli.Interruptible(context.Background()), os.Args[1:], os.Stdout, os.Stderr))
}
