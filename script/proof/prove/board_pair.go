// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"boxdyno/result"
)

// pairLimit is how long a run between two boards may take.
const pairLimit = 15 * time.Minute

// pairRuns are what two boards with a cable between them carry: streams, all tunnels with the
// one cipher that each has, and OpenVPN and IPsec with another one, too. What differs with one
// cipher is the way of a packet.
var pairRuns = [][]string{
	{"stream", "--set", "protocol=tcp,udp"},
	{"vpn", "--set", "traffic=tcp", "--set", "handshakes=3", "--set", "tunnel=wireguard,openvpn,ipsec,openvpn-dco", "--set", "cipher=chacha20-poly1305"},
	{"vpn", "--set", "traffic=tcp", "--set", "handshakes=3", "--set", "tunnel=openvpn,ipsec", "--set", "cipher=aes-128-gcm"},
}

// boardPairs starts two boards with a cable between ports of each model, and prints what
// they carry, in which order, and what a megabit costs them. It returns how many points are
// neither measured nor skipped by name, and whether kernel WireGuard or OpenVPN is missing.
func boardPairs(ctx context.Context, dir, arch string, models []string) (failed int, err error) {
	fmt.Printf("| cable | point | seen |\n|---|---|---|\n")
	for _, model := range models {
		n, err := boardPair(ctx, filepath.Join(dir, model), arch, model)
		if failed += n; err != nil {
			return failed, err
		}
	}
	return failed, nil
}

func boardPair(ctx context.Context, dir, arch, model string) (failed int, err error) {
	names := [2]string{"p", "q"}
	for i, name := range names {
		if _, err := board(ctx, "--start", name, "--arch", arch, "--nice", boardNice, "--cpus", "2", "--memory", "768", "--nic", model+"@"+names[1-i]); err != nil {
			return 0, fmt.Errorf("start a board with %s: %w", model, err)
		}
		defer func() {
			_, stopped := board(context.WithoutCancel(ctx), "--stop", name)
			err = errors.Join(err, stopped)
		}()
		if _, err := board(ctx, "--in", "boxdyno", "box", "add", name, "--ssh", name); err != nil {
			return 0, fmt.Errorf("box add: %w", err)
		}
	}
	points := map[string]result.Record{}
	for i, words := range pairRuns {
		out := filepath.Join(dir, fmt.Sprint("run", i))
		limited, cancel := context.WithTimeout(ctx, pairLimit)
		args := append([]string{"--in", "boxdyno", "run"}, words...)
		_, err := board(limited, append(args, "--box", strings.Join(names[:], ","), "--set", "port_a=p0", "--set", "dut_a=p0", "--quick", "--quiet", "--out", out)...)
		cancel()
		var exit *exec.ExitError
		if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1 && exit.ExitCode() != 3 && exit.ExitCode() != 4) { // 3: a tunnel that the kernel lacks
			return failed, fmt.Errorf("run %s: %w", words[0], err)
		}
		_, recs, err := result.Open(out)
		if err != nil {
			return failed, err
		}
		for _, r := range recs {
			if r.Parent != "" {
				continue
			}
			name := strings.TrimSpace(words[0] + " " + setting(r, "protocol") + setting(r, "tunnel") + " " + setting(r, "cipher"))
			seen, works := pairCell(r)
			if !works {
				failed++
			}
			points[name] = r
			fmt.Printf("| %s, emulated %s | %s | %s |\n", model, arch, name, seen)
		}
	}
	said, ordered := inOrder(points["vpn wireguard chacha20-poly1305"], points["vpn openvpn chacha20-poly1305"])
	if !ordered {
		failed++
	}
	fmt.Printf("| %s, emulated %s | order | %s |\n", model, arch, said)
	return failed, nil
}

func setting(r result.Record, key string) string {
	for _, p := range r.Config {
		if p.Key == key {
			return p.Value
		}
	}
	return ""
}

func figure(r result.Record, name string) float64 {
	if v := r.Value(name); v != nil {
		return v.Value
	}
	return 0
}

// pairCell is what a point between two boards carried and cost, or why it did not.
func pairCell(r result.Record) (seen string, works bool) {
	if r.Status == result.Skipped {
		return "skipped: " + last(r.Reason), true
	}
	if r.Status != result.Passed || figure(r, "goodput_bps") == 0 {
		return fmt.Sprintf("%s: %s", r.Status, last(r.Reason)), false
	}
	seen = fmt.Sprintf("%.1f Mbit/s, CPU %.3f s a megabit", figure(r, "goodput_bps")/1e6, figure(r, "cpu_per_mbit_s"))
	if v := r.Value("daemon_cpu_per_mbit_s"); v != nil {
		seen += fmt.Sprintf(", of it the tunnel's programs %.3f s", v.Value)
	}
	if v := r.Value("baseline_goodput_bps"); v != nil {
		seen += fmt.Sprintf("; without a tunnel %.1f Mbit/s, %.3f s", v.Value/1e6, figure(r, "baseline_cpu_per_mbit_s"))
	}
	if v := r.Value("handshake_s"); v != nil {
		seen += fmt.Sprintf("; handshake %.0f ms", 1e3*v.Value)
	}
	if v := r.Value("datagrams_lost_ratio"); v != nil {
		seen += fmt.Sprintf("; %.0f %% of the datagrams lost", 100*v.Value)
	}
	return seen, true
}

// inOrder says which of the two carries more, and what a megabit costs each beyond the
// same without a tunnel. It is false if one of them was not measured.
func inOrder(wireguard, openvpn result.Record) (said string, ordered bool) {
	w, o := figure(wireguard, "goodput_bps"), figure(openvpn, "goodput_bps")
	if w == 0 || o == 0 {
		return "not known: one of them was not measured", false
	}
	extra := func(r result.Record) float64 {
		return figure(r, "cpu_per_mbit_s") - figure(r, "baseline_cpu_per_mbit_s")
	}
	return fmt.Sprintf("WireGuard carries %.2f times what OpenVPN does (a published study of boards says 10); a tunnelled megabit costs %.3f s more CPU time than a bare one, with OpenVPN %.3f s, of which its programs have %.3f s",
		w/o, extra(wireguard), extra(openvpn), figure(openvpn, "daemon_cpu_per_mbit_s")), true
}
