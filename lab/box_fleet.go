// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"boxdyno/host"
	"boxdyno/internal/version"
	"boxdyno/link"
)

// agentService is the agent as a service of systemd. What procedures need is bounded: namespaces,
// ports, BPF, encrypted disks, priorities; and what an account with root's files may read.
const agentService = `[Unit]
Description=boxdyno agent of a fleet
After=network-online.target
Wants=network-online.target

[Service]
ExecStart=%s connect --folder %s
Restart=always
RestartSec=5
NoNewPrivileges=yes
CapabilityBoundingSet=CAP_SYS_ADMIN CAP_NET_ADMIN CAP_NET_RAW CAP_BPF CAP_PERFMON CAP_SYS_NICE CAP_SYS_RESOURCE CAP_IPC_LOCK CAP_DAC_OVERRIDE CAP_DAC_READ_SEARCH CAP_FOWNER CAP_CHOWN CAP_KILL CAP_MKNOD
ProtectHome=yes
RestrictSUIDSGID=yes
Delegate=yes

[Install]
WantedBy=multi-user.target
`

// plain says whether a word needs no quoting in a shell.
func plain(s string) bool {
	return s != "" && boxWords.MatchString(s) && !strings.Contains(s, " ") && !strings.HasPrefix(s, "-")
}

// HasAgent says whether this version's agent is in its place on the box, which Find chose.
func (b Box) HasAgent(ctx context.Context) (bool, error) {
	line := fmt.Sprintf(`sh -c '[ ! -x "%[1]s" ] || "%[1]s" --version'`, b.Agent)
	out, err := b.shell(ctx, strings.TrimSpace(b.Become+" "+line), nil)
	return strings.HasPrefix(out, link.Name+" "+version.Version()+" "), err
}

// JoinFleet has the box join the fleet at url by a token, under a name. The token is on no
// command line, which other users of either machine could read. It returns what the
// agent said. A box that is in that fleet stays in it.
func (b Box) JoinFleet(ctx context.Context, url, token, name string, allow []string) (said string, err error) {
	words := []string{b.Agent, "join", url, "-", "--folder", filepath.Dir(b.Agent), "--name", name}
	if len(allow) > 0 {
		words = append(words, "--allow", strings.ReplaceAll(strings.Join(allow, " "), " ", ","))
	}
	for _, w := range words {
		if !slices.Contains([]string{"-", "--folder", "--name", "--allow"}, w) && !plain(strings.ReplaceAll(w, ",", "")) {
			return "", fmt.Errorf("%q has signs of a shell", w)
		}
	}
	out, err := b.shell(ctx, strings.TrimSpace(b.Become+" "+strings.Join(words, " ")), strings.NewReader(token+"\n"))
	return strings.TrimSpace(out), inFleet("join the fleet", err)
}

// ConnectFleet has the agent answer the hub from now on: as a service of systemd where that
// runs and the box is root's, else in the background until the box is started anew. Where a
// package has that service, it is the package's, with this agent if it has another version.
func (b Box) ConnectFleet(ctx context.Context) (lasts bool, err error) {
	dir := filepath.Dir(b.Agent)
	line := fmt.Sprintf(`sh -c 'set -e; %[3]s; if [ -d /run/systemd/system ] && [ "$(id -u)" = 0 ]; then `+
		`if [ -e "$p" ]; then ! ours "$u" || rm -f "$u"; rm -f "$u.d/fleet.conf"; `+
		`[ "$(/usr/bin/boxdyno-agent --version 2>/dev/null || true)" = "$("%[1]s" --version)" ] || { mkdir -p "$u.d"; printf "[Service]\nExecStart=\nExecStart=%%s connect --folder %%s\n" "%[1]s" "%[2]s" >"$u.d/fleet.conf"; }; `+
		`else cat >"$u"; fi; systemctl stop -q boxdyno-agent 2>/dev/null || true; end; `+
		`systemctl daemon-reload; systemctl enable -q boxdyno-agent; systemctl restart boxdyno-agent; echo service; `+
		`else end; setsid nohup "%[1]s" connect --folder "%[2]s" </dev/null >"%[2]s/connect.log" 2>&1 & echo background; fi'`, b.Agent, dir, fmt.Sprintf(serviceWords, dir))
	out, err := b.shell(ctx, strings.TrimSpace(b.Become+" "+line), strings.NewReader(fmt.Sprintf(agentService, b.Agent, dir)))
	return strings.Contains(out, "service"), inFleet("start the agent", err)
}

// serviceWords are for a shell: $u is the service that enrolment writes, $p a package's. "ours"
// says whether a file is of enrolment. "end" ends an agent in the background; the process
// that its lock names may be another one since the box was started anew.
const serviceWords = `u=/etc/systemd/system/boxdyno-agent.service; p=/usr/lib/systemd/system/boxdyno-agent.service; ` +
	`ours() { grep -qs "^Description=boxdyno agent of a fleet" "$1"; }; ` +
	`runs() { [ -n "$a" ] && [ "$(cat "/proc/$a/comm" 2>/dev/null)" = boxdyno-agent ]; }; ` +
	`end() { a=$(cat "%[1]s/connect.lock" 2>/dev/null || true); ! runs || kill "$a" 2>/dev/null || true; for i in 1 2 3 4 5; do runs || break; sleep 1; done; }`

func inFleet(what string, err error) error {
	var missing *host.Missing
	if err == nil || errors.As(err, &missing) {
		return err
	}
	return fmt.Errorf("%s: %w", what, err)
}
