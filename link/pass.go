// SPDX-License-Identifier: Apache-2.0

package link

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"boxdyno/host"
)

// Pass answers the calls of another machine by the box behind c, which says its own clock,
// too. allow refuses a call with an error; what it lets through is asked by this machine.
// publish is NewServer's.
func Pass(c *Conn, allow func(method string, args json.RawMessage) error, publish func(subject string, data []byte) error) *Server {
	s := NewServer(func(method string) Handler {
		return func(ctx context.Context, r *Request) (any, error) {
			if err := allow(method, r.Args); err != nil {
				return nil, err
			}
			var reply json.RawMessage
			err := c.Stream(ctx, method, r.Args, &reply, func(item json.RawMessage, lost uint64) error {
				r.lost += lost
				return r.Send(ctx, item)
			})
			return reply, c.bare(err)
		}
	}, publish)
	s.passes = true
	return s
}

// bare is an error of the box without its name, which who asked adds.
func (c *Conn) bare(err error) error {
	var missing *host.Missing
	var remote *remoteError
	switch {
	case errors.As(err, &missing):
		m := *missing
		m.What = strings.TrimPrefix(m.What, "on "+c.Name+": ")
		return &m
	case errors.As(err, &remote):
		return &remoteError{strings.TrimPrefix(remote.text, c.Name+": "), remote.is}
	}
	return err
}
