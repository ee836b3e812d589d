// SPDX-License-Identifier: Apache-2.0

package procedure

import (
	"errors"
	"testing"
	"time"

	"boxdyno/host"
	"boxdyno/result"
)

func TestHash(t *testing.T) {
	p := newHash().(*Hash)
	assign(t, p.Flags, map[string]string{"subject": "coreutils", "algorithm": "blake2b", "parallel": "cpu0", "size": "1000000"})
	var recs []result.Record
	o, err := p.Run(t.Context(), soakEnv(&recs, nil))
	var missing *host.Missing
	if errors.As(err, &missing) {
		t.Skip(missing)
	}
	if err != nil || o.Status != result.Passed || len(recs) != 4 {
		t.Fatalf("%s %s, %d trials, %v", o.Status, o.Reason, len(recs), err)
	}
	if v := figure(t, o, "hash_rate"); v.Value <= 0 || v.N != 3 || v.Unit != "B/s" {
		t.Errorf("%+v", v)
	}
	for _, v := range o.Values {
		if !declares(hashMetrics, v.Metric) {
			t.Errorf("%s is not declared", v.Metric)
		}
	}
	if _, d := newHash().Estimate(); d > 3*time.Minute {
		t.Errorf("it takes %v", d)
	}
}
