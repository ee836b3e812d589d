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
	remedies, heads := sharedRemedies(ds)
	for i, d := range ds {
		mark := " "
		if d.Needed {
			mark = "*"
		}
		fmt.Fprintf(w, "%s %s\t%s\t%s\t%s\n", mark, d.Answer, d.Group, d.Name, heads[i])
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for line := range strings.Lines(b.String()) {
		if _, err := fmt.Fprintln(a.out, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	for _, r := range remedies {
		if _, err := fmt.Fprintln(a.out, "\nRemedy: "+r+"."); err != nil {
			return err
		}
	}
	say := "Everything that qualify firewall needs is there."
	if !runner.Healthy(ds) {
		say = "Something that qualify firewall needs (*) is missing."
	}
	_, err := fmt.Fprintln(a.out, "\n"+say)
	return err
}

// sharedRemedies takes the remedies that several details end with out of them,
// so that each is said once.
func sharedRemedies(ds []runner.Diagnosis) (remedies, heads []string) {
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
			heads = append(heads, detail)
			continue
		}
		heads = append(heads, head)
		if !slices.Contains(remedies, r) {
			remedies = append(remedies, r)
		}
	}
	return remedies, heads
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
