// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"boxdyno/report"
	"boxdyno/result"
	"boxdyno/unit"
)

// boxRun is made up: what the runs of works, crypto and tunnels have, frames through
// tunnels at three sizes, and an encrypted disk, on a board with a meter.
func boxRun() (result.Run, []result.Record) {
	run, recs := worksRun()
	run.ID, run.Command = "20260314T092653Z-box", []string{"boxdyno", "run", "box"}
	run.Topology, run.Deviations = "here, gateways", []string{"each program of cpu runs for 1 s, 3 times, not for 10 s and 10 times"}
	for _, make := range []func() (result.Run, []result.Record){cryptoRun, tunnelRun} {
		_, more := make()
		recs = append(recs, more...)
	}
	now := func() unit.Instant { return unit.Instant(len(recs)) * 2e9 }
	val := func(metric string, sym unit.Symbol, v float64) result.Value {
		low, high := 0.97*v, 1.02*v
		return result.Value{Metric: metric, Unit: sym, Value: v, Lo: &low, Hi: &high, N: 3}
	}
	point := func(id, procedure string, config []result.Pair, values ...result.Value) {
		recs = append(recs, result.Record{Schema: result.Schema, ID: id, Procedure: procedure, Repeat: 1, Status: result.Passed,
			Start: report.Origin.Add(time.Duration(now())), Begin: now(), End: now() + 1e9, Config: config, Values: values})
	}
	trial := func(parent, procedure string, config []result.Pair, values ...result.Value) {
		recs = append(recs, result.Record{Schema: result.Schema, ID: fmt.Sprintf("%s/%d", parent, len(recs)), Parent: parent, Procedure: procedure, Repeat: 1, Status: result.Passed,
			Start: report.Origin.Add(time.Duration(now())), Begin: now(), End: now() + 1e9, Config: config, Values: values})
	}
	trial("vpn/0", "vpn", []result.Pair{{Key: "trial", Value: "handshakes"}})
	trial("vpn/0", "vpn", []result.Pair{{Key: "trial", Value: "stream without"}})
	trial("vpn/0", "vpn", []result.Pair{{Key: "trial", Value: "stream"}})
	trial("crypto/2", "crypto", []result.Pair{{Key: "trial", Value: "1"}, {Key: "driver", Value: "Botan_2.19.3"}}, val("encrypt_bytes_per_s", "B/s", 800<<20))
	for i, size := range []string{"64", "512", "1280"} {
		for j, tunnel := range []string{"none", "wireguard-go"} {
			rate := []float64{900_000, 40_000}[j] / float64(i+1)
			point(fmt.Sprintf("vpn/%s-%s", tunnel, size), "vpn", []result.Pair{{Key: "tunnel", Value: tunnel}, {Key: "cipher", Value: "default"}, {Key: "offloads", Value: "off"}, {Key: "traffic", Value: "udp"}, {Key: "frame_size", Value: size}, {Key: "connections", Value: "1"}},
				val("throughput_fps", "frame/s", 0.8*rate), val("forwarding_rate_fps", "frame/s", rate), val("forwarding_rate_bps", "bit/s", 8*64*rate), val("offered_fps", "frame/s", 1.2e6))
		}
	}
	for _, c := range []struct {
		cipher, spec string
		write        float64
		known        float64
	}{{"aes-xts", "aes-xts-plain64", 210e6, 1}, {"adiantum", "xchacha12,aes-adiantum-plain64", 120e6, 0}} {
		id := "storage/zram/" + c.cipher + "/0#1"
		cfg := []result.Pair{{Key: "device", Value: "zram"}, {Key: "cipher", Value: c.cipher}, {Key: "key_size", Value: "0"}}
		in := func(on, pattern string) []result.Pair {
			return append(cfg[:3:3], result.Pair{Key: "fio", Value: "fio-3.33"}, result.Pair{Key: "cryptsetup", Value: "2.6.1"}, result.Pair{Key: "cipher_spec", Value: c.spec}, result.Pair{Key: "key_bits", Value: "512"},
				result.Pair{Key: "trial", Value: on}, result.Pair{Key: "pattern", Value: pattern})
		}
		trial(id, "storage", in("plain", "write"))
		trial(id, "storage", in("luks2", "write"))
		trial(id, "storage", in("luks2", "randread"))
		point(id, "storage", cfg, val("storage_known_answer", "1", c.known),
			val("plain_write_octet_rate", "B/s", 420e6), val("luks2_write_octet_rate", "B/s", c.write), val("luks2_write_share", "1", c.write/420e6),
			val("plain_read_octet_rate", "B/s", 840e6), val("luks2_read_octet_rate", "B/s", 2*c.write), val("luks2_read_share", "1", c.write/420e6),
			val("plain_randwrite_iops", "1/s", 50e3), val("luks2_randwrite_iops", "1/s", 30e3), val("luks2_randwrite_share", "1", 0.6), val("luks2_randwrite_p99_s", "s", 600e-6), val("plain_randwrite_p99_s", "s", 350e-6),
			val("plain_randread_iops", "1/s", 60e3), val("luks2_randread_iops", "1/s", 33e3), val("luks2_randread_share", "1", 0.55))
	}
	return run, recs
}

// A run of several kinds of work says what the box can do, and what could not be measured.
func TestBox(t *testing.T) {
	run, recs := boxRun()
	d := report.Summarized(run, recs)
	want := "This box does 25.3 k DMIPS on all CPUs, encrypts 2.10 GB/s with aes-cbc-128, brings 800 Mbit/s through wireguard-go and writes 210 MB/s to a disk through dm-crypt."
	if d.Sentence != want || d.Verdict != result.Failed || report.VerdictWord(d) != "failed in part" {
		t.Errorf("%s: %q, want %q", report.VerdictWord(d), d.Sentence, want)
	}
	var names []string
	for _, p := range d.Powers {
		names = append(names, p.Name)
	}
	if !slices.Equal(names, []string{"Computing", "Hashing", "Memory", "Encoding", "Ciphers", "Handshakes", "Streams", "Tunnels", "Storage"}) {
		t.Errorf("powers are %q", names)
	}
	var said string
	for _, p := range d.Powers {
		said += p.Name + ": " + p.Text + "\n"
	}
	for _, want := range []string{"dhrystone: 6.83 k DMIPS on one CPU, 25.3 k on all (3.71 times)", "aes-cbc-128 at 800.0 MiB/s (botan); the fastest of all, on all CPUs: aes-cbc-128 at 2000.0 MiB/s (openssl)",
		"ed25519 signs 26.0 k/s", "UDP 6.00 Gbit/s with offloads on", "wireguard-go 800 Mbit/s (10.0 % of the cable's), openvpn with aes-256-gcm 400 Mbit/s (5.0 % of the cable's)",
		"aes-xts, 512 bits: 210 MB/s written through dm-crypt (50.0 % of what the disk does without)"} {
		if !strings.Contains(said, want) {
			t.Errorf("no %q in\n%s", want, said)
		}
	}
	if len(d.Skipped) != 4 || d.Skipped[0].Points[0] != "cpu, sysbench, 1 CPU" || !strings.Contains(d.Skipped[0].Reason, "apt-get install -y sysbench") {
		t.Errorf("skipped: %+v", d.Skipped)
	}
	if d.Bottleneck != nil || !strings.Contains(d.Caveat, "Two boxes would each carry more") {
		t.Errorf("bottleneck %v, caveat %q", d.Bottleneck, d.Caveat)
	}
	got := printed(t, d)
	at := -1
	for _, title := range []string{"What this box can do", "What could not be measured here", "Computing, on this machine's CPUs", "Ciphers: octets a second", "Asymmetric schemes", "Streams: payload that arrives", "An encrypted disk, written in sequence", "as published: one stream"} {
		next := strings.Index(got, title)
		if next <= at {
			t.Errorf("%q does not stand in its place", title)
		}
		at = next
	}
	if strings.Contains(got, "sysbench, 1 CPU -") {
		t.Error("a table has what was skipped")
	}
}

// Without a point that failed it is measured, or measured in part.
func TestBoxVerdict(t *testing.T) {
	run, recs := boxRun()
	for want, keep := range map[string]func(result.Record) bool{
		"measured in part": func(r result.Record) bool { return r.Status != result.Failed },
		"measured":         func(r result.Record) bool { return r.Status == result.Passed },
	} {
		d := report.Summarized(run, slices.DeleteFunc(slices.Clone(recs), func(r result.Record) bool { return !keep(r) }))
		if got := report.VerdictWord(d); got != want || !strings.HasPrefix(d.Sentence, "This box does") {
			t.Errorf("%q: %q, want %q", d.Sentence, got, want)
		}
	}
}

// Runs of one kind, or with something else in them, say it in their own way.
func TestNoBox(t *testing.T) {
	for name, make := range map[string]func() (result.Run, []result.Record){
		"work": workRun, "crypto": cryptoRun, "tunnels": tunnelRun,
		"forward too": func() (result.Run, []result.Record) {
			run, recs := boxRun()
			_, more := report.Firewall()
			run.Role, run.Criteria = "", nil
			return run, append(recs, more...)
		},
		"a role's": func() (result.Run, []result.Record) { run, recs := boxRun(); run.Role = "vpn"; return run, recs },
	} {
		if d := report.Summarized(make()); d.Powers != nil || d.Skipped != nil || strings.HasPrefix(d.Sentence, "This box") {
			t.Errorf("%s: %q, %v", name, d.Sentence, d.Powers)
		}
	}
}

// What only one procedure measured says what it found.
func TestStorageSummary(t *testing.T) {
	run, recs := boxRun()
	recs = slices.DeleteFunc(recs, func(r result.Record) bool { return r.Procedure != "storage" || !strings.Contains(r.ID, "aes-xts") })
	d := report.Summarized(run, recs)
	if want := "storage, zram, aes-xts, 512 bits: 210 MB/s written through dm-crypt (50.0 % of what the disk does without), 420 MB/s read through dm-crypt (50.0 % of what the disk does without)."; d.Summary != want {
		t.Errorf("%q, want %q", d.Summary, want)
	}
	if s := d.Rows[0].Block.(*report.Storage); s.Spec != "aes-xts-plain64" || s.Programs != "fio-3.33, cryptsetup 2.6.1" || s.Proven == nil || !*s.Proven {
		t.Errorf("%+v", s)
	}
}
