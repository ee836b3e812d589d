// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"errors"
	"strings"
	"testing"
	"time"

	"boxdyno/host"
	"boxdyno/internal/testutil"
	"boxdyno/lab"
	"boxdyno/procedure/internal/roomtest"
	"boxdyno/result"
)

// Music is encoded in each round, and lets its memory go.
func TestCodec(t *testing.T) {
	testutil.NoLeaks(t)
	p := newCodec().(*Codec)
	roomtest.Assign(t, p.Flags, map[string]string{"subject": "flac", "parallel": "cpu0", "length": "1s"})
	var recs []result.Record
	o, err := p.Run(t.Context(), roomtest.Env(&recs, nil))
	var missing *host.Missing
	if errors.As(err, &missing) {
		t.Skip(missing)
	}
	if err != nil || o.Status != result.Passed || len(recs) != 4 {
		t.Fatalf("%s %s, %d trials, %v", o.Status, o.Reason, len(recs), err)
	}
	for _, r := range recs[1:] {
		speed, took := r.Value("codec_speed").Value, r.Value("encode_s").Value
		if x := speed * took; x < 0.999 || x > 1.001 {
			t.Errorf("1 s of music at %v times real time took %v s", speed, took)
		}
	}
	if octets, rate := roomtest.Measured(t, o, "encoded_bytes"), roomtest.Measured(t, o, "encoded_bps"); octets < 1000 || rate != 8*octets {
		t.Errorf("%v octets are %v bit/s", octets, rate)
	}
	roomtest.Declared(t, o, codecMetrics)
}

func TestCodecParameters(t *testing.T) {
	here := &lab.Testbed{Facts: lab.Facts{Topology: lab.Here, CPUs: []int{0}}}
	for length, right := range map[string]bool{"0s": true, "8m": true, "1500ms": false, "2h": false, "-1s": false} {
		p := newCodec()
		roomtest.Assign(t, p.Flags, map[string]string{"length": length})
		if err := p.Check(here); (err == nil) != right || err != nil && !strings.Contains(err.Error(), "want whole seconds from 1s to 1h0m0s") {
			t.Errorf("length %s: %v", length, err)
		}
	}
	if n, d := newCodec().Estimate(); n != 4 || d > 3*time.Minute {
		t.Errorf("%d trials in %v", n, d)
	}
}
