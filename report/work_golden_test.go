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

// worksRun is made up: a small board computing, hashing, using its memory and encoding,
// with two levels of optimisation, a buffer that 32 bits are too few for, a curve of
// latency, and an encoder that is not there.
func worksRun() (result.Run, []result.Record) {
	run, recs := workRun()
	run.ID = "20260314T092653Z-works"
	run.Command = []string{"boxdyno", "run", "study"}
	type pairs = []result.Pair
	now := recs[len(recs)-1].End
	val := func(metric string, u unit.Symbol, v float64) result.Value {
		low, high := 0.98*v, 1.03*v
		return result.Value{Metric: metric, Unit: u, Value: v, Lo: &low, Hi: &high, N: 3}
	}
	add := func(procedure string, status result.Status, reason string, cfg pairs, of pairs, values ...result.Value) string {
		id := fmt.Sprintf("%s/%d#1", procedure, len(recs))
		now += 2e9
		cfg = append(cfg, result.Pair{Key: "parallel", Value: "1"}, result.Pair{Key: "core_type", Value: "0"})
		if status == result.Passed {
			recs = append(recs, result.Record{
				Schema: result.Schema, ID: id + "/1", Parent: id, Procedure: procedure, Repeat: 1, Status: status, Start: report.Origin.Add(time.Duration(now)), Begin: now, End: now + 1e9,
				Config: append(append(slices.Clone(cfg), result.Pair{Key: "trial", Value: "1"}, result.Pair{Key: "on_cpus", Value: "3"}), of...),
				Values: []result.Value{{Metric: "loop_before_rps", Unit: "1/s", Value: 2e8}, {Metric: "loop_after_rps", Unit: "1/s", Value: 2e8}},
			})
			values = append(values, result.Value{Metric: "copies", Unit: "1", Value: 1}, result.Value{Metric: "work_cpu_s", Unit: "s", Value: 3.2})
		}
		recs = append(recs, result.Record{Schema: result.Schema, ID: id, Procedure: procedure, Config: cfg, Repeat: 1, Status: status, Reason: reason, Start: report.Origin, Begin: now, End: now + 15e8, Values: values})
		return id
	}
	dhrystone := pairs{{Key: "subject", Value: "dhrystone"}, {Key: "optimise", Value: "O0"}, {Key: "dictionary", Value: "22"}, {Key: "primes", Value: "10000"}, {Key: "duration", Value: "0s"}}
	made := pairs{{Key: "compiler", Value: "gcc_12"}, {Key: "flags", Value: "-O3"}, {Key: "bits", Value: "32"}, {Key: "size_of_each", Value: "2000000000"}}
	add("cpu", result.Passed, "", dhrystone, nil, val("dhrystones_per_s", "1/s", 5e6))
	add("cpu", result.Passed, "", pairs{{Key: "subject", Value: "sysbench"}, {Key: "primes", Value: "20000"}}, nil, val("sysbench_events_per_s", "1/s", 400))
	add("hash", result.Passed, "", pairs{{Key: "subject", Value: "openssl-dgst"}, {Key: "algorithm", Value: "sha1"}, {Key: "size", Value: "2000000000"}}, pairs{{Key: "version", Value: "OpenSSL_3.0.17"}}, val("hash_rate", "B/s", 3.1e8))
	memory := func(subject, size string) pairs {
		return pairs{{Key: "subject", Value: subject}, {Key: "size", Value: size}, {Key: "optimise", Value: "O3"}}
	}
	add("memory", result.Passed, "", memory("memory-bandwidth", "0"), made, val("memory_write_rate", "B/s", 3.4e9), val("memory_read_rate", "B/s", 4.1e9), val("memory_copy_rate", "B/s", 2.2e9), val("lock_s", "s", 1.2))
	add("memory", result.Failed, "a 32-bit program cannot lock 3.50 GB: it has addresses for 4 GiB, with a 32-bit kernel for about 3 GiB, and the most that this one could lock in one piece is 2.93 GB; a 64-bit userland can", memory("memory-bandwidth", "3500000000"), nil)
	add("memory", result.Passed, "", memory("memory-stream", "0"), made, val("stream_copy_rate", "B/s", 4.4e9), val("stream_triad_rate", "B/s", 4e9))
	walk := add("memory", result.Passed, "", memory("memory-latency", "0"), made, val("memory_latency_s", "s", 142e-9), val("cache_latency_s", "s", 2.2e-9))
	for round := range 3 {
		for i, at := range []int{4096, 49152, 1 << 20, 64 << 20} {
			now += 1e8
			recs = append(recs, result.Record{
				Schema: result.Schema, ID: fmt.Sprintf("%s/%d-%d", walk, round, at), Parent: walk, Procedure: "memory", Repeat: 1, Status: result.Passed, Start: report.Origin.Add(time.Duration(now)), Begin: now, End: now + 1e8,
				Config: append(pairs{{Key: "trial", Value: fmt.Sprint(round + 1)}, {Key: "working_set", Value: fmt.Sprint(at)}, {Key: "on_cpus", Value: "3"}}, made...),
				Values: []result.Value{{Metric: "load_latency_s", Unit: "s", Value: []float64{2.2e-9, 3.1e-9, 9e-9, 142e-9}[i] * (1 + float64(round)/100)}},
			})
		}
	}
	add("codec", result.Passed, "", pairs{{Key: "subject", Value: "flac"}, {Key: "length", Value: "0s"}}, pairs{{Key: "version", Value: "flac_1.4.2"}}, val("codec_speed", "1", 210), val("encode_s", "s", 60.0/210), val("encoded_bytes", "B", 6.1e6))
	add("codec", result.Skipped, "missing the program lame: run apt-get install -y lame", pairs{{Key: "subject", Value: "lame"}, {Key: "length", Value: "0s"}}, nil)
	return run, recs
}

// Rows tell what differs from the defaults, memory draws its curve once, what 32 bits are
// too few for says so, and what was published of the experiment stands beside it.
func TestWorksTables(t *testing.T) {
	run, recs := worksRun()
	d := report.Summarized(run, recs)
	got := printed(t, d)
	for _, want := range []string{
		"dhrystone 1 O0 10 000 5.00 M/s",
		"sysbench 1 20 000 400/s",
		"memory-bandwidth default 3.40 GB/s 3.33–3.50 GB/s 4.10 GB/s", "memory-bandwidth default 2.20 GB/s",
		"memory-bandwidth 3.50 GB -", "a 32-bit program cannot lock 3.50 GB",
		"memory-latency default 142 ns 139–146 ns 2.20 ns",
		"memory-latency, 1 CPU 4 KiB 2.22 ns", "48 KiB 3.13 ns", "64 MiB 143 ns",
		"4.00 GB/s 3.92–4.12 GB/s a d",
		"flac 210 206–216 286 ms 280–294 ms 6.10 MB 5.98–6.28 MB",
		"lame -", "run apt-get install -y lame",
		"published of a Pi 4: Dhrystone under 32 and 64 bit (M. Croce", "its charts are images",
		"published of a Pi 4: SHA-1 of 2 GB of zeros in a file",
		"published of a Pi 4: 3 GB could be locked under 64 bit (M. Croce", "3 GB failed in 32 bit",
		"published of a Pi 400 (A72 1.8 GHz): FLAC encodes 17 % faster under 64 than under 32 bit (Phoronix, February 2022",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the text lacks %q", want)
		}
	}
	if strings.Contains(got, "95.0 to 100 %") || !strings.Contains(got, "clock after a round: 95.0 % of what") || !strings.Contains(got, "clock after a round: 100 % of what") {
		t.Error("the clock of a row is told as a range over all")
	}
	if strings.Contains(got, " O2 ") || strings.Contains(got, "duration") || strings.Contains(got, "Under overload") || strings.Contains(got, "LAME encodes") {
		t.Error("a default is told, a work is shown as frames, or a published figure stands beside none")
	}
	if t.Failed() {
		t.Log(printed(t, d))
	}
	w := d.Rows[slicesIndex(d.Rows, "memory-latency")].Block.(*report.Work)
	if w.Curve == nil || len(w.Curve.Points) != 4 || w.Curve.Points[3].At != 64<<20 || w.Curve.Points[3].Figure.N != 3 || w.Curve.Unit != "s" {
		t.Errorf("the curve is %+v", w.Curve)
	}
	if other := d.Rows[slicesIndex(d.Rows, "memory-stream")].Block.(*report.Work); other.Curve != nil {
		t.Errorf("STREAM has a curve: %+v", other.Curve)
	}
}

// A figure of several rounds that a page shows has their range beside it.
func TestWorksHaveRanges(t *testing.T) {
	run, recs := worksRun()
	for _, tb := range report.Summarized(run, recs).Tables {
		for i, c := range tb.Columns {
			if c.Heads && c.Interval == "" && slices.ContainsFunc(tb.Rows, func(r []report.Cell) bool { return r[i].Lo != nil && r[i].Hi != nil && *r[i].Lo < *r[i].Hi }) {
				t.Errorf("%s: %s has no range", tb.Title, c.Label)
			}
		}
	}
}
