// SPDX-License-Identifier: Apache-2.0

package sizing

import (
	"fmt"
	"testing"
	"time"

	"boxdyno/result"
)

// point is a valid point of a procedure.
func point(procedure, metric string, v, lo, hi float64, cfg ...string) result.Record {
	r := result.Record{ID: procedure, Procedure: procedure, Status: result.Passed, Values: []result.Value{{Metric: metric, Value: v}}}
	if lo < hi {
		r.Values[0].Lo, r.Values[0].Hi = &lo, &hi
	}
	for i := 0; i < len(cfg); i += 2 {
		r.Config = append(r.Config, result.Pair{Key: cfg[i], Value: cfg[i+1]})
	}
	return r
}

func runOf(id string, day int, recs ...result.Record) Run {
	return Run{Run: result.Run{ID: id, Kind: "real", Start: time.Date(2026, 1, day, 0, 0, 0, 0, time.UTC), Machines: []result.Machine{{Name: "tester", Board: "Raspberry Pi 4 Model B Rev 1.4"}}}, Records: recs}
}

// Own figures come from the newest run of each box, valid points alone, the fastest path;
// a hot figure stands beside the cold one, and power is the widest meter's.
func TestOwn(t *testing.T) {
	crypto := Job{Kind: Crypto, Cipher: "aes-xts-256", Direction: "encrypt"}
	fast := point("crypto", "encrypt_bytes_per_s", 200, 180, 210, "cipher", "aes-xts-256", "path", "openssl")
	fast.Energy = []result.Energy{{Meter: "rail", Covers: "line", Joules: 10, Seconds: 10, Readings: 9}, {Meter: "plug", Covers: "wall", Joules: 60, Seconds: 10, Readings: 9}, {Meter: "tester's", Covers: "wall", Joules: 1e6, Seconds: 1, Tester: true}}
	broken := point("crypto", "encrypt_bytes_per_s", 9e9, 0, 0, "cipher", "aes-xts-256")
	broken.Status = result.Invalid
	trial := point("crypto", "encrypt_bytes_per_s", 9e9, 0, 0, "cipher", "aes-xts-256")
	trial.Parent = "x"
	runs := []Run{
		runOf("old", 1, point("crypto", "encrypt_bytes_per_s", 999, 0, 0, "cipher", "aes-xts-256")),
		runOf("new", 2, point("crypto", "encrypt_bytes_per_s", 100, 0, 0, "cipher", "aes-xts-256", "path", "botan"), fast, broken, trial,
			point("crypto", "encrypt_bytes_per_s", 500, 0, 0, "cipher", "aes-cbc-128"),
			point("crypto", "encrypt_bytes_per_s", 150, 140, 155, "cipher", "aes-xts-256", "path", "openssl", result.HeatKey, "10m")),
	}
	emulated := runOf("emulated", 9, point("crypto", "encrypt_bytes_per_s", 1, 0, 0, "cipher", "aes-xts-256"))
	emulated.Run.Kind = "emulated"
	got := Own(crypto, append(runs, emulated))
	if len(got) != 1 {
		t.Fatalf("%d boxes: %+v", len(got), got)
	}
	c := got[0]
	if c.Board != "rpi-4-b" || c.Origin != OwnRun || c.Rate != (Estimate{Value: 200, Lo: 180, Hi: 210}) || c.Soaked == nil || c.Soaked.Value != 150 || c.Watts == nil || c.Watts.Value != 6 || c.Price == nil {
		t.Errorf("%+v, hot %+v, %+v W", c, c.Soaked, c.Watts)
	}
	crypto.Load = 300
	r := plan(t, crypto, got, Options{Draws: 2000})
	if row := r.Rows[0]; row.Number.Value != 2 || row.Heat == nil || *row.Heat != 0.75 || row.Room != 0 || row.Failed != -0.5 {
		t.Errorf("the hot figure decides: %+v, head-room %g, %g", row.Number, row.Room, row.Failed)
	}
	if n := r.Rows[0].Number; n.Lo != 2 || n.Hi != 3 {
		t.Errorf("300 of 140 to 155 each: %+v", n)
	}
}

// Each job takes its own procedure's metric, at the settings that were asked for.
func TestOwnJobs(t *testing.T) {
	recs := []result.Record{
		point("ids", "ids_rate_bps", 3e8, 2.8e8, 3.2e8, "rules", "10000"),
		point("ids", "ids_rate_bps", 9e8, 0, 0, "rules", "1000"),
		point("forward", "throughput_fps", 5e5, 0, 0, "service", "filter", "rules", "100", "frame_size", "64"),
		point("forward", "throughput_fps", 9e5, 0, 0, "service", "route", "rules", "0", "frame_size", "64"),
		point("forward", "throughput_fps", 8e5, 0, 0, "service", "nat", "rules", "0", "frame_size", "1518"),
		point("hpl", "hpl_rate", 1e10, 0, 0),
		point("hpl", "hpl_rate", -1, 0, 0),
	}
	atMost := point("ids", "ids_rate_bps", 9e9, 0, 0, "rules", "10000")
	atMost.Values[0].Bound = result.AtMost
	recs = append(recs, atMost)
	for _, c := range []struct {
		job  Job
		want float64 // 0: nothing
	}{
		{Job{Kind: IDS, Rules: 10000}, 3e8}, {Job{Kind: IDS, Rules: 500}, 9e8}, {Job{Kind: IDS, Rules: 20000}, 0},
		{Job{Kind: Firewall}, 5e5}, {Job{Kind: Firewall, Rules: 200}, 0}, {Job{Kind: HPL}, 1e10}, {Job{Kind: Crypto, Cipher: "x", Direction: "encrypt"}, 0},
	} {
		got := Own(c.job, []Run{runOf("r", 1, recs...)})
		switch {
		case c.want == 0 && len(got) != 0:
			t.Errorf("%s: %+v", c.job.Words(), got)
		case c.want != 0 && (len(got) != 1 || got[0].Rate.Value != c.want):
			t.Errorf("%s: %+v, want %g", c.job.Words(), got, c.want)
		}
	}
	// A box at the end of a cable is the last machine, by the name that its user gave it.
	r := runOf("far", 1, recs...)
	r.Run.Box, r.Run.Machines = "kitchen", append(r.Run.Machines, result.Machine{Name: "pi", Board: "Raspberry Pi 5 Model B Rev 1.0"})
	if got := Own(Job{Kind: HPL}, []Run{r}); len(got) != 1 || got[0].Name != "kitchen" || got[0].Board != "rpi-5" {
		t.Errorf("%+v", got)
	}
}

// Of repeats the median counts, whatever the best of them was.
func TestOwnRepeats(t *testing.T) {
	run := Run{Run: result.Run{ID: "r", Kind: "real", Machines: []result.Machine{{Name: "lab"}}}}
	for i, v := range []float64{100, 300, 90, 110} {
		run.Records = append(run.Records, result.Record{
			ID: fmt.Sprintf("hpl#%d", i+1), Procedure: "hpl", Repeat: i + 1, Status: result.Passed,
			Config: []result.Pair{{Key: "n", Value: "1000"}}, Values: []result.Value{{Metric: "hpl_rate", Unit: "flop/s", Value: v}},
		})
	}
	cs := Own(Job{Kind: HPL}, []Run{run})
	if want := (Estimate{Value: 100, Lo: 90, Hi: 300}); len(cs) != 1 || cs[0].Rate != want {
		t.Errorf("%+v, want %+v", cs, want)
	}
}
