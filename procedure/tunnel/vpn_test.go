// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"boxdyno/host"
	"boxdyno/internal/testutil"
	"boxdyno/lab"
	"boxdyno/procedure"
	"boxdyno/procedure/internal/roomtest"
	"boxdyno/result"
	"boxdyno/subject/tunnel"
	"boxdyno/unit"
	"boxdyno/verdict"
)

// set makes a procedure with parameters.
func set(t *testing.T, p procedure.Procedure, params ...string) procedure.Procedure {
	t.Helper()
	fs := flag.NewFlagSet("", flag.ContinueOnError)
	p.Flags(fs)
	for _, kv := range params {
		k, v, _ := strings.Cut(kv, "=")
		if err := fs.Set(k, v); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

func TestVPNMistakes(t *testing.T) {
	for params, want := range map[string]string{
		"tunnel=ipsec cipher=chacha20-poly1305":   "",
		"frame_size=1438":                         "",
		"frame_size=1439":                         "a tunnel takes frames of up to 1438 octets",
		"frame_size=imix":                         "do not fit into a tunnel",
		"traffic=tcp frame_size=1518":             "", // no frames
		"tunnel=openvpn traffic=udp frame_size=9": "frame",
	} {
		fs := flag.NewFlagSet("", flag.ContinueOnError)
		p := newVPN()
		p.Flags(fs)
		var err error
		for _, kv := range strings.Fields(params) {
			k, v, _ := strings.Cut(kv, "=")
			err = errors.Join(err, fs.Set(k, v))
		}
		if err == nil {
			err = p.Check(nil)
		}
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", params, err, want)
		}
	}
	narrow := &lab.Testbed{Facts: lab.Facts{Topology: lab.Gateways, Ports: []lab.Port{{MTU: 1499}, {MTU: 1500}}}}
	if err := set(t, newVPN(), "traffic=tcp").Check(narrow); err == nil || !strings.Contains(err.Error(), "mtu 1499") {
		t.Errorf("a cable that cuts a tunnel's datagrams: %v", err)
	}
	if err := set(t, newVPN(), "traffic=tcp", "tunnel=none").Check(narrow); err != nil {
		t.Errorf("without a tunnel: %v", err)
	}
}

// Axes of tunnels and ciphers have pairs that are not there; the others are measured.
func TestVPNLacksCipher(t *testing.T) {
	for params, want := range map[string]string{
		"tunnel=wireguard cipher=aes-128-gcm": "tunnel wireguard has no cipher aes-128-gcm: it has chacha20-poly1305",
		"tunnel=none cipher=aes-128-gcm":      "cipher aes-128-gcm: tunnel none enciphers nothing",
	} {
		p := set(t, newVPN(), strings.Fields(params)...)
		if err := p.Check(nil); err != nil {
			t.Errorf("%s: %v", params, err)
		}
		if o, err := p.Run(t.Context(), &procedure.Env{}); err != nil || o.Status != result.Skipped || o.Reason != want {
			t.Errorf("%s: %+v, %v", params, o, err)
		}
	}
}

// Reports of iperf3 3.12, cut to their ends.
func TestReadStream(t *testing.T) {
	tcp := `{"end":{"sum_sent":{"seconds":1.000082,"bytes":96468992,"bits_per_second":771688657,"retransmits":12,"sender":true},"sum_received":{"seconds":1.0005,"bytes":95158272,"bits_per_second":760885733,"sender":true},"sender_tcp_congestion":"cubic"},"start":{"version":"iperf 3.12"}}`
	got, err := readStream([]byte(tcp), false)
	if err != nil || got.Sent != 771688657 || got.Received != 760885733 || got.Octets != 95158272 || got.Retransmits != 12 || got.By != "iperf 3.12, TCP cubic" {
		t.Errorf("TCP: %+v, %v", got, err)
	}
	// The last ten datagrams were under way when it ended: no gap, and not arrived.
	sum := `"sum":{"start":0,"end":2,"seconds":2,"bytes":280000,"bits_per_second":1120000,"jitter_ms":0.01,"lost_packets":50,"packets":200,"lost_percent":25}`
	udp := `{"end":{` + sum + `,"sum_sent":{"seconds":2,"bytes":280000,"bits_per_second":1120000,"packets":200},"sum_received":{"seconds":2,"bytes":196000,"bits_per_second":784000,"lost_packets":50,"packets":200}}}`
	got, err = readStream([]byte(udp), true)
	if err != nil || got.Sent != 1120000 || got.Received != 784000 || got.Octets != 196000 || math.Abs(got.LostRatio-0.3) > 1e-9 || *got.Datagrams != (datagrams{Sent: 200, Lost: 50, Jitter: 1e-5}) {
		t.Errorf("UDP: %+v, %v", got, err)
	}
	got, err = readStream([]byte(`{"end":{`+sum+`}}`), true) // of an iperf3 before 3.12
	if err != nil || got.Sent != 1120000 || got.Received != 840000 || got.Octets != 210000 || got.LostRatio != 0.25 {
		t.Errorf("UDP: %+v, %v", got, err)
	}
	for text, want := range map[string]string{
		`{"error":"error - unable to connect to server: Connection refused"}`: "iperf3: unable to connect",
		`{"end":{}}`: "no sums",
		`oops`:       "no JSON",
	} {
		if _, err := readStream([]byte(text), true); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// gatewaysEnv runs trials at once between two gateways.
func gatewaysEnv(t *testing.T, recs *[]result.Record) *procedure.Env {
	t.Helper()
	testutil.Privileged(t)
	testutil.Alone(t)
	i := slices.IndexFunc(lab.All, func(s lab.Spec) bool { return s.Name == lab.Gateways })
	bed, err := lab.All[i].New().Build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := bed.Close(); err != nil {
			t.Error(err)
		}
	})
	return &procedure.Env{Bed: bed, Trial: func(ctx context.Context, cfg []result.Pair, f func(context.Context) (procedure.Outcome, error)) (result.Record, error) {
		o, err := f(ctx)
		r := result.Record{Config: cfg, Status: o.Status, Reason: o.Reason, Values: o.Values, Usage: o.Usage, Warnings: o.Warnings}
		*recs = append(*recs, r)
		return r, err
	}}
}

// needs skips where a program is not installed.
func needs(t *testing.T, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if err := host.Has(p); err != nil {
			t.Skip(err)
		}
	}
}

func TestVPNStreams(t *testing.T) {
	needs(t, "iperf3", "wireguard-go")
	var recs []result.Record
	env := gatewaysEnv(t, &recs)
	o, err := set(t, newVPN(), "tunnel=wireguard-go", "traffic=tcp", "trials=1", "handshakes=2").Run(t.Context(), env)
	if err != nil || o.Status != result.Passed {
		t.Fatalf("%v %s: %v", o.Status, o.Reason, err)
	}
	have := map[string]float64{}
	for _, v := range o.Values {
		have[v.Metric] = v.Value
	}
	var order []string
	for _, r := range recs {
		order = append(order, result.Get(r.Config, "trial"))
	}
	if got, want := strings.Join(order, ", "), "stream without, handshakes, stream"; got != want {
		t.Errorf("trials %s, want %s", got, want)
	}
	if !slices.ContainsFunc(o.Warnings, func(w string) bool { return strings.HasPrefix(w, "iperf 3.") }) || !slices.ContainsFunc(o.Warnings, func(w string) bool { return strings.Contains(w, "by wireguard-go") }) {
		t.Errorf("notes %q", o.Warnings)
	}
	for _, m := range []string{"goodput_bps", "baseline_goodput_bps", "goodput_share", "handshake_s", "startup_s", "cpu_per_mbit_s", "daemon_cpu_per_mbit_s", "subject_memory_bytes"} {
		if have[m] <= 0 {
			t.Errorf("%s is %g", m, have[m])
		}
	}
}

// The side that is first changes each time, the last is the tunnel's, and without a
// tunnel there is one side.
func TestVPNTurns(t *testing.T) {
	for _, c := range []struct {
		n      int
		tunnel *tunnel.Tunnel
		want   string
	}{
		{1, &tunnel.Tunnel{}, "without0 with0"},
		{2, &tunnel.Tunnel{}, "with0 without0 without1 with1"},
		{3, &tunnel.Tunnel{}, "without0 with0 with1 without1 without2 with2"},
		{2, nil, "with0 with1"},
	} {
		var got []string
		err := (&vpnPoint{tunnel: c.tunnel}).turns(c.n, func(n int, with bool) error {
			got = append(got, fmt.Sprintf("%s%d", map[bool]string{true: "with", false: "without"}[with], n))
			return nil
		})
		if err != nil || strings.Join(got, " ") != c.want {
			t.Errorf("%d turns: %v, want %s: %v", c.n, got, c.want, err)
		}
	}
}

// brokenVPN is an OpenVPN that ends at once, or does nothing.
func brokenVPN(t *testing.T, script string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "openvpn"), []byte("#!/bin/sh\n[ \"$1\" = --version ] && exit 0\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	t.Setenv("TMPDIR", t.TempDir())
}

func TestVPNCrash(t *testing.T) {
	var recs []result.Record
	env := gatewaysEnv(t, &recs)
	brokenVPN(t, "echo 'Options error: I do not like it'; echo 'Use --help for more information.'; exit 7\n")
	o, err := set(t, newVPN(), "tunnel=openvpn", "traffic=tcp", "trials=2").Run(t.Context(), env)
	if err != nil || o.Status != result.Failed || !strings.Contains(o.Reason, "I do not like it") || strings.Contains(o.Reason, "\n") {
		t.Errorf("%v %q: %v", o.Status, o.Reason, err)
	}
	if left, _ := filepath.Glob(filepath.Join(os.TempDir(), "*")); len(left) > 0 {
		t.Errorf("it left %v", left)
	}
	// The networks have their own way again.
	needs(t, "iperf3")
	s := stream{from: env.Bed.Gateways[0], to: env.Bed.Gateways[1], connections: 1, length: time.Second}
	if got, err := s.run(t.Context()); err != nil || got.Received <= 0 {
		t.Errorf("%+v, %v", got, err)
	}
}

// CPU time is that of the stream, without the start of the programs.
func TestStreamWindow(t *testing.T) {
	real, err := exec.LookPath("iperf3")
	if err != nil {
		t.Skip("needs iperf3: run apt-get install iperf3")
	}
	var recs []result.Record
	env := gatewaysEnv(t, &recs)
	dir := t.TempDir()
	stamp := filepath.Join(dir, "starts")
	script := fmt.Sprintf("#!/bin/sh\ncase \"$*\" in *--client*) sleep 0.3; touch %s;; esac\nexec %s \"$@\"\n", stamp, real)
	if err := os.WriteFile(filepath.Join(dir, "iperf3"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	for _, udp := range []bool{false, true} {
		s := stream{from: env.Bed.Gateways[0], to: env.Bed.Gateways[1], udp: udp, connections: 2, length: time.Second, payload: streamPayload}
		begun, wall := unit.Now(), time.Now()
		got, err := s.run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		at, err := os.Stat(stamp)
		if err != nil {
			t.Fatal(err)
		}
		if begin := wall.Add(time.Duration(got.Begin - begun)); begin.Before(at.ModTime()) {
			t.Errorf("udp %v: counted from %v, and the client was started at %v", udp, begin, at.ModTime())
		}
		if d := time.Duration(got.End - got.Begin); d < 900*time.Millisecond {
			t.Errorf("udp %v: a stream of 1 s was counted for %v", udp, d)
		}
		var own time.Duration
		for _, u := range got.Usage {
			own += u.CPU
		}
		if got.Busy[0] < own.Seconds()/2 || got.Busy[1] != 0 {
			t.Errorf("udp %v: the machine was busy for %g s, and iperf3 alone for %v", udp, got.Busy, own)
		}
	}
}

// memory is a testbed in memory; cabled has a cable between gateways, too.
type memory interface {
	lab.Pather
	lab.Rester
	lab.Server
}

type cabled struct{ memory }

func (cabled) Direct(bool) error   { return nil }
func (cabled) Offloads(bool) error { return nil }

// What a tunnel's gateways swallow at first is no throughput of it.
func TestVPNBeyondMemory(t *testing.T) {
	const rate = 20e3
	bed := roomtest.Build(t, "mem", map[string]string{"capacity": "0", "ceiling": "80000", "dut.policer": fmt.Sprint(int(rate)), "dut.policer_burst": "2000"})
	bed.Means = cabled{bed.Means.(memory)}
	p := newVPN().(*VPN)
	roomtest.Assign(t, p.Flags, map[string]string{"tunnel": "none", "traffic": "udp"})
	trial := func(ctx context.Context, cfg []result.Pair, f func(context.Context) (procedure.Outcome, error)) (result.Record, error) {
		o, err := f(ctx)
		return judgedRecord(cfg, o), err
	}
	env := &procedure.Env{Bed: bed, Trial: trial}
	env.Once = func(ctx context.Context, _ string, cfg []result.Pair, f func(context.Context) (procedure.Outcome, error)) (result.Record, error) {
		return trial(ctx, cfg, f)
	}
	m := &vpnPoint{VPN: p, env: env, out: procedure.Outcome{Status: result.Passed}}
	if err := m.forwarded(t.Context()); err != nil {
		t.Fatal(err)
	}
	if v := roomtest.Figure(t, m.out, "throughput_fps"); math.Abs(v.Value/rate-1) > 0.01 {
		t.Errorf("throughput %v of a bucket of %v: %v", v.Value, rate, m.out.Warnings)
	}
	if v := roomtest.Figure(t, m.out, "burst_frames"); math.Abs(v.Value/2000-1) > 0.1 {
		t.Errorf("a bucket of 2000 frames is found as %v", v.Value)
	}
}

// judgedRecord is a trial's record as the runner would have it.
func judgedRecord(cfg []result.Pair, o procedure.Outcome) result.Record {
	r := result.Record{Config: cfg, Status: o.Status, Reason: o.Reason, Values: o.Values, Load: o.Load, Account: o.Account, Phases: o.Phases, Warnings: o.Warnings}
	r.Status, r.Reason = verdict.Validity(r, o.Ceiling)
	return r
}
