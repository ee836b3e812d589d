// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"boxdyno/report"
	"boxdyno/report/compare"
	"boxdyno/result"
)

// Runs of two userlands, of several procedures, are compared with that setting ignored:
// it and the programs are among the differences, and tables have the columns in which
// rows differ.
func TestCompareUserlands(t *testing.T) {
	side := func(name, userland, programs string, speed float64) report.Side {
		run := result.Run{Version: "v1", ID: name, Start: epoch.Add(time.Duration(len(programs)) * time.Hour), Topology: "here", Kind: "real", Preset: "quick", Metrics: []result.Metric{
			{Name: "hash_rate", Unit: "B/s", Better: 1}, {Name: "codec_speed", Unit: "1", Better: 1}, {Name: "subject_memory_bytes", Unit: "B", Better: -1}, {Name: "loop_after_rps", Unit: "1/s", Better: 1},
		}}
		var recs []result.Record
		add := func(procedure, metric string, cfg ...result.Pair) {
			cfg = append(cfg, result.Pair{Key: "parallel", Value: "1"}, result.Pair{Key: "userland", Value: userland})
			for n := range 6 {
				id := fmt.Sprintf("%s/%s#%d", procedure, cfg[0].Value, n+1)
				trial := append(cfg[:len(cfg):len(cfg)], result.Pair{Key: "trial", Value: "1"})
				if programs != "" {
					trial = append(trial, result.Pair{Key: "programs", Value: programs})
				}
				recs = append(recs,
					result.Record{ID: id + "/1", Parent: id, Procedure: procedure, Repeat: n + 1, Status: result.Passed, Config: trial},
					result.Record{ID: id, Procedure: procedure, Repeat: n + 1, Status: result.Passed, Config: cfg, Start: epoch.Add(time.Duration(n) * time.Minute), Values: []result.Value{
						{Metric: metric, Unit: "1", Value: speed * (1 + float64(n*5%7)/100)}, {Metric: "subject_memory_bytes", Unit: "B", Value: 3e6 * (1 + float64(n*5%7)/100)},
						{Metric: "loop_after_rps", Unit: "1/s", Value: speed},
					}})
			}
		}
		add("hash", "hash_rate", result.Pair{Key: "subject", Value: "openssl-dgst"}, result.Pair{Key: "algorithm", Value: "sha1"})
		add("codec", "codec_speed", result.Pair{Key: "subject", Value: "lame"}, result.Pair{Key: "length", Value: "60s"})
		add("codec", "codec_speed", result.Pair{Key: "subject", Value: "flac"}, result.Pair{Key: "length", Value: "60s"})
		return report.Side{Name: name, Runs: []report.Kept{{Document: report.Summarized(run, recs), Records: recs}}}
	}
	sides := []report.Side{side("wide", "native", "", 2e6), side("narrow", "32-bit", "32_bit,_i386,_Toy_1", 1e6)}
	if _, err := report.Compare("v1", sides, nil); err == nil || !strings.Contains(err.Error(), "userland native against 32-bit; --ignore userland") {
		t.Errorf("with the setting: %v", err)
	}
	var b bytes.Buffer
	if err := compare.Terminal(&b, mustCompare(t, sides, "userland")); err != nil {
		t.Fatal(err)
	}
	got := strings.Join(strings.Fields(b.String()), " ")
	for _, want := range []string{
		"programs: wide (none); narrow 32 bit, i386, Toy 1", "setting userland: wide native; narrow 32-bit",
		"hash_rate, B/s, more is better wide narrow effect", "codec_speed, 1, more is better subject wide narrow effect",
		"less is better; procedure hash subject wide narrow effect", "everywhere: parallel 1", "in hash: subject openssl-dgst, algorithm sha1", "in codec: length 60s", "-50.0 %",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the text lacks %q:\n%s", want, b.String())
		}
	}
	if strings.Contains(got, "loop_after_rps") {
		t.Errorf("the machine's clock is compared as if it were the box's:\n%s", b.String())
	}
}
