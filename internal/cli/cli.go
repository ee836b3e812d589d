// SPDX-License-Identifier: Apache-2.0

// Package cli holds the commands. Data goes to standard output, progress and
// errors to standard error; an error is one line, and the exit code says of
// which kind it was. What send, replay and meter have counted is told by types of their
// own (traffic_account.go), apart from the ledger of trials: their JSON is a promise.
package cli

import (
	"context"
	_ "embed" // notices
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"boxdyno/engine"
	"boxdyno/host"
	"boxdyno/internal/guard"
	"boxdyno/internal/version"
	"boxdyno/result"
	"boxdyno/runner"
)

// The exit codes; where several hold, the worst is returned: interrupted, then
// other, invalid, missing, usage, failed.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitMissing     = 3
	exitInvalid     = 4
	exitOther       = 5
	exitInterrupted = 130
)

const exitCodes = `0    done, and passed where something was judged
1    a criterion failed
2    usage: a wrong flag, argument or plan
3    a prerequisite or privilege is missing; the message names the remedy
4    not decided, or the measurement is invalid: the tester was the limit
5    another failure
130  interrupted; finished trials are kept

If several apply, the worst is returned: 5, then 4, 3, 1.`

// Version is that of this program.
func Version() string { return version.Version() }

// An app is one call of the program.
type app struct {
	out, err io.Writer // run cleans what goes there
	live     io.Writer // standard error as it is, for lines that are drawn anew
	quiet    bool
	plugins  runner.Catalogue
	argv     []string
}

// A failure is an error from the work of a command: every other error that
// cobra returns is one of usage.
type failure struct {
	code int
	err  error // nil: it has been said
}

func (f *failure) Error() string { return fmt.Sprint(f.err) }

// Main runs the program with args (without its name) and returns its exit code.
// ctx ends it early, with exit code 130.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return run(ctx, &app{out: &patient{ctx: ctx, w: stdout}, err: &patient{ctx: ctx, w: stderr}, plugins: plugins(), argv: append([]string{"boxdyno"}, args...)}, args)
}

// Command returns the tree of commands, for their manual.
func Command() *cobra.Command { return (&app{plugins: runner.Plugins()}).root() }

// faultPatience is how long a command may take to put things back after a fault.
var (
	faultPatience = time.Minute
	exit          = os.Exit
)

func run(ctx context.Context, a *app, args []string) int {
	a.live = a.err
	a.out, a.err = &printer{w: a.out}, &printer{w: a.err}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	patience, exit := faultPatience, exit
	var fault atomic.Pointer[guard.Fault] // the first
	over := make(chan struct{})
	defer close(over)
	defer guard.Watch(func(f *guard.Fault) {
		if !fault.CompareAndSwap(nil, f) {
			return
		}
		cancel() // the command ends in order
		guard.Go(func() {
			select {
			case <-over:
			case <-time.After(patience):
				exit(a.say(&failure{exitOther, f}))
			}
		})
	})()
	err := guard.Call(func() error {
		root := a.root()
		root.SetArgs(args)
		root.SetOut(a.out)
		root.SetErr(a.err)
		return root.ExecuteContext(ctx)
	})
	if f := fault.Load(); f != nil {
		return a.say(&failure{exitOther, f})
	}
	if err == nil {
		return exitOK
	}
	var f *failure
	if !errors.As(err, &f) {
		f = &failure{exitUsage, err}
	}
	return a.say(f)
}

// say prints a failure, and is its exit code.
func (a *app) say(f *failure) int {
	if f.err != nil {
		fmt.Fprintln(a.err, "boxdyno: "+sentence(f.err))
	}
	return f.code
}

// sentence is an error in one line.
func sentence(err error) string {
	return strings.Join(strings.FieldsFunc(strings.TrimSpace(err.Error()), func(r rune) bool { return r == '\n' }), "; ")
}

// code is the exit code of an error of the work.
func code(ctx context.Context, err error) int {
	var plan *runner.PlanError
	var missing *host.Missing
	switch {
	case err == nil:
		return exitOK
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		return exitInterrupted
	case errors.As(err, &missing):
		return exitMissing
	case errors.As(err, &plan), errors.As(err, new(*engine.TooLongError)):
		return exitUsage
	}
	return exitOther
}

// ofStatus is the exit code of a verdict.
func ofStatus(s result.Status) int {
	switch s {
	case result.Passed:
		return exitOK
	case result.Failed:
		return exitFailed
	case result.Invalid:
		return exitInvalid
	case result.Skipped:
		return exitMissing
	}
	return exitOther
}

// worst is the one of two exit codes that is returned.
func worst(a, b int) int {
	for _, c := range []int{exitInterrupted, exitOther, exitInvalid, exitMissing, exitUsage, exitFailed} {
		if a == c || b == c {
			return c
		}
	}
	return exitOK
}

// do makes the work of a command from f.
func do(f func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		err := f(cmd.Context(), args)
		var done *failure
		if err == nil || errors.As(err, &done) {
			return err
		}
		return &failure{code(cmd.Context(), err), err}
	}
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "boxdyno",
		Short: "Measure what a network-security box carries",
		Long: `boxdyno measures what a router, firewall or sensor carries without loss, and what
limits it. It accounts for every frame.

Exit codes:
` + exitCodes,
		Example: `  boxdyno doctor                            what this machine can measure
  sudo boxdyno qualify firewall --quick     a verdict in about a minute
  sudo boxdyno run forward --set frame_size=64,imix
  boxdyno report last -o page.html`,
		SilenceErrors: true, SilenceUsage: true, DisableSuggestions: true,
		PersistentPreRunE: func(cmd *cobra.Command, args []string) error {
			if err := noneEmpty(cmd); err != nil {
				return err
			}
			return a.recoverTuning(cmd, args)
		},
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.PersistentFlags().BoolVar(&a.quiet, "quiet", false, "no progress on standard error")
	root.AddCommand(a.doctor(), a.list(), a.run(), a.qualify(), a.report(), a.compare(), a.size(), a.runs(), a.index(), a.tune(), a.send(), a.replay(), a.meter(), a.watch(), a.box(), a.fleet(), a.schema(), a.versionCommand(),
		&cobra.Command{Use: "exit-codes", Short: "What the exit codes mean", Long: exitCodes})
	root.AddCommand(a.history())
	root.AddCommand(a.serve())
	root.InitDefaultCompletionCmd()
	root.InitDefaultHelpCmd()
	for _, cmd := range root.Commands() {
		switch cmd.Name() { // by themselves they would print help and return 0 whatever they are given
		case "completion":
			cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		case "help":
			cmd.RunE = a.help
		}
	}
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), ".FlagUsages ", fmt.Sprintf(".FlagUsagesWrapped %d ", helpWidth)))
	refold(root)
	return root
}

// help prints the help of the command that args name. Of a name in a list it says which
// list that is.
func (a *app) help(cmd *cobra.Command, args []string) error {
	found, rest, err := cmd.Root().Find(args)
	if err == nil && (len(rest) == 0 || !found.HasSubCommands()) {
		found.InitDefaultHelpFlag()
		return found.Help()
	}
	name := rest[0]
	if found == cmd.Root() {
		for _, kind := range kinds {
			ls, _ := a.listed(kind) // of one that cannot be read: nothing
			if slices.Contains(names(ls), name) {
				return fmt.Errorf("%s is no command; it is among the %s: type boxdyno list %s %s", name, kind, kind, name)
			}
		}
	}
	var commands []string
	for _, c := range found.Commands() {
		commands = append(commands, c.Name())
	}
	return fmt.Errorf("there is no command %q%s: type %s --help", name, runner.DidYouMean(name, commands), found.CommandPath())
}

// helpWidth is how many columns of a terminal help takes.
const helpWidth = 80

// refold makes the lines of a command's help, and of those below it, as long as helpWidth.
// Paragraphs with columns stay.
func refold(cmd *cobra.Command) {
	parts := strings.Split(cmd.Long, "\n\n")
	for i, p := range parts {
		if !strings.Contains(p, "  ") {
			parts[i] = folded(p, helpWidth, "\n")
		}
	}
	cmd.Long = strings.Join(parts, "\n\n")
	for _, c := range cmd.Commands() {
		refold(c)
	}
}

// needs is an error in words where a command has no argument.
func needs(what, how string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		word, _, _ := strings.Cut(cmd.Use, " ")
		if len(args) == 0 {
			return fmt.Errorf("%s needs %s: %s", word, what, how)
		}
		if most := 1 + strings.Count(what, " ["); len(args) > most && !strings.HasSuffix(what, "...") {
			return fmt.Errorf("%s takes %s: leave out %s", word, map[int]string{1: "one argument", 2: "two arguments"}[most], strings.Join(args[most:], " "))
		}
		return nil
	}
}

// noneEmpty refuses options that are empty: --box "$BOX" without that variable would be
// this machine.
func noneEmpty(cmd *cobra.Command) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if err == nil && f.Value.Type() == "string" && strings.TrimSpace(f.Value.String()) == "" {
			err = fmt.Errorf("--%s is empty: give it a value, or leave it out", f.Name)
		}
	})
	return err
}

// exclusive refuses two flags together, in words.
func exclusive(cmd *cobra.Command, a, b string) {
	check := cmd.Args
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if cmd.Flags().Changed(a) && cmd.Flags().Changed(b) {
			return fmt.Errorf("--%s and --%s exclude each other", a, b)
		}
		return check(cmd, args)
	}
}

//go:embed notices.txt
var notices string

func (a *app) versionCommand() *cobra.Command {
	var licences bool
	cmd := &cobra.Command{
		Use: "version", Short: "Print the version, or the licences of what is in the program", Args: cobra.NoArgs,
		Example: "  boxdyno version\n  boxdyno version --notices",
		RunE: do(func(context.Context, []string) error {
			if licences {
				_, err := fmt.Fprint(a.out, notices)
				return err
			}
			_, err := fmt.Fprintf(a.out, "boxdyno %s %s %s/%s\n", Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		}),
	}
	cmd.Flags().BoolVar(&licences, "notices", false, "print the licences of the work of others in the program and in its page")
	return cmd
}
