// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"boxdyno/host"
)

// peerTools are programs that had to be made, or why they are not there.
type peerTools struct {
	sendmmsg string
	noCC     string
}

// buildPeers compiles peers/sendmmsg.c.
func buildPeers(ctx context.Context, dir string) (peerTools, error) {
	local := &host.Local{}
	if err := host.Has("cc"); err != nil {
		return peerTools{noCC: "not built: " + err.Error()}, nil
	}
	out := filepath.Join(dir, "sendmmsg")
	if _, err := local.Run(ctx, "", "cc", "-O2", "-o", out, "script/proof/bench/peers/sendmmsg.c"); err != nil {
		return peerTools{}, err
	}
	return peerTools{sendmmsg: out}, nil
}

// peers are what others use, the one that all are compared with first. Each is
// bound to CPU 0 and sends until it is stopped.
func peers(t peerTools) []sender {
	return []sender{
		{tcpreplay, 1, func(ctx context.Context, b *bed, l *load) error {
			return flood(ctx, b, "tcpreplay", "-q", "-t", "-K", "--loop", "0", "-i", b.tx.Name, l.capture)
		}},
		{"trafgen", 1, trafgen},
		{"hping3 --flood", 1, hping},
		{"iperf3 -u", 1, iperf},
		{sendmmsg, 1, func(ctx context.Context, b *bed, l *load) error {
			if t.sendmmsg == "" {
				return &absent{t.noCC}
			}
			return flood(ctx, b, t.sendmmsg, "-i", b.tx.Name, "-f", l.capture, "-t", "60")
		}},
		{"xdp-trafficgen", 1, xdpTrafficgen},
	}
}

// flood runs a program in the sender's namespace on CPU 0 until ctx ends; one that
// fails is absent, with what it says. It has a process namespace of its own, which
// ends with it: trafgen's workers outlive their parent, and would send on beside
// whoever is measured next.
func flood(ctx context.Context, b *bed, argv ...string) error {
	if err := host.Has(argv[0]); err != nil && !filepath.IsAbs(argv[0]) {
		return &absent{err.Error()}
	}
	_, err := b.sender.Run(ctx, "", append([]string{"unshare", "--pid", "--fork", "--kill-child", "taskset", "-c", "0"}, argv...)...)
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return &absent{err.Error()}
	}
	return err
}

func trafgen(ctx context.Context, b *bed, l *load) error {
	if l.spec == nil {
		return &absent{"it sends descriptions, not captures"}
	}
	var cfg strings.Builder
	for _, f := range l.frames[:len(l.spec.Sizes)] {
		cfg.WriteString("{\n")
		for _, octet := range f {
			fmt.Fprintf(&cfg, "0x%02x, ", octet)
		}
		cfg.WriteString("\n}\n")
	}
	name := filepath.Join(filepath.Dir(l.capture), "trafgen.cfg")
	if err := os.WriteFile(name, []byte(cfg.String()), 0o600); err != nil {
		return err
	}
	return flood(ctx, b, "trafgen", "--cpus", "1", "--no-sock-mem", "--in", name, "--out", b.tx.Name)
}

func hping(ctx context.Context, b *bed, l *load) error {
	if l.spec == nil || len(l.spec.Sizes) > 1 {
		return &absent{"it sends one size"}
	}
	if !b.separate {
		return &absent{"it asks for an address at its port, and the testbed's have none"}
	}
	payload := int(l.spec.Sizes[0]) - 46 // Ethernet, IPv4, UDP, FCS
	return flood(ctx, b, "hping3", "--flood", "--udp", "-q", "-n", "-I", b.tx.Name, "-p", "9", "-d", strconv.Itoa(payload), b.dst.String())
}

func iperf(ctx context.Context, b *bed, l *load) error {
	switch {
	case l.spec == nil || len(l.spec.Sizes) > 1:
		return &absent{"it sends one size"}
	case !b.separate:
		return &absent{"both its ends would stand in one namespace, which is not left"}
	case b.dropsAll:
		return &absent{"its control connection does not get through"}
	}
	if err := host.Has("iperf3"); err != nil {
		return &absent{err.Error()}
	}
	serving, stop := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() {
		_, err := b.receiver.Run(serving, "", "taskset", "-c", "0", "iperf3", "-s", "-1", "-B", b.dst.String())
		served <- err
	}()
	payload := int(l.spec.Sizes[0]) - 46
	err := errors.New("iperf3's server is not ready")
	for range 50 {
		if ctx.Err() != nil {
			break
		}
		if err = flood(ctx, b, "iperf3", "-c", b.dst.String(), "-u", "-b", "0", "-l", strconv.Itoa(payload), "-t", "60"); err == nil || !strings.Contains(err.Error(), "refused") {
			break
		}
	}
	stop()
	<-served
	return err
}

func xdpTrafficgen(ctx context.Context, b *bed, l *load) error {
	if err := host.Has("xdp-trafficgen"); err != nil {
		return &absent{"not installed (package xdp-tools)"}
	}
	if _, err := b.sender.Run(ctx, "", "xdp-trafficgen", "probe"); ctx.Err() != nil {
		return nil
	} else if err != nil {
		return &absent{"it does not load on this kernel: " + err.Error()}
	}
	if l.spec == nil || len(l.spec.Sizes) > 1 {
		return &absent{"it sends one size"}
	}
	mac := func(m [6]byte) string {
		return fmt.Sprintf("%02x:%02x:%02x:%02x:%02x:%02x", m[0], m[1], m[2], m[3], m[4], m[5])
	}
	return flood(ctx, b, "xdp-trafficgen", "udp", b.tx.Name, "-t", "1", "-m", mac(b.txMAC), "-M", mac(b.gateway), "-a", b.src.String(), "-A", b.dst.String())
}
