// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"fmt"
	"strings"
	"testing"

	"boxdyno/report"
	"boxdyno/result"
	"boxdyno/unit"
)

// tunnelRun is made up: a stream, and three tunnels, one of which is missing.
func tunnelRun() (result.Run, []result.Record) {
	run, _ := report.Firewall()
	run.ID, run.Role, run.Criteria, run.Warnings, run.NotMeasured, run.Deviations = "20260314T092653Z-vpn", "", nil, nil, nil, nil
	var recs []result.Record
	point := func(status result.Status, reason, procedure string, config []result.Pair, values ...result.Value) {
		now := unit.Instant(len(recs)) * 2e9
		recs = append(recs, result.Record{Schema: result.Schema, ID: fmt.Sprintf("%s/%d", procedure, len(recs)), Procedure: procedure, Repeat: 1,
			Status: status, Reason: reason, Start: report.Origin, Begin: now, End: now + 1e9, Config: config, Values: values})
	}
	val := func(metric string, sym unit.Symbol, v float64) result.Value {
		low, high := 0.98*v, 1.02*v
		return result.Value{Metric: metric, Unit: sym, Value: v, Lo: &low, Hi: &high, N: 3}
	}
	vpn := func(tunnel, cipher, traffic string) []result.Pair {
		return []result.Pair{{Key: "tunnel", Value: tunnel}, {Key: "cipher", Value: cipher}, {Key: "offloads", Value: "off"}, {Key: "traffic", Value: traffic}, {Key: "frame_size", Value: "1280"}, {Key: "connections", Value: "1"}}
	}
	streamed := func(goodput float64) []result.Value {
		return []result.Value{val("goodput_bps", "bit/s", goodput), val("baseline_goodput_bps", "bit/s", 8e9), val("goodput_share", "1", goodput/8e9),
			val("cpu_per_mbit_s", "s", 2.2e-3), val("baseline_cpu_per_mbit_s", "s", 230e-6), val("daemon_cpu_per_mbit_s", "s", 2e-3), val("handshake_s", "s", 0.7e-3), val("startup_s", "s", 0.05)}
	}
	point(result.Passed, "", "vpn", vpn("wireguard-go", "default", "tcp"), streamed(8e8)...)
	point(result.Passed, "", "vpn", vpn("openvpn", "aes-256-gcm", "tcp"), streamed(4e8)...)
	point(result.Skipped, "missing WireGuard in this kernel", "vpn", vpn("wireguard", "default", "tcp"))
	point(result.Passed, "", "vpn", vpn("openvpn", "default", "udp"), val("throughput_fps", "frame/s", 23_400), val("forwarding_rate_fps", "frame/s", 18_700), val("baseline_forwarding_fps", "frame/s", 1.09e6))
	point(result.Passed, "", "stream", []result.Pair{{Key: "protocol", Value: "udp"}, {Key: "offloads", Value: "on"}, {Key: "connections", Value: "4"}}, val("goodput_bps", "bit/s", 6e9), val("datagrams_lost_ratio", "1", 0.0145))
	return run, recs
}

func TestTunnels(t *testing.T) {
	d := report.Summarized(tunnelRun())
	var names []string
	tunnels := map[string]*report.Tunnel{}
	for _, r := range d.Rows {
		names = append(names, r.Name)
		tunnels[r.Name], _ = r.Block.(*report.Tunnel)
	}
	for _, want := range []string{"vpn, wireguard-go, offloads off", "vpn, openvpn, aes-256-gcm, offloads off", "vpn, openvpn, 1280 B, offloads off", "stream, udp, offloads on, 4 at once"} {
		if tunnels[want] == nil {
			t.Errorf("no row is %q: %q", want, names)
		}
	}
	if x := tunnels["vpn, wireguard-go, offloads off"]; x != nil && (!strings.Contains(x.Published, "10 times") || !strings.HasSuffix(x.Published, "2.0 to 1")) {
		t.Errorf("published beside WireGuard: %q", x.Published)
	}
	if x := tunnels["stream, udp, offloads on, 4 at once"]; x != nil && x.Published != "" {
		t.Errorf("published beside a stream: %q", x.Published)
	}
	got := printed(t, d)
	for _, want := range []string{"udp on 4 6.00 G", "wireguard-go default 800 M 784–816 M", "missing WireGuard in this kernel", "is 10 times as fast"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}
