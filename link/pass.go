// SPDX-License-Identifier: Apache-2.0

package link

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"boxdyno/host"
)

// A Through carries out a call that is passed on, or refuses it with an error. ask asks the
// box behind, until its context ends.
type Through func(ctx context.Context, method string, args json.RawMessage, ask func(context.Context) (json.RawMessage, error)) (reply json.RawMessage, err error)

// Pass answers the calls of another machine by the box behind c, which says its own clock,
// too. Each goes through through, which asks by this machine. publish is NewServer's.
func Pass(c *Conn, through Through, publish func(subject string, data []byte) error) *Server {
	s := NewServer(func(method string) Handler {
		return func(ctx context.Context, r *Request) (any, error) {
			reply, err := through(ctx, method, r.Args, func(asking context.Context) (reply json.RawMessage, err error) {
				err = c.Stream(asking, method, r.Args, &reply, func(item json.RawMessage) error { return r.Send(ctx, item) })
				return reply, err
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
