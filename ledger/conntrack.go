// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"boxdyno/host"
)

// A Conntrack is a namespace's connection tracking: how full its table is, and
// what it counted since it was made.
type Conntrack struct {
	Entries, Most uint64 // nf_conntrack_count, nf_conntrack_max
	InsertFailed  uint64 // entries that clashed with one that was there, or had no place
	Drop          uint64 // packets that it refused: the table was full, or an insert failed
	EarlyDrop     uint64 // entries evicted to make room for others
	Invalid       uint64 // packets that fit no connection
}

// ReadConntrack reads that of a host's namespace. The error wraps fs.ErrNotExist
// where it has none.
func ReadConntrack(h *host.Local) (c Conntrack, err error) {
	err = h.View(func(root fs.FS) error {
		text, err := fs.ReadFile(root, "proc/thread-self/net/stat/nf_conntrack")
		if err != nil {
			return err
		}
		counted := counters{}
		if err := parseColumns(string(text), "", counted, "insert_failed", "drop", "early_drop", "invalid"); err != nil {
			return err
		}
		c.InsertFailed, c.Drop = counted["insert_failed"], counted["drop"]
		c.EarlyDrop, c.Invalid = counted["early_drop"], counted["invalid"]
		for name, to := range map[string]*uint64{"count": &c.Entries, "max": &c.Most} {
			b, err := fs.ReadFile(root, "proc/sys/net/netfilter/nf_conntrack_"+name)
			if err != nil {
				return err
			}
			if *to, err = strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64); err != nil {
				return fmt.Errorf("nf_conntrack_%s: %w", name, err)
			}
		}
		return nil
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("read connection tracking of the %s: %w", h.Label, err)
	}
	return c, err
}

// Since is what c counted after before; the table's state is c's.
func (c Conntrack) Since(before Conntrack) Conntrack {
	c.InsertFailed -= before.InsertFailed
	c.Drop -= before.Drop
	c.EarlyDrop -= before.EarlyDrop
	c.Invalid -= before.Invalid
	return c
}
