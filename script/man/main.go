// SPDX-License-Identifier: Apache-2.0

// Man writes boxdyno's manual pages into a folder: go run ./script/man DIR. The
// shipped program does without what makes them.
package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra/doc"

	"boxdyno/internal/cli"
)

func main() {
	if err := write(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "script/man:", err)
		os.Exit(1)
	}
}

func write(args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("want one folder for the pages, and not %d arguments", len(args))
	}
	if err := os.MkdirAll(args[0], 0o755); err != nil {
		return err
	}
	root := cli.Command()
	root.DisableAutoGenTag = true
	return doc.GenManTree(root, &doc.GenManHeader{Title: "BOXDYNO", Section: "1", Source: "boxdyno " + cli.Version()}, args[0])
}
