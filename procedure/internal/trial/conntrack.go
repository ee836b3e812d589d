// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"fmt"
	"strings"

	"boxdyno/ledger"
	"boxdyno/procedure/internal/metrics"
	"boxdyno/result"
)

// TrackedValues are the figures of a connection table.
func TrackedValues(figures metrics.List, c ledger.Conntrack) []result.Value {
	return []result.Value{
		figures.Value("conntrack_entries", float64(c.Entries)), figures.Value("conntrack_most", float64(c.Most)),
		figures.Value("conntrack_insert_failed", float64(c.InsertFailed)), figures.Value("conntrack_drop", float64(c.Drop)),
		figures.Value("conntrack_early_drop", float64(c.EarlyDrop)), figures.Value("conntrack_invalid", float64(c.Invalid)),
	}
}

// RefusedBy says what the box refused or lost, by its own counters; "" where none
// tells.
func RefusedBy(c ledger.Conntrack, tracked bool, a *result.Account) string {
	var why []string
	if tracked {
		if c.Drop > c.InsertFailed && c.Entries >= c.Most {
			why = append(why, fmt.Sprintf("the connection table is full: %d of %d entries, and %d packets were refused", c.Entries, c.Most, c.Drop-c.InsertFailed))
		}
		if c.InsertFailed > 0 {
			why = append(why, fmt.Sprintf("%d connections found no place in the connection table (insert_failed)", c.InsertFailed))
		}
		if c.EarlyDrop > 0 {
			why = append(why, fmt.Sprintf("%d connections were evicted from the table for others (early_drop)", c.EarlyDrop))
		}
	}
	for _, d := range a.Drops {
		if d.Place != result.Conntrack || !tracked {
			why = append(why, fmt.Sprintf("%d frames: %s (%s, %s)", d.N, d.Name, d.Place, d.From))
		}
	}
	return strings.Join(why, "; ")
}
