// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"errors"
	"strings"
	"testing"
	"time"

	"boxdyno/host"
	"boxdyno/procedure"
	"boxdyno/procedure/internal/roomtest"
	"boxdyno/result"
)

// Programs that are not there skip the point with the command that makes them.
func TestUserlandIsMissing(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	w := newWork()
	if err := w.userland.Set("32-bit"); err != nil {
		t.Fatal(err)
	}
	var recs []result.Record
	_, err := w.run(t.Context(), roomtest.Env(&recs, nil), job{name: "script", limit: time.Minute, worker: shellWorker{script: "echo 21"}})
	var missing *host.Missing
	if !errors.As(err, &missing) || !strings.Contains(err.Error(), "programs of 32 bit") || len(recs) > 0 {
		t.Errorf("%d trials, %v", len(recs), err)
	}
	for _, p := range []procedure.Procedure{newCPU(), newHash(), newMemory(), newCodec()} {
		roomtest.Assign(t, p.Flags, map[string]string{"userland": "32-bit"})
		if _, err := p.Run(t.Context(), roomtest.Env(&recs, nil)); !errors.As(err, &missing) || !strings.Contains(err.Error(), "programs of 32 bit") {
			t.Errorf("%T: %v", p, err)
		}
	}
}
