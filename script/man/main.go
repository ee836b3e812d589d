// SPDX-License-Identifier: Apache-2.0

// Man writes boxdyno's manual pages, and what completes its commands in bash, zsh and
// fish, into a folder: go run ./script/man DIR. The shipped program does without what
// makes the pages.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

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
	dir := args[0]
	return errors.Join(
		root.GenBashCompletionFileV2(filepath.Join(dir, "boxdyno.bash"), true),
		root.GenZshCompletionFile(filepath.Join(dir, "_boxdyno")),
		root.GenFishCompletionFile(filepath.Join(dir, "boxdyno.fish"), true),
		doc.GenManTree(root, &doc.GenManHeader{Title: "BOXDYNO", Section: "1", Source: "boxdyno " + cli.Version()}, dir))
}
