// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"bufio"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"time"

	"boxdyno/host"
	"boxdyno/subject/internal/program"
	"boxdyno/unit"
)

// wireguardGo is WireGuard as a program, which is told what to do over a socket
// (WireGuard's cross-platform interface). The socket is in a mount namespace of the
// program's own, so that a killed one leaves none.
var wireguardGo = tunnelKind{
	name: "wireguard-go", doc: "WireGuard as a program: stands in where the kernel has none", ciphers: wireguard.ciphers,
	check: func(_ context.Context, h *host.Local, _ string) error {
		return errors.Join(h.Has("wireguard-go"), hasTun())
	},
	keys: wgKeys, open: openWireGuardGo,
}

// hasTun is a *host.Missing where programs cannot make tunnel devices.
func hasTun() error {
	f, err := os.OpenFile("/dev/net/tun", os.O_RDWR, 0)
	if err != nil {
		return noTun(err)
	}
	return f.Close()
}

// noTun is what to do where /dev/net/tun could not be opened.
func noTun(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return host.Privilege("make tunnel devices")
	}
	return &host.Missing{What: fmt.Sprintf("tunnel devices of programs (%v)", err), Remedy: [][]string{{"modprobe", "tun"}}}
}

const wireGuardGoScript = `mount -t tmpfs tmpfs /var/run && exec wireguard-go -f ` + tunnelDevice

func openWireGuardGo(ctx context.Context, h *Half) error {
	peer, err := h.wgPeer()
	if err != nil {
		return err
	}
	h.driver = "wireguard-go " + wireGuardGoVersion(ctx, h.at)
	// Without the variable it would refuse where the kernel may have WireGuard.
	env := append(os.Environ(), "WG_I_PREFER_BUGGY_USERSPACE_TO_POLISHED_KMOD=1", "LOG_LEVEL=error")
	if h.at.Netns == "" { // else a private program has a network namespace of its own
		at := *h.at
		at.Netns = "/proc/self/ns/net"
		h.at = &at
	}
	if err := h.startDaemon(ctx, host.Cmd{Argv: []string{"sh", "-c", wireGuardGoScript}, Env: env, Private: true}); err != nil {
		return err
	}
	d := h.daemon
	d.name = "wireguard-go"
	if !d.process.Private {
		return host.Privilege("give wireguard-go a mount namespace of its own")
	}
	if _, err := h.awaitDevice(ctx); err != nil {
		return fmt.Errorf("wireguard-go: %w", err)
	}
	if err := d.tell(ctx, "private_key="+hex.EncodeToString(peer.private[:]), fmt.Sprintf("listen_port=%d", peer.port), peer.words()); err != nil {
		return err
	}
	h.fresh = func(ctx context.Context) (begun unit.Instant, err error) {
		if err := host.Pause(ctx, wgSessionPause); err != nil {
			return begun, err
		}
		err = d.tell(ctx, "public_key="+hex.EncodeToString(peer.peer[:]), "remove=true")
		begun = unit.Now()
		return begun, errors.Join(err, d.tell(ctx, peer.words()))
	}
	return h.join()
}

// words are what makes the other end its peer.
func (p wgPeer) words() string {
	return fmt.Sprintf("public_key=%x\nendpoint=%v\nreplace_allowed_ips=true\nallowed_ip=%v", p.peer, p.endpoint, p.allowed)
}

// tell sets what the words say.
func (d *daemon) tell(ctx context.Context, words ...string) error {
	p, _ := d.now()
	late := time.Now().Add(upPatience)
	for {
		conn, err := net.Dial("unix", d.socket(p.PID))
		if err == nil {
			defer conn.Close()
			return converse(conn, words)
		}
		if err := d.ended(); err != nil {
			return err
		}
		if time.Now().After(late) {
			return fmt.Errorf("wireguard-go opened no socket within %v: %w", upPatience, err)
		}
		if err := host.Pause(ctx, 5*time.Millisecond); err != nil {
			return err
		}
	}
}

// socket is where the program of an ID is told what to do: /var/run leads to /run on
// most systems, and a link is followed from here.
func (d *daemon) socket(pid int) string {
	for _, dir := range []string{"run", "var/run"} {
		name := fmt.Sprintf("/proc/%d/root/%s/wireguard/%s.sock", pid, dir, tunnelDevice)
		if _, err := os.Stat(name); err == nil {
			return name
		}
	}
	return fmt.Sprintf("/proc/%d/root/run/wireguard/%s.sock", pid, tunnelDevice)
}

func converse(conn net.Conn, words []string) error {
	if err := conn.SetDeadline(time.Now().Add(upPatience)); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(conn, "set=1\n%s\n\n", strings.Join(words, "\n")); err != nil {
		return fmt.Errorf("tell wireguard-go: %w", err)
	}
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		if code, ok := strings.CutPrefix(lines.Text(), "errno="); ok {
			if code != "0" {
				return fmt.Errorf("wireguard-go refused its configuration: errno %s", code)
			}
			return nil
		}
	}
	return errors.New("wireguard-go did not answer")
}

// wireGuardGoVersion is the last word of the first line that it says of itself.
func wireGuardGoVersion(ctx context.Context, h *host.Local) string {
	out, _ := program.Within(ctx, h, program.VersionPatience, "", "wireguard-go", "--version") // else it is not known
	first, _, _ := strings.Cut(string(out), "\n")
	f := strings.Fields(first)
	if len(f) == 0 {
		return "of an unknown version"
	}
	return f[len(f)-1]
}
