// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"

	"boxdyno/host"
	"boxdyno/link"
	"boxdyno/result"
	"boxdyno/service"
	"boxdyno/subject/iperf"
	"boxdyno/subject/mpi"
	"boxdyno/subject/tunnel"
	"boxdyno/unit"
)

// The methods of a box that is a gateway, or has iperf3's server.
const (
	GatewayOpen   Ask[service.Way, GatewayOpened] = "gateway.open"
	GatewaySee    Ask[None, service.GatewayState] = "gateway.see"
	GatewayDirect Ask[bool, None]                 = "gateway.direct"
	GatewaySpread Ask[bool, None]                 = "gateway.spread"
	GatewayClose  Ask[None, None]                 = "gateway.close"
	TunnelCheck   Ask[TunnelArgs, None]           = "tunnel.check"
	TunnelOpen    Ask[tunnel.Order, TunnelOpened] = "tunnel.open"
	TunnelFresh   Ask[int, unit.Instant]          = "tunnel.fresh"
	TunnelSee     Ask[int, TunnelState]           = "tunnel.see"
	TunnelClose   Ask[int, None]                  = "tunnel.close"
	TunnelHear    Ask[netip.Addr, unit.Instant]   = "tunnel.hear" // a stream of the port that listens
	TunnelKnock   Ask[KnockArgs, None]            = "tunnel.knock"
	IperfCheck    Ask[None, None]                 = "iperf.check"
	IperfServe    Ask[IperfArgs, int]             = "iperf.serve"
	ServerUsage   Ask[int, result.Usage]          = "server.usage"
	ServerClose   Ask[int, None]                  = "server.close"
	IperfSend     Ask[iperf.Client, iperf.Ran]    = "iperf.send" // a stream of None: its connection stands
	CPUTime       Ask[None, host.CPUTime]         = "cpu.time"
	NetworkNets   Ask[None, []mpi.Net]            = "network.nets"

	NetworkAnnounce Ask[AnnounceArgs, None] = "network.announce"
)

func gatewayMethods() []Method {
	return []Method{
		method(GatewayOpen, "sets a port, addresses and routes up as one of two gateways, until the connection ends", (*Session).openGateway),
		method(GatewaySee, "the gateway's port, and who answers at the other end of its cable", (*Session).seeGateway),
		method(GatewayDirect, "routes to the other gateway's network over the cable itself, or not at all", (*Session).directGateway),
		method(GatewaySpread, "has flows of the gateway's port go to all CPUs, or as they did before", (*Session).spreadGateway),
		method(GatewayClose, "puts the gateway back", (*Session).closeGateway),
		method(TunnelCheck, "whether a tunnel can run here", (*Session).checkTunnel),
		method(TunnelOpen, "opens an end of a tunnel with the keys given, until the connection ends", (*Session).openTunnel),
		method(TunnelFresh, "makes an end of a tunnel forget its session", (*Session).freshTunnel),
		method(TunnelSee, "what a tunnel's program used and said", (*Session).seeTunnel),
		method(TunnelClose, "takes an end of a tunnel away", (*Session).closeTunnel),
		streaming(TunnelHear, "waits for a packet at an address of this machine", (*Session).hear),
		method(TunnelKnock, "sends small packets to an address of test networks", (*Session).knock),
		method(IperfCheck, "whether iperf3 is here", func(*Session, context.Context, None) (None, error) { return None{}, host.Has("iperf3") }),
		method(IperfServe, "starts a server of iperf3 for one client", (*Session).serveIperf),
		method(ServerUsage, "what a server used", (*Session).useOfServer),
		method(ServerClose, "ends a server", (*Session).closeServer),
		streaming(IperfSend, "sends with iperf3 to a server for a time", (*Session).sendIperf),
		method(CPUTime, "the time of all CPUs since boot", func(*Session, context.Context, None) (host.CPUTime, error) { return (&host.Local{}).CPUTime() }),
		method(NetworkNets, "where this machine is in private networks", (*Session).nets),
		method(NetworkAnnounce, "has switches learn where a station of test frames is", (*Session).announce),
	}
}

// A GatewayOpened is how flows would come to all CPUs of a gateway that is set up.
type GatewayOpened struct {
	AllCPUs string `json:"all_cpus"`
}

// TunnelArgs name a tunnel.
type TunnelArgs struct {
	Name   string `json:"name"`
	Cipher string `json:"cipher"`
}

// A TunnelOpened is an end that is open.
type TunnelOpened struct {
	ID     int    `json:"id"`
	Driver string `json:"driver"` // tunnel.End.Driver
}

// A TunnelState is what became of an end's program.
type TunnelState struct {
	Usage result.Usage `json:"usage"`
	Ended string       `json:"ended,omitempty"`
	Said  string       `json:"said,omitempty"`
}

// KnockArgs are where packets go.
type KnockArgs struct {
	From netip.Addr     `json:"from"`
	To   netip.AddrPort `json:"to"`
}

// IperfArgs are where a server listens.
type IperfArgs struct {
	Address netip.Addr `json:"address"`
	Port    int        `json:"port"`
	CPUs    []int      `json:"cpus,omitempty"`
}

// A kept holds what testers have opened, by number.
type kept[T any] map[int]T

// mostKept is how many of a kind a tester may have open.
const mostKept = 16

// keep adds x to those of s that are open, and has end called with the connection's end.
func keep[T any](s *Session, all kept[T], x T, end func(T) error) int {
	s.mu.Lock()
	s.last++
	id := s.last
	all[id] = x
	s.mu.Unlock()
	s.atEnd(func() error {
		x, err := take(s, all, id)
		if err != nil {
			return nil // it was closed
		}
		return end(x)
	})
	return id
}

var errNotOpen = errors.New("there is no such thing open")

func find[T any](s *Session, all kept[T], id int) (T, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x, ok := all[id]
	if !ok {
		return x, errNotOpen
	}
	return x, nil
}

func take[T any](s *Session, all kept[T], id int) (T, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x, ok := all[id]
	if !ok {
		return x, errNotOpen
	}
	delete(all, id)
	return x, nil
}

// full says whether no more of what kept holds may be open.
func full[T any](s *Session, kept map[int]T) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(kept) >= mostKept {
		return fmt.Errorf("%d are open, and no more may be", mostKept)
	}
	return nil
}

func (s *Session) openGateway(ctx context.Context, w service.Way) (o GatewayOpened, err error) {
	s.managing.Lock()
	defer s.managing.Unlock()
	if s.gateway != nil || s.managed() != nil {
		return o, errors.New("a gateway is set up already, or ports for services are")
	}
	if err := s.ownFolder(); err != nil {
		return o, err
	}
	g, err := service.OpenGateway(ctx, "", w, "agent")
	if err != nil {
		return o, err
	}
	s.gateway = g
	s.atEnd(g.Close)
	if o.AllCPUs, err = g.AllCPUs(); err != nil {
		o.AllCPUs = "not known: " + err.Error()
	}
	return o, nil
}

var errNoGateway = errors.New("no gateway is set up")

func (s *Session) seeGateway(context.Context, None) (service.GatewayState, error) {
	s.managing.Lock()
	defer s.managing.Unlock()
	if s.gateway == nil {
		return service.GatewayState{}, errNoGateway
	}
	return s.gateway.See()
}

func (s *Session) directGateway(_ context.Context, on bool) (None, error) {
	s.managing.Lock()
	defer s.managing.Unlock()
	if s.gateway == nil {
		return None{}, errNoGateway
	}
	return None{}, s.gateway.Direct(on)
}

func (s *Session) spreadGateway(ctx context.Context, all bool) (None, error) {
	s.managing.Lock()
	defer s.managing.Unlock()
	if s.gateway == nil {
		return None{}, errNoGateway
	}
	return None{}, s.gateway.Spread(ctx, all)
}

func (s *Session) closeGateway(context.Context, None) (None, error) {
	s.managing.Lock()
	defer s.managing.Unlock()
	g := s.gateway
	if g == nil {
		return None{}, errNoGateway
	}
	s.gateway = nil
	return None{}, g.Close()
}

func (s *Session) gate() tunnel.Local { return tunnel.Local{Host: &host.Local{Label: Label}} }

func (s *Session) checkTunnel(ctx context.Context, a TunnelArgs) (None, error) {
	return None{}, s.gate().CheckTunnel(ctx, a.Name, a.Cipher)
}

// openTunnel opens an end of a gateway: its journal takes away what a killed agent leaves.
func (s *Session) openTunnel(ctx context.Context, o tunnel.Order) (TunnelOpened, error) {
	s.managing.Lock()
	defer s.managing.Unlock()
	switch {
	case s.gateway == nil:
		return TunnelOpened{}, errNoGateway
	case len(s.tunnels) > 0:
		return TunnelOpened{}, errors.New("a tunnel is open already")
	}
	end, err := s.gate().OpenTunnel(ctx, o)
	if err != nil {
		return TunnelOpened{}, err
	}
	id := keep(s, s.tunnels, end, func(e tunnel.End) error { return e.Stop(ended()) })
	return TunnelOpened{id, end.Driver()}, nil
}

// ended is a context that has ended: what stops within it stops at once.
func ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

func (s *Session) freshTunnel(ctx context.Context, id int) (unit.Instant, error) {
	e, err := find(s, s.tunnels, id)
	if err != nil {
		return 0, err
	}
	return e.Fresh(ctx)
}

func (s *Session) seeTunnel(_ context.Context, id int) (st TunnelState, err error) {
	e, err := find(s, s.tunnels, id)
	if err != nil {
		return st, err
	}
	if gone := e.Ended(); gone != nil {
		st.Ended = gone.Error()
	}
	st.Said = e.Said()
	st.Usage, err = e.Usage()
	return st, err
}

func (s *Session) closeTunnel(ctx context.Context, id int) (None, error) {
	e, err := take(s, s.tunnels, id)
	if err != nil {
		return None{}, err
	}
	return None{}, e.Stop(ctx)
}

func (s *Session) hear(ctx context.Context, req *link.Request, at netip.Addr) (unit.Instant, error) {
	if !at.Is4() {
		return 0, fmt.Errorf("%v is no IPv4 address to hear at", at)
	}
	var failed error
	when, err := s.gate().Hear(ctx, at, func(a netip.AddrPort) { failed = req.Send(ctx, a) })
	return when, errors.Join(err, failed)
}

// knock sends to test networks alone, as long as the tester waits.
func (s *Session) knock(ctx context.Context, a KnockArgs) (None, error) {
	if !a.From.Is4() || !a.To.Addr().Is4() || a.To.Port() == 0 {
		return None{}, fmt.Errorf("from %v to %v is no way of IPv4", a.From, a.To)
	}
	if host.Public(a.To.Addr()) {
		return None{}, fmt.Errorf("%v is no address of test networks", a.To)
	}
	return None{}, s.gate().Knock(ctx, a.From, a.To)
}

func (s *Session) serveIperf(ctx context.Context, a IperfArgs) (int, error) {
	if err := full(s, s.servers); err != nil {
		return 0, err
	}
	server, err := iperf.Local{Host: &host.Local{Label: Label}}.Serve(ctx, a.Address, a.Port, a.CPUs)
	if err != nil {
		return 0, err
	}
	return keep(s, s.servers, server, iperf.Server.Kill), nil
}

func (s *Session) useOfServer(_ context.Context, id int) (result.Usage, error) {
	server, err := find(s, s.servers, id)
	if err != nil {
		return result.Usage{}, err
	}
	return server.Usage()
}

func (s *Session) closeServer(_ context.Context, id int) (None, error) {
	server, err := take(s, s.servers, id)
	if err != nil {
		return None{}, err
	}
	return None{}, server.Kill()
}

func (s *Session) sendIperf(ctx context.Context, req *link.Request, c iperf.Client) (iperf.Ran, error) {
	if host.Public(c.To) {
		return iperf.Ran{}, fmt.Errorf("%v is no address of test networks", c.To)
	}
	return iperf.Local{Host: &host.Local{Label: Label}}.Send(ctx, c, func() error { return req.Send(ctx, None{}) })
}

// These are a Machine's as a gateway's: tunnel.Gate and iperf.Machine.

// CheckTunnel implements tunnel.Gate.
func (m Machine) CheckTunnel(ctx context.Context, name, cipher string) error {
	_, err := TunnelCheck.Call(ctx, m.Conn, TunnelArgs{name, cipher})
	return m.lost(err)
}

// OpenTunnel implements tunnel.Gate.
func (m Machine) OpenTunnel(ctx context.Context, o tunnel.Order) (tunnel.End, error) {
	opened, err := TunnelOpen.Call(ctx, m.Conn, o)
	if err != nil {
		return nil, m.lost(err)
	}
	return &farEnd{m, opened}, nil
}

// Hear implements tunnel.Gate.
func (m Machine) Hear(ctx context.Context, at netip.Addr, listens func(netip.AddrPort)) (unit.Instant, error) {
	clock, err := m.Conn.Clock(ctx, clockReadings)
	if err != nil {
		return 0, m.lost(err)
	}
	var when unit.Instant
	err = m.Conn.Stream(ctx, string(TunnelHear), at, &when, func(item json.RawMessage) error {
		var a netip.AddrPort
		if err := json.Unmarshal(item, &a); err != nil {
			return err
		}
		listens(a)
		return nil
	})
	return clock.Here(when), m.lost(err)
}

// Knock implements tunnel.Gate.
func (m Machine) Knock(ctx context.Context, from netip.Addr, to netip.AddrPort) error {
	_, err := TunnelKnock.Call(ctx, m.Conn, KnockArgs{from, to})
	if ctx.Err() != nil {
		return nil
	}
	return m.lost(err)
}

// A farEnd is an end of a tunnel on a box.
type farEnd struct {
	on Machine
	TunnelOpened
}

func (e *farEnd) Driver() string { return link.Cut(e.TunnelOpened.Driver, 200) }

func (e *farEnd) Fresh(ctx context.Context) (unit.Instant, error) {
	clock, err := e.on.Conn.Clock(ctx, clockReadings)
	if err != nil {
		return 0, e.on.lost(err)
	}
	when, err := TunnelFresh.Call(ctx, e.on.Conn, e.ID)
	return clock.Here(when), e.on.lost(err)
}

func (e *farEnd) see() (TunnelState, error) {
	ctx, cancel := context.WithTimeout(context.Background(), answerPatience)
	defer cancel()
	st, err := TunnelSee.Call(ctx, e.on.Conn, e.ID)
	return st, e.on.lost(err)
}

func (e *farEnd) Usage() (result.Usage, error) {
	st, err := e.see()
	return st.Usage, err
}

func (e *farEnd) Ended() error {
	st, err := e.see()
	return errors.Join(err, said(st.Ended))
}

func (e *farEnd) Said() string {
	st, _ := e.see() // else nothing is known
	return link.Cut(st.Said, 300)
}

func (e *farEnd) Stop(ctx context.Context) error {
	_, err := TunnelClose.Call(ctx, e.on.Conn, e.ID)
	if e.on.Conn.Err() != nil {
		return nil // it ended with the connection
	}
	return err
}

// HasIperf implements iperf.Machine.
func (m Machine) HasIperf(ctx context.Context) error {
	_, err := IperfCheck.Call(ctx, m.Conn, None{})
	return m.lost(err)
}

// CPUTime implements iperf.Machine.
func (m Machine) CPUTime(ctx context.Context) (host.CPUTime, error) {
	t, err := CPUTime.Call(ctx, m.Conn, None{})
	return t, m.lost(err)
}

// Serve implements iperf.Machine.
func (m Machine) Serve(ctx context.Context, address netip.Addr, port int, cpus []int) (iperf.Server, error) {
	id, err := IperfServe.Call(ctx, m.Conn, IperfArgs{address, port, cpus})
	if err != nil {
		return nil, m.lost(err)
	}
	return &farServer{m, id}, nil
}

// Send implements iperf.Machine.
func (m Machine) Send(ctx context.Context, c iperf.Client, stands func() error) (ran iperf.Ran, err error) {
	clock, err := m.Conn.Clock(ctx, clockReadings)
	if err != nil {
		return ran, m.lost(err)
	}
	err = m.Conn.Stream(ctx, string(IperfSend), c, &ran, func(json.RawMessage) error { return stands() })
	ran.Begin, ran.End = clock.Here(ran.Begin), clock.Here(ran.End)
	return ran, m.lost(err)
}

// A farServer is a server on a box.
type farServer struct {
	on Machine
	id int
}

func (s *farServer) Usage() (result.Usage, error) {
	ctx, cancel := context.WithTimeout(context.Background(), answerPatience)
	defer cancel()
	u, err := ServerUsage.Call(ctx, s.on.Conn, s.id)
	return u, s.on.lost(err)
}

func (s *farServer) Kill() error {
	ctx, cancel := context.WithTimeout(context.Background(), answerPatience)
	defer cancel()
	_, err := ServerClose.Call(ctx, s.on.Conn, s.id)
	if s.on.Conn.Err() != nil {
		return nil // it ended with the connection
	}
	return err
}
