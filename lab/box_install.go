// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"boxdyno/host"
	"boxdyno/internal/files"
	"boxdyno/internal/guard"
	"boxdyno/internal/version"
	"boxdyno/link"
)

// SSH is the command that runs a line in the shell of dest. The configuration, keys and
// jump hosts are the user's, under sudo the caller's; it asks nothing, and refuses a host
// that is not known. A connection that is cut is noticed within 10 s.
func SSH(dest, line string) []string {
	argv := []string{"ssh", "-T", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes", "-o", "ConnectTimeout=10",
		"-o", "ServerAliveInterval=3", "-o", "ServerAliveCountMax=2", "--", dest, line}
	if uid := os.Getenv("SUDO_UID"); os.Geteuid() == 0 && uid != "" && uid != "0" {
		argv = append([]string{"sudo", "-n", "-H", "-u", "#" + uid, "--"}, argv...)
	}
	return argv
}

// mostSaid is how much of a program's output there is kept.
const mostSaid = 64 << 10

// shell runs a line on the box with in as its input. ssh's own failures are a
// *host.Missing with what helps.
func (b Box) shell(ctx context.Context, line string, in io.Reader) (string, error) {
	argv := SSH(b.SSH, line)
	path, err := host.Program(argv[0])
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, path, argv[1:]...)
	cmd.WaitDelay = time.Second
	var out, errw capped
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, guard.Writer(&out), guard.Writer(&errw)
	err = cmd.Run()
	said := strings.TrimSpace(errw.String())
	var exit *exec.ExitError
	switch {
	case err == nil:
		return out.String(), nil
	case ctx.Err() != nil:
		return "", ctx.Err()
	case !errors.As(err, &exit):
		return "", fmt.Errorf("reach %s: %w", b.SSH, err)
	case exit.ExitCode() == 255 && strings.Contains(said, "Host key verification failed"):
		if strings.Contains(said, "IDENTIFICATION HAS CHANGED") {
			return "", &host.Missing{What: "the host key that is known of " + b.SSH + ": it shows another one",
				Hint: "if the box was set up anew, remove the old key with ssh-keygen -R and the name that ssh uses"}
		}
		return "", &host.Missing{What: "the host key of " + b.SSH + " in known_hosts", Remedy: [][]string{{"ssh", b.SSH, "true"}}, Hint: "compare the fingerprint before you answer yes"}
	case exit.ExitCode() == 255:
		return "", &host.Missing{What: fmt.Sprintf("a way to %s: ssh says %q", b.SSH, lastOf(said)), Remedy: [][]string{{"ssh", b.SSH, "true"}}, Hint: "it must work without a question"}
	case b.Become != "" && (strings.HasPrefix(said, "sudo:") || exit.ExitCode() == 127):
		return "", &host.Missing{What: fmt.Sprintf("%s on %s (%s)", b.Become, b.SSH, lastOf(said)),
			Hint: "it must be installed there and ask no password: see man sudoers, NOPASSWD"}
	}
	return "", fmt.Errorf("on %s: %s (%w)", b.SSH, lastOf(said), err)
}

// capped keeps the first octets that are written to it.
type capped struct{ bytes.Buffer }

func (l *capped) Write(b []byte) (int, error) {
	l.Buffer.Write(b[:min(len(b), max(0, mostSaid-l.Len()))])
	return len(b), nil
}

func lastOf(s string) string {
	return link.Cut(s[strings.LastIndexByte(s, '\n')+1:], 300)
}

// architectures are Go's names by uname's.
var architectures = map[string]string{"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "armv8l": "arm", "riscv64": "riscv64", "i386": "386", "i486": "386", "i586": "386", "i686": "386"}

// Find asks the box for its architecture, and chooses the agent's place there.
func (b *Box) Find(ctx context.Context) error {
	const mark = "boxdyno:"
	line := "echo " + mark + "$(uname -m):$(id -u):$HOME"
	if b.Become != "" {
		line = b.Become + ` sh -c 'echo ` + mark + `$(uname -m):$(id -u):$HOME'`
	}
	out, err := b.shell(ctx, line, nil)
	if err != nil {
		return err
	}
	_, said, _ := strings.Cut(out, mark)
	said, _, _ = strings.Cut(said, "\n")
	f := strings.SplitN(said, ":", 3)
	if len(f) != 3 {
		return fmt.Errorf("%s answered %q where its architecture was asked for", b.SSH, link.Cut(out, 80))
	}
	if b.Arch = architectures[f[0]]; b.Arch == "" {
		return &host.Missing{What: fmt.Sprintf("an agent for %q, the architecture of %s", link.Cut(f[0], 40), b.SSH), Hint: "there are agents for x86_64, aarch64, armv7l, riscv64 and i686"}
	}
	b.Agent = "/var/lib/" + link.Name + "/" + link.Name
	if f[1] != "0" {
		b.Agent = filepath.Join(f[2], ".local/state", link.Name, link.Name)
	}
	return b.Check()
}

// AgentFile finds the agent for an architecture on this machine: beside the program, in
// dist (script/release), or where packages have it.
func AgentFile(arch string) (string, error) {
	if !boxArch.MatchString(arch) { // it may be a board's word
		return "", fmt.Errorf("find the agent: arch %q is none of Go's, such as arm64", arch)
	}
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find the agent: %w", err)
	}
	dir := filepath.Dir(self)
	names := []string{filepath.Join(dir, link.Name+"-"+arch), filepath.Join(dir, "../dist", link.Name+"-"+arch), filepath.Join("/usr/lib/boxdyno", link.Name+"-"+arch)}
	if arch == runtime.GOARCH {
		names = append(names, filepath.Join(dir, link.Name))
	}
	for _, name := range names {
		if info, err := os.Stat(name); err == nil && info.Mode().IsRegular() {
			return name, nil
		}
	}
	return "", &host.Missing{What: link.Name + " for " + arch + " beside " + self, Remedy: [][]string{{"script/release"}}, Hint: "or install the package boxdyno-agents, or name the file with --agent"}
}

// MostAgent is how large an agent may be.
const MostAgent = 64 << 20

// Install puts the agent in its place on the box: whole, and only if it runs there and has
// this program's version.
func (b Box) Install(ctx context.Context, file string) error {
	data, err := files.Read(file, MostAgent)
	if err != nil {
		return fmt.Errorf("read the agent: %w", err)
	}
	v := version.Version()
	if strings.ContainsAny(v, "'\n\\$`\"") {
		return fmt.Errorf("this program's version %q has signs of a shell", v)
	}
	script := fmt.Sprintf(`set -e; umask 022; mkdir -p "%[1]s"; chmod 700 "%[1]s"; t=$(mktemp "%[1]s/new.XXXXXX"); trap "rm -f \"$t\"" EXIT; cat >"$t"; s=$(sha256sum <"$t"); `+
		`[ "${s%%%% *}" = %[3]x ] || { echo "the agent did not arrive whole: is the disk full?" >&2; exit 1; }; `+
		`chmod 700 "$t"; v=$("$t" --version); case "$v" in "%[4]s %[5]s "*) ;; *) echo "it is $v and not version %[5]s: build it anew" >&2; exit 1;; esac; mv -f "$t" "%[2]s"`,
		filepath.Dir(b.Agent), b.Agent, sha256.Sum256(data), link.Name, v)
	line := "sh -c '" + script + "'"
	if b.Become != "" {
		line = b.Become + " " + line
	}
	if _, err = b.shell(ctx, line, bytes.NewReader(data)); err != nil {
		var missing *host.Missing
		if errors.As(err, &missing) {
			return err
		}
		return fmt.Errorf("install the agent: %w", err)
	}
	return nil
}

// Uninstall removes the agent and its folder from the box, if nothing else is in that. A box
// that was enrolled loses its key and the agent that answers the hub, unless that is a
// package's.
func (b Box) Uninstall(ctx context.Context) error {
	dir := filepath.Dir(b.Agent)
	line := fmt.Sprintf(`sh -c 'set -e; %[3]s; if ours "$u" || [ -e "$u.d/fleet.conf" ] || [ -e "%[1]s/connect.log" ]; then `+
		`s=; [ ! -d /run/systemd/system ] || [ "$(id -u)" != 0 ] || s=yes; [ -z "$s" ] || systemctl disable -q --now boxdyno-agent || true; end; `+
		`! ours "$u" || rm -f "$u"; [ ! -d "$u.d" ] || { rm -f "$u.d/fleet.conf"; rmdir "$u.d" || true; }; [ -z "$s" ] || systemctl daemon-reload; `+
		`rm -f "%[1]s/fleet.json" "%[1]s/fleet.seed" "%[1]s/connect.lock" "%[1]s/connect.log"; rm -rf "%[1]s/cache" "%[1]s"/boxdyno-[0-9]*; fi; `+ // scratch folders of an agent that was ended
		`rm -f "%[2]s" "%[1]s/lock"; [ ! -d "%[1]s" ] || [ -e "%[1]s/fleet.json" ] || rmdir "%[1]s"'`, dir, b.Agent, fmt.Sprintf(serviceWords, dir))
	if b.Become != "" {
		line = b.Become + " " + line
	}
	if _, err := b.shell(ctx, line, nil); err != nil {
		return fmt.Errorf("remove the agent: %w", err)
	}
	return nil
}
