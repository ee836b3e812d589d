// SPDX-License-Identifier: Apache-2.0

package host

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"boxdyno/internal/ethtool"
	"boxdyno/internal/netns"
)

// Queues are how a port deals what it receives to queues.
type Queues struct {
	Most     int  // that it can have
	Combined bool // they are set together with those that send
	RSS      bool // it deals flows to them itself, by a table; else the other end of its cable chooses
}

// Queues asks the port's driver; one queue where that cannot say.
func (p Port) Queues() (q Queues, err error) {
	err = netns.Do(p.Netns, func() error {
		e, err := ethtool.Open()
		if err != nil {
			return err
		}
		defer e.Close()
		c, err := e.Channels(p.Name)
		if err != nil && !errors.Is(err, unix.EOPNOTSUPP) {
			return err
		}
		q = Queues{Most: max(1, int(c.MaxCombined), int(c.MaxRx)), Combined: c.MaxCombined > 0}
		table, err := e.Indirection(p.Name)
		q.RSS = table > 0
		return err
	})
	if err != nil {
		return q, fmt.Errorf("queues of port %s: %w", p.Name, err)
	}
	return q, nil
}
