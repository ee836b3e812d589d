// SPDX-License-Identifier: Apache-2.0

package flood

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	"boxdyno/internal/guard"
	"boxdyno/internal/netns"
	"boxdyno/lab"
	"boxdyno/subject/web"
	"boxdyno/unit"
)

// clients ask the box's server for its page, each request by a connection of its own, on a
// schedule that does not wait for answers.
type clients struct {
	http  http.Client
	url   string
	every time.Duration

	pacing chan struct{} // closed: no more begin
	all    guard.Group

	mu    sync.Mutex
	asked []request
}

// A request is answered, whole and in time, or not.
type request struct {
	begin    unit.Instant
	took     time.Duration
	answered bool
}

// answerPatience is how long a client waits for its answer: one lost SYN, which is sent
// again after 1 s, still leaves time.
const answerPatience = 2 * time.Second

// newClients ask from port p, whose IPv4 address this machine's sockets have.
func newClients(p lab.Port, at netip.AddrPort, perSecond int) *clients {
	c := &clients{url: fmt.Sprintf("http://%v/", at), every: time.Second / time.Duration(perSecond), pacing: make(chan struct{})}
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: p.Addr4.AsSlice()}}
	c.http = http.Client{Timeout: answerPatience, Transport: &http.Transport{
		DisableKeepAlives: true, // a SYN for each
		DialContext: func(ctx context.Context, _, addr string) (conn net.Conn, err error) {
			nerr := netns.Do(p.Netns, func() error { conn, err = dialer.DialContext(ctx, "tcp4", addr); return nil })
			if err == nil {
				err = nerr
			}
			return conn, err
		},
	}}
	return c
}

// begin asks until finish.
func (c *clients) begin(ctx context.Context) {
	c.all.Go(func() {
		next := time.NewTimer(0)
		defer next.Stop()
		for due := time.Now(); ; {
			select {
			case <-c.pacing:
				return
			case <-ctx.Done():
				return
			case <-next.C:
			}
			c.all.Go(func() { c.ask(ctx) })
			due = due.Add(c.every)
			next.Reset(time.Until(due))
		}
	})
}

// finish begins no more, waits for those under way, and returns all in their order.
func (c *clients) finish() []request {
	close(c.pacing)
	c.all.Wait()
	slices.SortFunc(c.asked, func(a, b request) int { return int(a.begin - b.begin) })
	return c.asked
}

func (c *clients) ask(ctx context.Context) {
	r := request{begin: unit.Now()}
	r.answered = c.get(ctx) == nil
	r.took = time.Duration(unit.Now() - r.begin)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = append(c.asked, r)
}

func (c *clients) get(ctx context.Context) error {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url, nil)
	if err != nil {
		return err
	}
	a, err := c.http.Do(q)
	if err != nil {
		return err
	}
	defer a.Body.Close()
	n, err := io.Copy(io.Discard, io.LimitReader(a.Body, 2*web.Answer))
	if err == nil && (a.StatusCode != http.StatusOK || n != web.Answer) {
		err = fmt.Errorf("it answered %s with %d octets", a.Status, n)
	}
	return err
}
