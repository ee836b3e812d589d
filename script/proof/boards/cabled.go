// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// cabled is the model of ports that are virtual cables: the board is then no QEMU but a
// network namespace, with this machine's programs and a sshd that listens nowhere:
//
//	namespace of the bench                 namespace of the board
//	ssh ------------ streams ------------- sshd, its /var/lib apart
//	NAME-0 ---------- veth --------------- p0
const cabled = "veth"

func (l lasting) cabled() bool      { return slices.Contains(l.nics, cabled) }
func (l lasting) namespace() string { return "boxdyno-" + l.bench + "-" + l.name }

func ip(words ...string) error {
	if out, err := exec.Command("ip", words...).CombinedOutput(); err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(words, " "), err, out)
	}
	return nil
}

func (l lasting) startCabled() error {
	public, err := l.keys()
	if err != nil {
		return err
	}
	sshd, err := exec.LookPath("sshd")
	if err != nil {
		return fmt.Errorf("find sshd: %w: install openssh-server", err)
	}
	if err := errors.Join(os.MkdirAll("/run/sshd", 0o755), os.Mkdir(l.at("lib"), 0o755)); err != nil {
		return err
	}
	inside := fmt.Sprintf("mount --bind %[1]s/lib /var/lib && exec %[2]s -i -f %[1]s/sshd_config", l.dir(), sshd)
	for file, text := range map[string]string{
		"sshd_config": fmt.Sprintf("HostKey %[1]s/host\nAuthorizedKeysFile %[1]s/id.pub\nStrictModes no\nUsePAM no\nPermitRootLogin prohibit-password\nPidFile none\n", l.dir()),
		"inside":      fmt.Sprintf("exec nsenter --net=/run/netns/%s unshare -m sh -c '%s' 2>>%s\n", l.namespace(), inside, l.at("console")),
	} {
		if err := os.WriteFile(l.at(file), []byte(text), 0o600); err != nil {
			return err
		}
	}
	if err := l.reachable(l.name, "ProxyCommand sh "+l.at("inside"), public); err != nil {
		return err
	}
	if err := ip("netns", "add", l.namespace()); err != nil {
		return err
	}
	if err := ip("-n", l.namespace(), "link", "set", "lo", "up"); err != nil {
		return err
	}
	for i := range l.nics {
		port := fmt.Sprintf("p%d", i)
		err := ip("link", "add", l.tap(i), "type", "veth", "peer", "name", port, "netns", l.namespace())
		if err == nil { // with merging a veth takes frames as a NIC does, so that XDP may send to it
			err = errors.Join(ip("netns", "exec", l.namespace(), "ethtool", "-K", port, "gro", "on"), ip("-n", l.namespace(), "link", "set", port, "up"), l.set(i))
		}
		if err != nil {
			return err
		}
	}
	return l.awaitSSH(10*time.Second, "")
}
