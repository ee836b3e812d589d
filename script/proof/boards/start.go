// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"crypto/md5"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"boxdyno/script/proof/boards/job"
)

//go:embed root/init
var rootInit []byte

// A lasting board has a disk with a distribution and is reached by ssh, until it is stopped:
//
//	namespace of the bench                          the board
//	ssh to 127.0.0.1:PORT ----- user network ------ ssh   sshd
//	NAME-0 ------------------- tap ---------------- p0
//	NAME-1 ------------------- tap ---------------- p1
//	                           datagrams ---------- pN    10.100.N.1/24, another board's port N has .2
//	switch, 10.111.0.254 ----- tap ---------------- pN    10.111.0.NUMBER/24
//
// QEMU runs in that namespace, where nothing else is. What the board writes to its disk
// survives a reset and ends with QEMU.
type lasting struct {
	board
	bench, name string
	nics        []string // models; "e1000e@b" is wired to board b, "e1000e@switch" to the bench's switch
	image       string   // of the disk; never written
	cpus        int
	memory      int  // MiB
	nice        int  // of QEMU; 10, so that what measures on this machine comes first
	systemd     bool // it is the first process
	number      int  // among the bench's boards, from 1 to 99
}

// The bench's switch is a bridge, which this machine is at, too. Its network is none that
// is tested with.
const (
	virtualSwitch = "switch"
	switchAddress = "10.111.0.254/24"
)

const benches = "/run/boxdyno-boards"

var boardName = regexp.MustCompile(`^[a-z][a-z0-9]{0,11}$`) // with "-0" behind it, a port's name of Linux

func (l lasting) dir() string { return filepath.Join(benches, l.bench, l.name) }
func (l lasting) at(file string) string {
	return filepath.Join(l.dir(), file)
}

// startMain boots a board that lasts, and prints how to reach it. It runs in the bench's
// namespace.
func startMain(args []string) error {
	var l lasting
	var model, deb, cache, init, nics string
	fs := flag.NewFlagSet("start", flag.ContinueOnError)
	fs.StringVar(&l.bench, "bench", "", "")
	fs.StringVar(&l.name, "name", "", "")
	fs.StringVar(&model, "board", "", "")
	fs.StringVar(&nics, "nics", "", "")
	fs.StringVar(&deb, "deb", "", "")
	fs.StringVar(&cache, "cache", "", "")
	fs.StringVar(&l.image, "image", "", "")
	fs.StringVar(&init, "init", "", "")
	fs.IntVar(&l.cpus, "cpus", 4, "")
	fs.IntVar(&l.memory, "memory", 1536, "")
	fs.IntVar(&l.nice, "nice", 10, "")
	fs.BoolVar(&l.systemd, "systemd", false, "")
	if err := fs.Parse(args); err != nil {
		return err
	}
	begin := time.Now()
	var err error
	if l.board, err = find(model); err != nil {
		return err
	}
	if l.card || l.goarch != "amd64" && l.goarch != "arm64" {
		return fmt.Errorf("board %s has no disk: say amd64 or arm64", model)
	}
	l.nics = strings.Fields(nics)
	if l.cabled() && slices.ContainsFunc(l.nics, func(n string) bool { return n != cabled }) {
		return fmt.Errorf("ports %s: a board has either virtual cables or NICs of QEMU", nics)
	}
	if l.cpus < 1 || l.cpus > 8 || l.memory < 192 || l.memory > 65536 {
		return fmt.Errorf("%d CPUs and %d MiB: a board has 1 to 8 and 192 or more", l.cpus, l.memory)
	}
	if !boardName.MatchString(l.name) || l.name == virtualSwitch {
		return fmt.Errorf("board name %q: a letter, then letters and digits, at most 12", l.name)
	}
	if err := os.Mkdir(l.dir(), 0o700); errors.Is(err, os.ErrExist) {
		return fmt.Errorf("board %s is there already: stop it with script/boards --stop %s", l.name, l.name)
	} else if err != nil {
		return err
	}
	if l.cabled() {
		err = l.startCabled()
	} else {
		err = l.start(deb, cache, init)
	}
	if err != nil {
		l.stop()
		return err
	}
	what := fmt.Sprintf("%s, %d CPUs, %d MiB, Debian", l.goarch, l.cpus, l.memory)
	if l.cabled() {
		what = "a network namespace of this machine"
	}
	fmt.Fprintf(os.Stderr, "%s is up after %.0f s: %s; its ports:", l.name, time.Since(begin).Seconds(), what)
	for i, n := range l.nics {
		fmt.Fprintf(os.Stderr, " p%d (%s)", i, n)
	}
	fmt.Fprintln(os.Stderr)
	return nil
}

func (l lasting) start(deb, cache, init string) error {
	k, err := unpack(deb, cache, "", []string{"virtio_pci", "virtio_blk", "ext4", "crc32c_generic"})
	if err != nil {
		return err
	}
	port, err := freePort()
	if err != nil {
		return err
	}
	l.number = port - firstPort + 1
	public, err := l.keys()
	if err != nil {
		return err
	}
	if err := l.reachable(fmt.Sprintf("[127.0.0.1]:%d", port), fmt.Sprintf("HostName 127.0.0.1\n\tPort %d", port), public); err != nil {
		return err
	}
	seeds := []entry{
		{name: "root/.ssh/authorized_keys", mode: 0o600, from: l.at("id.pub")},
		{name: "etc/ssh/ssh_host_ed25519_key", mode: 0o600, from: l.at("host")},
		{name: "etc/ssh/sshd_config", mode: 0o644, data: []byte("UsePAM no\nPermitRootLogin prohibit-password\nPasswordAuthentication no\nPrintMotd no\n")},
	}
	first := "sbin/init"
	if l.systemd {
		first = "usr/local/sbin/board"
		seeds = append(seeds,
			entry{name: "sbin/init", mode: 0o755, data: []byte("#!/bin/sh\nexec /usr/lib/systemd/systemd\n")},
			entry{name: "etc/machine-id", mode: 0o444, data: fmt.Appendf(nil, "%x\n", md5.Sum([]byte(l.name)))}, // or it were its first boot, which enables all services
			entry{name: "etc/.updated", mode: 0o644},                                                            // nothing in /usr is newer
			entry{name: "etc/systemd/system/board.service", mode: 0o644, data: []byte("[Service]\nExecStart=/usr/local/sbin/board\nKillMode=process\n")},
			entry{name: "etc/systemd/system/multi-user.target.d/board.conf", mode: 0o644, data: []byte("[Unit]\nWants=board.service\n")})
	}
	seeds = append(seeds,
		entry{name: first, mode: 0o755, data: rootInit},
		entry{name: "etc/hostname", mode: 0o644, data: []byte(l.name + "\n")},
		entry{name: "etc/board", mode: 0o644, data: []byte("MODULES='virtio_net e1000e igb tun wireguard nf_tables zram dm_crypt'\nPORTS='" + l.addresses() + "'\n")})
	files := []entry{{name: "init", mode: 0o755, from: init}}
	for _, s := range seeds {
		s.name = strings.TrimPrefix(job.Seed, "/") + "/" + s.name
		files = append(files, s)
	}
	j := job.Job{Board: l.name, Root: "/dev/vda"}
	for _, m := range k.modules {
		to := "modules/" + filepath.Base(m)
		j.Modules = append(j.Modules, "/"+to)
		files = append(files, entry{name: to, mode: 0o644, from: m})
	}
	data, err := json.Marshal(j)
	if err != nil {
		return err
	}
	files = append(files, entry{name: strings.TrimPrefix(job.Path, "/"), mode: 0o644, data: data})
	f, err := os.Create(l.at("initramfs"))
	if err != nil {
		return err
	}
	if err := errors.Join(writeInitramfs(f, files), f.Close()); err != nil {
		return err
	}
	args, err := l.qemuArguments(k.image, port)
	if err != nil {
		return err
	}
	if out, err := exec.Command("nice", append([]string{"-n", strconv.Itoa(l.nice), l.qemu}, args...)...).CombinedOutput(); err != nil {
		return fmt.Errorf("start %s: %w: %s", l.qemu, err, out)
	}
	for i, n := range l.nics {
		_, other, wired := strings.Cut(n, "@")
		if wired && other != virtualSwitch {
			continue
		}
		if err := l.set(i); err != nil {
			return err
		}
		if wired {
			if err := l.plugIn(i); err != nil {
				return err
			}
		}
	}
	return l.awaitSSH(6*time.Minute, "")
}

// addresses are those that the board gives its ports, in turn.
func (l lasting) addresses() (words string) {
	for i, n := range l.nics {
		switch _, other, wired := strings.Cut(n, "@"); {
		case !wired:
			words += "none "
		case other == virtualSwitch:
			words += fmt.Sprintf("10.111.0.%d/24 ", l.number)
		case l.name < other:
			words += fmt.Sprintf("10.100.%d.1/24 ", i)
		default:
			words += fmt.Sprintf("10.100.%d.2/24 ", i)
		}
	}
	return words
}

// plugIn puts a cable into the bench's switch, which is there from then on.
func (l lasting) plugIn(i int) error {
	if _, err := net.InterfaceByName(virtualSwitch); err != nil {
		err := ip("link", "add", virtualSwitch, "type", "bridge")
		if err == nil {
			err = errors.Join(ip("addr", "add", switchAddress, "dev", virtualSwitch), ip("link", "set", virtualSwitch, "up"))
		}
		if err != nil {
			return err
		}
	}
	return ip("link", "set", l.tap(i), "master", virtualSwitch)
}

// set sets this end of a cable up; this machine's kernel sends nothing of its own into it.
func (l lasting) set(i int) error {
	if out, err := exec.Command("sh", "-c", fmt.Sprintf("echo 1 >/proc/sys/net/ipv6/conf/%[1]s/disable_ipv6; ip link set %[1]s up", l.tap(i))).CombinedOutput(); err != nil {
		return fmt.Errorf("set %s up: %w: %s", l.tap(i), err, out)
	}
	return nil
}

func (l lasting) tap(i int) string { return fmt.Sprintf("%s-%d", l.name, i) }

// keys makes the board's host key, which is public, and the key that it lets in.
func (l lasting) keys() (public []byte, err error) {
	for _, key := range []string{"host", "id"} {
		if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", l.name, "-f", l.at(key)).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("make a key: %w: %s", err, out)
		}
	}
	return os.ReadFile(l.at("host.pub"))
}

// reachable writes the configuration by which ssh reaches the board: it goes there by way,
// and knows the public key under a name.
func (l lasting) reachable(known, way string, public []byte) error {
	config := fmt.Sprintf("Host %[1]s\n\t%[2]s\n\tUser root\n\tIdentityFile %[3]s\n\tIdentitiesOnly yes\n\tUserKnownHostsFile %[4]s\n", l.name, way, l.at("id"), l.at("known_hosts"))
	return errors.Join(os.WriteFile(l.at("known_hosts"), fmt.Appendf(nil, "%s %s", known, public), 0o600), os.WriteFile(l.at("ssh_config"), []byte(config), 0o600))
}

// freePort is a TCP port of the namespace's loopback on which nothing listens.
func freePort() (int, error) {
	for port := firstPort; port < firstPort+99; port++ {
		if l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
			return port, l.Close()
		}
	}
	return 0, errors.New("no TCP port between 2201 and 2299 is free on 127.0.0.1")
}

// firstPort is that of ssh to the first board.
const firstPort = 2201

func (l lasting) qemuArguments(kernel string, port int) ([]string, error) {
	args := append([]string{"-accel", "tcg,thread=multi"}, l.machine...)
	extra := ""
	if l.systemd {
		extra = " systemd.getty_auto=0 systemd.mask=getty-static.service"
	}
	args = append(args, "-smp", strconv.Itoa(l.cpus), "-m", strconv.Itoa(l.memory), "-nodefaults", "-no-user-config", "-display", "none", "-daemonize", "-name", "board-"+l.name,
		"-kernel", kernel, "-initrd", l.at("initramfs"), "-append", "console="+l.console+" panic=1 loglevel=4 mitigations=off "+job.Emulated+extra,
		"-pidfile", l.at("pid"), "-serial", "file:"+l.at("console"), "-qmp", "unix:"+l.at("qmp")+",server=on,wait=off",
		"-drive", "if=none,id=disk,format=raw,snapshot=on,file="+l.image, "-device", "virtio-blk-pci,drive=disk",
		"-netdev", fmt.Sprintf("user,id=ssh,restrict=on,ipv6=off,hostfwd=tcp:127.0.0.1:%d-:22", port), "-device", "virtio-net-pci,netdev=ssh,id=ssh,romfile=,mac=02:00:00:00:00:01")
	has, err := devices(l.qemu, nil)
	if err != nil {
		return nil, err
	}
	for i, n := range l.nics {
		model, other, wired := strings.Cut(n, "@")
		queues, device := 1, model
		if model == "virtio-net" {
			device = "virtio-net-pci"
			if !wired || other == virtualSwitch {
				queues, device = 4, "virtio-net-pci,mq=on,vectors=10"
			}
		} else if model != "e1000e" && model != "igb" {
			return nil, fmt.Errorf("port %q: the models are virtio-net, e1000e and igb", n)
		} else if !slices.Contains(has, model) {
			return nil, fmt.Errorf("%s has no %s, which needs QEMU 8.0 or newer: install it from the distribution's backports", l.qemu, model)
		}
		netdev := fmt.Sprintf("tap,id=n%d,ifname=%s,script=no,downscript=no,queues=%d", i, l.tap(i), queues)
		if wired && other != virtualSwitch {
			netdev = fmt.Sprintf("dgram,id=n%d,local.type=unix,local.path=%s,remote.type=unix,remote.path=%s", i, l.at("to-"+other), filepath.Join(benches, l.bench, other, "to-"+l.name))
		}
		args = append(args, "-netdev", netdev, "-device", fmt.Sprintf("%s,netdev=n%d,id=p%d,romfile=,addr=0x%x,mac=02:00:00:%02x:01:%02x", device, i, i, firstSlot+2*i, l.number, i))
	}
	return args, nil
}

// firstSlot is the PCI slot of the first port. Ports stand two apart, because an igb keeps
// the slots 16 and 17 above its own for virtual functions.
const firstSlot = 4

// awaitSSH waits until the board lets in, and runs since another start than before, which is
// boot's answer; "": any. A connection that a reset cuts off is given up.
func (l lasting) awaitSSH(limit time.Duration, before string) error {
	deadline := time.Now().Add(limit)
	for {
		now, said, err := l.boot()
		if err == nil && now != before {
			return nil
		}
		if time.Now().After(deadline) || !l.cabled() && !l.alive() {
			console, _ := os.ReadFile(l.at("console"))
			return fmt.Errorf("board %s does not answer: ssh says %q; its console ends with:\n%s", l.name, said, tail(string(console), 20))
		}
		time.Sleep(300 * time.Millisecond)
	}
}

// boot is what the kernel calls this start of the board, and what ssh says beside it.
func (l lasting) boot() (id, said string, err error) {
	cmd := exec.Command("ssh", "-F", l.at("ssh_config"), "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes", "-o", "ConnectTimeout=20", "-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=4", l.name, "cat /proc/sys/kernel/random/boot_id")
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	return strings.TrimSpace(string(out)), strings.TrimSpace(errs.String()), err
}

// pid is QEMU's; 0 if it is gone.
func (l lasting) pid() int {
	data, err := os.ReadFile(l.at("pid"))
	if err != nil {
		return 0
	}
	pid, _ := strconv.Atoi(strings.TrimSpace(string(data)))
	line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if !strings.Contains(string(line), l.at("pid")) {
		return 0
	}
	return pid
}

func (l lasting) alive() bool { return l.pid() != 0 }

// stop ends QEMU and removes what the board left here.
func (l lasting) stop() error {
	if pid := l.pid(); pid != 0 {
		if p, err := os.FindProcess(pid); err == nil {
			_ = p.Kill() // it may have ended
		}
		for begin := time.Now(); l.alive(); time.Sleep(20 * time.Millisecond) {
			if time.Since(begin) > 10*time.Second {
				return fmt.Errorf("board %s: QEMU (process %d) does not end", l.name, pid)
			}
		}
	}
	if _, err := os.Stat("/run/netns/" + l.namespace()); err == nil {
		if err := ip("netns", "del", l.namespace()); err != nil {
			return err
		}
	}
	return os.RemoveAll(l.dir())
}
