// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"

	"boxdyno/host"
	"boxdyno/ledger"
	"boxdyno/result"
)

// What a DUT answers to (host.Serve): who it is, and its part of the ledger.
const (
	callIdentify = "identify"
	callOpen     = "ledger.open"
	callRead     = "ledger.read"
	callClose    = "ledger.close"
)

type identifyArgs struct {
	Ports []string `json:"ports"`
}

type identity struct {
	Machine     result.Machine `json:"machine"`
	Environment []result.Pair  `json:"environment"`
	Ports       []dutPort      `json:"ports"` // in the order asked
}

type dutPort struct {
	Name string  `json:"name"`
	MAC  [6]byte `json:"mac"`
	MTU  int     `json:"mtu"`
	Link string  `json:"link"`
}

type openArgs struct {
	Paths []remotePath `json:"paths"`
	Bare  bool         `json:"bare,omitempty"`
}

type remotePath struct {
	Name string      `json:"name"`
	Hops []remoteHop `json:"hops"`
}

type remoteHop struct {
	Place result.Place `json:"place"`
	Host  string       `json:"host"`
	Port  string       `json:"port"`
	Mine  bool         `json:"mine"` // it stands on this machine
}

// ServeCalls answers the questions of a tester from in, until it ends: this process
// stands on the DUT of topology pair. Nothing on the machine is changed.
func ServeCalls(ctx context.Context, in io.Reader, out io.Writer, version string) error {
	s := &served{books: map[int]*ledger.Book{}}
	defer s.close()
	return host.Serve(ctx, in, out, version, map[string]host.Method{
		callIdentify: method(s.identify), callOpen: method(s.open), callRead: method(s.read), callClose: method(s.drop),
	})
}

// served is what one tester has asked for.
type served struct {
	books map[int]*ledger.Book
	last  int
}

func (s *served) close() {
	for _, b := range s.books {
		b.Close()
	}
}

// method makes a host.Method of f, with its arguments decoded.
func method[A, R any](f func(context.Context, A) (R, error)) host.Method {
	return func(ctx context.Context, raw json.RawMessage) (any, error) {
		var args A
		if err := json.Unmarshal(raw, &args); err != nil {
			return nil, fmt.Errorf("read the question: %w", err)
		}
		return f(ctx, args)
	}
}

func (s *served) identify(_ context.Context, a identifyArgs) (identity, error) {
	local := &host.Local{}
	id := identity{Machine: local.Identify(), Environment: local.Environment()}
	for _, name := range a.Ports {
		iface, err := net.InterfaceByName(name)
		if err != nil {
			return id, &host.Missing{What: "port " + name, Hint: "there is no interface of that name; ip link shows those there are"}
		}
		p := dutPort{Name: name, MTU: iface.MTU}
		copy(p.MAC[:], iface.HardwareAddr)
		driver, speed := host.Driver(name, "unknown driver")
		p.Link = host.Port{Name: name}.Link(driver, speed > 0)
		id.Ports = append(id.Ports, p)
	}
	return id, nil
}

func (s *served) open(_ context.Context, a openArgs) (int, error) {
	local := &host.Local{Label: dutLabel}
	var paths []ledger.Path
	for _, p := range a.Paths {
		path := ledger.Path{Name: p.Name}
		for _, h := range p.Hops {
			hop := ledger.Hop{Place: h.Place, Port: host.Port{Host: h.Host, Name: h.Port}}
			if h.Mine {
				hop.Host = local
			}
			path.Hops = append(path.Hops, hop)
		}
		paths = append(paths, path)
	}
	open := ledger.Open
	if a.Bare {
		open = ledger.OpenBare
	}
	b, err := open(paths)
	if err != nil {
		return 0, host.Permit("read the DUT's counters", err)
	}
	s.last++
	s.books[s.last] = b
	return s.last, nil
}

var errNoBook = errors.New("there is no such ledger")

func (s *served) read(ctx context.Context, id int) (ledger.Reading, error) {
	b := s.books[id]
	if b == nil {
		return ledger.Reading{}, errNoBook
	}
	return b.Reading(ctx)
}

func (s *served) drop(_ context.Context, id int) (bool, error) {
	b := s.books[id]
	if b == nil {
		return false, errNoBook
	}
	b.Close()
	delete(s.books, id)
	return true, nil
}
