// SPDX-License-Identifier: Apache-2.0

// Command boards boots Debian kernels on boards that QEMU computes, runs commands
// there and brings back what they said and left. script/boards supplies what it needs:
// QEMU, the kernel's package, and programs for the board's processor.
//
// Speeds there say nothing: instructions are computed one by one, without KVM.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"boxdyno/script/proof/boards/job"
)

// list is a flag that may be given again.
type list []string

func (l *list) String() string     { return strings.Join(*l, ", ") }
func (l *list) Set(s string) error { *l = append(*l, s); return nil }

type options struct {
	describe, test, ci, console bool
	deb, cache, programs, save  string
	tools                       string
	commands, files, modules    list
	commandLimit, limit         time.Duration
}

func main() {
	if len(os.Args) > 1 && slices.Contains([]string{"start", "stop", "reset", "link"}, os.Args[1]) {
		do := func() error { return lastMain(os.Args[1], os.Args[2:]) }
		if os.Args[1] == "start" {
			do = func() error { return startMain(os.Args[2:]) }
		}
		if err := do(); err != nil {
			fmt.Fprintln(os.Stderr, "boards:", err)
			os.Exit(1)
		}
		return
	}
	var o options
	flag.BoolVar(&o.describe, "describe", false, "print what the board needs (processor for Go and for Debian, kernel package, QEMU, whether its checks need Go's tests and programs of others, Debian's release where it is another one), or without a board their names")
	flag.BoolVar(&o.test, "test", false, "run the checks")
	flag.BoolVar(&o.ci, "ci", false, "of the checks those of continuous integration")
	flag.Var(&o.commands, "run", "`command` to run in the board, split at spaces; may be given again")
	flag.Var(&o.files, "file", "`file` to bring to the board's folder /root; may be given again")
	flag.Var(&o.modules, "module", "`file` of a module beside the package's, for this very kernel; may be given again")
	flag.StringVar(&o.save, "out", "", "`folder` for the files that commands left in their working folder")
	flag.BoolVar(&o.console, "console", false, "show all of the board's console")
	flag.DurationVar(&o.commandLimit, "command-limit", 5*time.Minute, "longest time of a command")
	flag.DurationVar(&o.limit, "limit", 30*time.Minute, "longest time of the board")
	flag.StringVar(&o.deb, "deb", "", "the kernel's package")
	flag.StringVar(&o.cache, "cache", "", "`folder` for what is taken out of it")
	flag.StringVar(&o.tools, "tools", "", "`folder` in which the board's distribution's packages lie unpacked; the board has fio, cryptsetup, iperf3 and openvpn of it, where it holds them")
	flag.StringVar(&o.programs, "programs", "", "`folder` of the board's programs: init and others")
	flag.Parse()
	code, err := boardsMain(o, flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "boards:", err)
	}
	os.Exit(code)
}

// boardsMain returns the exit code: of the first command that failed, 1 where a check
// did, 2 for usage, 5 where the board did not do its job.
func boardsMain(o options, args []string) (code int, err error) {
	if o.describe && len(args) == 0 {
		for _, b := range boards {
			if len(b.checks(o.ci)) > 0 {
				fmt.Println(b.name)
			}
		}
		return 0, nil
	}
	if len(args) != 1 {
		return 2, errors.New("say which board")
	}
	b, err := find(args[0])
	if err != nil {
		return 2, err
	}
	if o.describe {
		all := b.checks(o.ci)
		tests := slices.ContainsFunc(all, func(c boardCheck) bool { return strings.HasSuffix(c.command.Argv[0], ".test") })
		tools := slices.ContainsFunc(all, func(c boardCheck) bool { return c.tools })
		fmt.Println(b.goarch, b.deb, b.kernel, b.qemu, tests, tools, b.suite)
		return 0, nil
	}
	commands, err := o.jobCommands(b)
	if err != nil {
		return 2, err
	}
	files, err := o.entries()
	if err != nil {
		return 5, err
	}
	tools, err := closure(o.tools, toolPrograms)
	if err != nil {
		return 5, err
	}
	files = append(files, tools...)
	k, err := unpack(o.deb, o.cache, b.dtb, b.modules)
	if err != nil {
		return 5, err
	}
	k.modules = append(k.modules, o.modules...)
	var console io.Writer = &progress{w: os.Stderr}
	if o.console {
		console = os.Stderr
	}
	r, err := b.boot(k, files, commands, o.limit, console)
	if o.save != "" {
		err = errors.Join(err, r.save(o.save))
	}
	if err != nil {
		return 5, err
	}
	if len(r.boot.Problems) > 0 {
		return 5, fmt.Errorf("board %s: %s", b.name, strings.Join(r.boot.Problems, "; "))
	}
	if o.test {
		return check(os.Stdout, b, b.checks(o.ci), r), nil
	}
	for _, c := range r.commands {
		os.Stdout.Write(c.stdout)
		os.Stderr.Write(c.stderr)
		if c.Problem != "" {
			fmt.Fprintf(os.Stderr, "boards: %s: %s\n", strings.Join(c.Argv, " "), c.Problem)
		}
		if code == 0 {
			code = c.Exit
		}
	}
	return code, nil
}

func (o options) jobCommands(b board) (out []job.Command, err error) {
	if o.test {
		for _, c := range b.checks(o.ci) {
			out = append(out, c.command)
		}
		return out, nil
	}
	for _, c := range o.commands {
		argv := strings.Fields(c)
		if len(argv) == 0 {
			return nil, errors.New("--run wants a command")
		}
		out = append(out, job.Command{Argv: argv, Limit: o.commandLimit})
	}
	if len(out) == 0 {
		return nil, errors.New("nothing is to be run: say --run 'boxdyno doctor', or --test")
	}
	return out, nil
}

// entries are the files for the board: init, the other programs in /bin, and what was
// asked for.
func (o options) entries() (out []entry, err error) {
	programs, err := os.ReadDir(o.programs)
	if err != nil {
		return nil, fmt.Errorf("find the board's programs: %w", err)
	}
	for _, p := range programs {
		e := entry{name: "bin/" + p.Name(), mode: 0o755, from: filepath.Join(o.programs, p.Name())}
		if p.Name() == "init" {
			e.name = "init"
		}
		out = append(out, e)
	}
	for _, f := range o.files {
		out = append(out, entry{name: "root/" + filepath.Base(f), mode: 0o755, from: f})
	}
	return out, nil
}

// progress shows what init says, and not the kernel.
type progress struct {
	w    io.Writer
	rest []byte // of a line that has not ended
}

func (p *progress) Write(data []byte) (int, error) {
	p.rest = append(p.rest, data...)
	for {
		line, rest, whole := bytes.Cut(p.rest, []byte("\n"))
		if !whole {
			return len(data), nil
		}
		if said, ok := bytes.CutPrefix(line, []byte("init: ")); ok {
			fmt.Fprintf(p.w, "%s\n", bytes.TrimSpace(said))
		}
		p.rest = rest
	}
}
