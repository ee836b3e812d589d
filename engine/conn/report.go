// SPDX-License-Identifier: Apache-2.0

package conn

import (
	"fmt"

	"boxdyno/engine/internal/bucket"
	"boxdyno/unit"
)

// Read says where the connections of the trial stand. While frames are under way,
// its counts may be some frames apart.
func (c *Ends) Read() (Report, error) {
	r := Report{Opened: c.opened, First: c.begin, LastSYN: c.lastSYN}
	var clients []connClientCounts
	var servers []connServerCounts
	if err := c.ends.Maps[connMapClientStats].Lookup(uint32(0), &clients); err != nil {
		return r, fmt.Errorf("read the client's counts: %w", err)
	}
	if err := c.ends.Maps[connMapServerStats].Lookup(uint32(0), &servers); err != nil {
		return r, fmt.Errorf("read the server's counts: %w", err)
	}
	var handshake, ttfb [bucket.Count]uint64
	r.Sent = c.opened + c.fins
	for i := range clients {
		n := &clients[i]
		r.Received += n.Frames
		r.Sent += n.Replies
		r.Octets += n.Octets
		r.Established += n.Established
		r.FirstByte += n.First
		r.Whole += n.Whole
		r.Finished += n.Closed
		r.Resets += n.Resets
		r.Stray += n.Stray
		r.Disorder += n.Disorder
		r.NoRoom += n.NoRoom
		r.Last = max(r.Last, unit.Instant(n.Last))
		r.LastWhole = max(r.LastWhole, unit.Instant(n.WholeAt))
		for b := range bucket.Count {
			handshake[b] += n.Handshake[b]
			ttfb[b] += n.FirstByte[b]
		}
	}
	r.Handshake, r.TTFB = bucket.Histogram(handshake[:]), bucket.Histogram(ttfb[:])
	for i := range servers {
		n := &servers[i]
		r.Received += n.Frames
		r.Sent += n.Replies
		r.Server.Opened += n.Opened
		r.Server.Requests += n.Requests
		r.Server.Segments += n.Segments
		r.Server.Octets += n.Octets
		r.Server.FINs += n.Fins
		r.Server.Resets += n.Resets
		r.Server.Stray += n.Stray
		r.Server.NoRoom += n.NoRoom
	}
	for i := range c.conns[:min(c.opened, uint64(len(c.conns)))] {
		switch state := c.conns[i].State; {
		case state >= stateReset:
			r.Reset++
		case state == stateOpening:
			r.NoAnswer++
		case state == stateEstablished:
			r.NoData++
		case state == stateReceiving:
			r.Partial++
		case state == stateWhole:
			r.Open++
		case state == stateFinishing, state == stateClosing:
			r.Unclosed++
		case state == stateClosed:
			r.Closed++
		case state == stateShort:
			r.Short++
		}
	}
	return r, nil
}
