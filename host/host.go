// SPDX-License-Identifier: Apache-2.0

// Package host is one machine: its identity, files, commands, ports, and what
// is missing on it with the remedy.
package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"time"

	"boxdyno/internal/caps"
	"boxdyno/internal/netns"
)

// ErrNotSupported is the "no" of a probe: this kernel, driver or board cannot.
// Any other error of a probe means "don't know".
var ErrNotSupported = errors.New("not supported")

// A Missing is a prerequisite or privilege that is not there (exit code 3).
type Missing struct {
	What   string     // "nft, which loads the filter's rules"
	Remedy [][]string // commands that supply it; doctor prints them
	Hint   string     // where no command helps: what to do, in words
}

func (m *Missing) Error() string {
	s := "missing " + m.What
	for i, r := range m.Remedy {
		s += []string{": run ", ", then "}[min(i, 1)] + strings.Join(r, " ")
	}
	if m.Hint != "" {
		s += ": " + m.Hint
	}
	return s
}

// Capabilities is what a privileged run needs when it is not root's: namespaces
// and sysfs, links and XDP, AF_PACKET, BPF, tracing, memory of AF_XDP; for placement
// split also sysfs files that are root's and the DUT's thread priority.
const Capabilities = "cap_sys_admin,cap_net_admin,cap_net_raw,cap_bpf,cap_perfmon,cap_ipc_lock,cap_dac_override,cap_sys_nice"

// Privilege is the Missing for an operation that answered EPERM.
func Privilege(what string) *Missing {
	return &Missing{What: "privilege to " + what, Hint: "run it with sudo, or give a group's copy (root:boxdyno, mode 0750) " + Capabilities + " with setcap"}
}

// A Local is this machine, one of its namespaces, or (in tests) a recorded tree.
type Local struct {
	Label string // "tester", "dut"
	Root  fs.FS  // nil: the machine's own
	Netns string // "": the process's own

	Userland *Userland // whose programs Run and Start take; nil: the machine's own
}

// A Port is an interface of a host: plain data, because a backend must enter
// the namespace in every thread that it makes.
type Port struct {
	Host  string
	Netns string // path; "": the process's own
	Name  string
}

// View runs f in the host's namespace with its file system: there
// proc/thread-self/net is that namespace's (proc/net is not). f must not start
// goroutines.
func (l *Local) View(f func(root fs.FS) error) error {
	if l.Root != nil {
		return f(l.Root)
	}
	return netns.Do(l.Netns, func() error { return f(os.DirFS("/")) })
}

// Run runs a program in the host's namespace and returns its standard output. A
// program that is not installed is a *Missing with the package that has it.
func (l *Local) Run(ctx context.Context, stdin string, argv ...string) ([]byte, error) {
	var out, errw strings.Builder
	cmd, err := l.Command(ctx, argv...)
	if err != nil {
		return nil, err
	}
	cmd.Stdin = strings.NewReader(stdin)
	cmd.Stdout, cmd.Stderr = &out, &errw
	cmd.WaitDelay = time.Second
	cmd.SysProcAttr = caps.Inherit(argv[0])
	if err := netns.Do(l.Netns, cmd.Start); err != nil {
		return nil, fmt.Errorf("start %s: %w", argv[0], err)
	}
	if err := cmd.Wait(); err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if l.Userland != nil {
			if missing := l.Userland.lacks(cmd.ProcessState.ExitCode()); missing != nil {
				return nil, missing
			}
		}
		line, _, _ := strings.Cut(strings.TrimSpace(errw.String()), "\n")
		return nil, fmt.Errorf("%s: %s (%w)", strings.Join(argv, " "), line, err)
	}
	return []byte(out.String()), nil
}

// Command is a program of the host's that is not started yet, and that ctx ends; it
// does not enter the host's namespace. One that is not installed is a *Missing.
func (l *Local) Command(ctx context.Context, argv ...string) (*exec.Cmd, error) {
	path, args, err := l.resolve(argv)
	if err != nil {
		return nil, err
	}
	return exec.CommandContext(ctx, path, args...), nil
}

// packages says which Debian package has a program that is not named like it.
var packages = map[string]string{
	"nft": "nftables", "ip": "iproute2", "cc": "gcc", "7zz": "7zip", "opusenc": "opus-tools", "opusdec": "opus-tools", "oggenc": "vorbis-tools", "oggdec": "vorbis-tools",
	"mpirun": "openmpi-bin", "sha1sum": "coreutils", "sha256sum": "coreutils", "b2sum": "coreutils",
	"sshd": "openssh-server", "ssh": "openssh-client", "ssh-keygen": "openssh-client",
}

// Program is the path of a program: of PATH, else of /usr/sbin or /sbin, which an
// ordinary PATH lacks. A name with a slash is a path already. The error is a *Missing.
func Program(name string) (string, error) {
	path, err := exec.LookPath(name)
	for _, dir := range []string{"/usr/sbin/", "/sbin/"} {
		if err == nil {
			break
		}
		path, err = exec.LookPath(dir + name)
	}
	if err != nil {
		return "", &Missing{What: "the program " + name, Remedy: [][]string{{"apt-get", "install", "-y", packageOf(name)}}}
	}
	return path, nil
}

// packageOf is the Debian package that has a program.
func packageOf(name string) string { return cmp.Or(packages[name], name) }

// resolve is what is executed for argv: a path, and the arguments after the first.
func (l *Local) resolve(argv []string) (path string, args []string, err error) {
	if l.Userland != nil {
		if argv, err = l.Userland.command(argv); err != nil {
			return "", nil, err
		}
		return argv[0], argv[1:], nil
	}
	path, err = Program(argv[0])
	return path, argv[1:], err
}

// Has is the function Has for the host's programs.
func (l *Local) Has(name string) error {
	if l.Userland == nil {
		return Has(name)
	}
	_, err := l.Userland.Lookup(name)
	return err
}

// Has reports whether a program is installed: nil or a *Missing.
func Has(name string) error { _, err := Program(name); return err }

// Pause waits for d, or until ctx ends, whose error it returns.
func Pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
