// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"
	"net/netip"

	"boxdyno/host"
	"boxdyno/subject/iperf"
	"boxdyno/subject/web"
)

// The methods of a box that has a server of HTTP; server.usage and server.close are for it,
// too.
const (
	WebCheck Ask[None, None]   = "web.check"
	WebServe Ask[WebArgs, int] = "web.serve"
)

// WebArgs say where a server of HTTP listens, and on which CPUs it runs; nil: on all.
type WebArgs struct {
	At   netip.AddrPort `json:"at"`
	CPUs []int          `json:"cpus,omitempty"`
}

func webMethods() []Method {
	return []Method{
		method(WebCheck, "whether nginx is there", (*Session).checkWeb),
		method(WebServe, "starts nginx at an address of a test network, until the connection ends", (*Session).serveWeb),
	}
}

func (s *Session) web() web.Local {
	return web.Local{Host: &host.Local{Label: Label}, Dir: s.Folder}
}

func (s *Session) checkWeb(ctx context.Context, _ None) (None, error) {
	return None{}, s.web().HasWeb(ctx)
}

func (s *Session) serveWeb(ctx context.Context, a WebArgs) (int, error) {
	if host.Public(a.At.Addr()) {
		return 0, fmt.Errorf("%v is no address of test networks", a.At.Addr())
	}
	if err := full(s, s.servers); err != nil {
		return 0, err
	}
	if err := s.ownFolder(); err != nil {
		return 0, err
	}
	server, err := s.web().ServeWeb(ctx, a.At, a.CPUs)
	if err != nil {
		return 0, err
	}
	return keep(s, s.servers, iperf.Server(server), iperf.Server.Kill), nil
}

// HasWeb implements web.Machine.
func (m Machine) HasWeb(ctx context.Context) error {
	_, err := WebCheck.Call(ctx, m.Conn, None{})
	return m.lost(err)
}

// ServeWeb implements web.Machine.
func (m Machine) ServeWeb(ctx context.Context, at netip.AddrPort, cpus []int) (web.Server, error) {
	id, err := WebServe.Call(ctx, m.Conn, WebArgs{at, cpus})
	if err != nil {
		return nil, m.lost(err)
	}
	return &farServer{m, id}, nil
}
