// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"boxdyno/runner"
	"boxdyno/subject"
)

func (a *app) doctor() *cobra.Command {
	var asJSON bool
	var install string
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Say what this machine can measure, and what is missing",
		Long: `Doctor tries everything that measuring needs, by doing it on throw-away testbeds,
and prints the command that supplies what is missing. A line marked * is needed
for qualify firewall; where one of them fails the exit code is 3.

--install runs those commands. firewall installs what is needed, subjects the
programs that are put under load (or name one of them), width 32-bit programs in a
folder of their own (debootstrap), all everything but those.
Subjects in Python get virtual environments of their own in boxdyno's cache folder.`,
		Example: "  sudo boxdyno doctor\n  sudo boxdyno doctor --install firewall\n  sudo boxdyno doctor --install scapy",
		Args:    cobra.NoArgs,
		RunE: do(func(ctx context.Context, _ []string) error {
			ds := runner.Doctor(ctx, a.plugins)
			if install != "" {
				did, err := a.install(ctx, ds, install)
				if err != nil {
					return err
				}
				if did {
					ds = runner.Doctor(ctx, a.plugins)
				}
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			if asJSON {
				if err := encode(a.out, ds); err != nil {
					return err
				}
			} else if err := a.diagnosis(ds); err != nil {
				return err
			}
			if !runner.Healthy(ds) {
				return &failure{code: exitMissing}
			}
			return nil
		}),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().StringVar(&install, "install", "", "run the commands that supply what is missing of `SET`: "+strings.Join(runner.Sets, ", ")+", or a subject's name")
	_ = cmd.RegisterFlagCompletionFunc("install", cobra.FixedCompletions(runner.Sets, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// install supplies what is missing of a set; did says whether there was anything. One
// subject that cannot be installed does not keep the others from it.
func (a *app) install(ctx context.Context, ds []runner.Diagnosis, set string) (did bool, err error) {
	cmds, err := runner.Remedies(ds, set)
	if err != nil {
		return false, err
	}
	defer unix.Umask(unix.Umask(0o022)) // what root runs later must not be writable by others
	run := func(ctx context.Context, argv []string) error {
		did = true
		a.note("%s", strings.Join(argv, " "))
		c := exec.CommandContext(ctx, argv[0], argv[1:]...)
		c.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		c.Stdout, c.Stderr = a.live, a.live
		if err := c.Run(); err != nil {
			return fmt.Errorf("%s: %w", strings.Join(argv, " "), err)
		}
		return nil
	}
	for _, argv := range cmds {
		if err := run(ctx, argv); err != nil {
			return did, err
		}
	}
	var failed []error
	for _, s := range runner.Subjects(set) {
		if err := subject.Install(ctx, s, run); err != nil {
			if ctx.Err() != nil {
				return did, ctx.Err()
			}
			failed = append(failed, fmt.Errorf("%s: %w", s.Name, err))
		}
	}
	return did, errors.Join(failed...)
}

func (a *app) diagnosis(ds []runner.Diagnosis) error {
	var b bytes.Buffer
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	remedies, details := sharedRemedies(ds)
	for _, d := range ds {
		mark := " "
		if d.Needed {
			mark = "*"
		}
		fmt.Fprintf(w, "%s %s\t%s\t%s\t\n", mark, d.Answer, d.Group, d.Name)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	width, i := terminalWidth(a.out), 0
	for line := range strings.Lines(b.String()) {
		line = strings.TrimRight(line, "\n")
		if err := a.explained(line, details[i], width); err != nil {
			return err
		}
		i++
	}
	for i, r := range remedies {
		mark := fmt.Sprintf("[%d] ", i+1)
		if width > 0 {
			r = folded(r, width-len(mark), "\n"+strings.Repeat(" ", len(mark)))
		}
		if i == 0 {
			mark = "\n" + mark
		}
		if _, err := fmt.Fprintln(a.out, mark+r); err != nil {
			return err
		}
	}
	say := "Everything that qualify firewall needs (lines marked *) is there."
	if !runner.Healthy(ds) {
		say = "Something that qualify firewall needs (lines marked *) is missing."
	}
	_, err := fmt.Fprintln(a.out, "\n"+say)
	return err
}

// explained prints a line and its detail, which stands below it, indented, where a terminal
// of that width has no room beside it. A width of 0 is endless.
func (a *app) explained(line, detail string, width int) error {
	const indent = "      "
	if width > 0 && detail != "" && utf8.RuneCountInString(line+detail) > width {
		line, detail = strings.TrimRight(line, " ")+"\n"+indent, folded(detail, width-len(indent), "\n"+indent)
	}
	_, err := fmt.Fprintln(a.out, strings.TrimRight(line+detail, " "))
	return err
}

// folded breaks s at spaces into lines of at most width characters; a longer word is not broken.
func folded(s string, width int, newline string) string {
	var b strings.Builder
	at := 0
	for _, word := range strings.Fields(s) {
		n := utf8.RuneCountInString(word)
		switch {
		case at == 0:
		case at+1+n > width:
			b.WriteString(newline)
			at = 0
		default:
			b.WriteByte(' ')
			at++
		}
		b.WriteString(word)
		at += n
	}
	return b.String()
}

// sharedRemedies takes the remedies that several details end with out of them, so that each
// is said once, and puts its number there.
func sharedRemedies(ds []runner.Diagnosis) (remedies, details []string) {
	tail := func(s string) (string, string) {
		if i := strings.LastIndex(s, ": "); i >= 0 {
			return s[:i], s[i+2:]
		}
		return s, ""
	}
	times := map[string]int{}
	for _, d := range ds {
		_, r := tail(oneLine(d.Detail))
		times[r]++
	}
	for _, d := range ds {
		detail := oneLine(d.Detail)
		head, r := tail(detail)
		if r == "" || times[r] < 2 {
			details = append(details, detail)
			continue
		}
		i := slices.Index(remedies, r)
		if i < 0 {
			i, remedies = len(remedies), append(remedies, r)
		}
		details = append(details, fmt.Sprintf("%s: see [%d]", head, i+1))
	}
	return remedies, details
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
