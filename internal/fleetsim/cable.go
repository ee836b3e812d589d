// SPDX-License-Identifier: Apache-2.0

package fleetsim

import (
	"net"
	"sync"
	"time"

	"boxdyno/internal/guard"
)

// A Cable is a way of TCP from boards to their hub that can be cut: connections then stand
// and carry nothing, as if a wire was pulled.
type Cable struct {
	l  net.Listener
	to string

	mu         sync.Mutex
	down, away bool // towards boards, towards the hub: cut
	rate       int  // octets a second that each board reads; 0: as many as come
	conns      []net.Conn
	all        guard.Group
}

// NewCable leads to HOST:PORT, from Addr.
func NewCable(to string) (*Cable, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	c := &Cable{l: l, to: to}
	c.all.Go(func() {
		for {
			a, err := l.Accept()
			if err != nil {
				return
			}
			c.join(a)
		}
	})
	return c, nil
}

// Addr is where boards connect, HOST:PORT.
func (c *Cable) Addr() string { return c.l.Addr().String() }

// Cut cuts the ways towards the boards and towards the hub, or mends them.
func (c *Cable) Cut(down, away bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.down, c.away = down, away
}

// Slow has each board read so many octets a second, all that come where that is 0.
func (c *Cable) Slow(rate int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rate = rate
}

// Close ends all connections.
func (c *Cable) Close() {
	_ = c.l.Close() // it is only heard
	c.mu.Lock()
	c.down, c.away, c.rate = false, false, 0
	for _, x := range c.conns {
		_ = x.Close()
	}
	c.mu.Unlock()
	c.all.Wait()
}

func (c *Cable) join(a net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	b, err := net.Dial("tcp", c.to)
	if err != nil || c.down || c.away {
		_ = a.Close()
		if err == nil {
			_ = b.Close()
		}
		return
	}
	c.conns = append(c.conns, a, b)
	c.all.Go(func() { c.carry(b, a, &c.away) })
	c.all.Go(func() { c.carry(a, b, &c.down) })
}

func (c *Cable) carry(to, from net.Conn, cut *bool) {
	defer to.Close()
	buf := make([]byte, 64<<10)
	const slowly = 50 * time.Millisecond // between reads of who reads slowly
	for {
		most := len(buf)
		if rate := c.slow(cut); rate > 0 {
			time.Sleep(slowly)
			most = max(1, min(most, rate*int(slowly)/int(time.Second)))
		}
		n, err := from.Read(buf[:most])
		for c.is(cut) {
			time.Sleep(10 * time.Millisecond)
		}
		if err == nil {
			_, err = to.Write(buf[:n])
		}
		if err != nil {
			return
		}
	}
}

func (c *Cable) is(cut *bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return *cut
}

// slow is the rate towards the boards; 0: it is another way, or all is read.
func (c *Cable) slow(cut *bool) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if cut != &c.down {
		return 0
	}
	return c.rate
}
