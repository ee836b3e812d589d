// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"errors"
	"testing"
	"time"

	"boxdyno/host"
	"boxdyno/procedure/internal/roomtest"
	"boxdyno/result"
)

func TestHash(t *testing.T) {
	p := newHash().(*Hash)
	roomtest.Assign(t, p.Flags, map[string]string{"subject": "coreutils", "algorithm": "blake2b", "parallel": "cpu0", "size": "1000000"})
	var recs []result.Record
	o, err := p.Run(t.Context(), roomtest.Env(&recs, nil))
	var missing *host.Missing
	if errors.As(err, &missing) {
		t.Skip(missing)
	}
	if err != nil || o.Status != result.Passed || len(recs) != 4 {
		t.Fatalf("%s %s, %d trials, %v", o.Status, o.Reason, len(recs), err)
	}
	if v := roomtest.Figure(t, o, "hash_rate"); v.Value <= 0 || v.N != 3 || v.Unit != "B/s" {
		t.Errorf("%+v", v)
	}
	roomtest.Declared(t, o, hashMetrics)
	if _, d := newHash().Estimate(); d > 3*time.Minute {
		t.Errorf("it takes %v", d)
	}
}
