// SPDX-License-Identifier: Apache-2.0

// Package conn makes new TCP connections without sockets: both ends are XDP programs.
//
//	sender of xdp -> bpf/conn.c opening: SYN ---- box ---- bpf/conn.c server: SYN-ACK, response
//	                 bpf/conn.c client: ACK, request <-----------------'
package conn

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"boxdyno/host"
	"boxdyno/result"
	"boxdyno/unit"
)

// A Spec is both ends of a new-connection load: TCP over IPv4 without
// sockets. Connections are numbered: number n has client port FirstPort +
// n mod Ports, then the next of Services server ports, then the next client
// address.
type Spec struct {
	Client, Server        host.Port // in native XDP; without a Name that end is somebody else's, such as a real server
	ClientMAC, GatewayMAC [6]byte   // of SYNs; replies go back to whom they came from
	ClientAddr            netip.Addr
	Clients               int        // addresses from ClientAddr on; 0: 1
	ServerAddr            netip.Addr // as the client has it
	ServerPort            uint16     // the first of Services
	Services              int        // 0: 1
	Object                int        // octets that a response has after its HTTP header, at most MaxObject
	AnySize               bool       // responses are whole when the server closes, whatever their size
	MTU                   int        // of both ports; 0: 1500
	Most                  int        // connections of one trial, 24 octets of kernel memory each
	CPU                   int        // of the sender's thread; -1: any
	Bare                  bool       // nobody knows whether the far ends of the ports have XDP programs

	redirects bool // a port is a veth, and Bare: its replies are redirected
}

// Ports of connections, and limits.
const (
	FirstPort = 10_000
	Ports     = 50_000
	MaxObject = 100_000_000
	MaxOpen   = 16 << 20 // of a trial

	maxSegment = 1460
	maxRequest = 256
)

// The states of bpf/conn.h's connections.
const (
	stateNone = iota
	stateOpening
	stateEstablished
	stateReceiving
	stateWhole
	stateFinishing
	stateClosing
	stateClosed
	stateShort
	stateReset = 16
)

// A Report is where the connections of a trial stand: each in one of the
// states, by a walk over all of them. Counts of the programs stand beside, made
// where frames came and went.
type Report struct {
	Opened uint64 // SYNs made

	NoAnswer uint64 // no SYN-ACK came
	NoData   uint64 // no octet of the response came
	Partial  uint64 // not all of it
	Open     uint64 // response whole, held open
	Unclosed uint64 // closed by the client; the server's last acknowledgement is missing
	Closed   uint64 // complete
	Short    uint64 // closed by the server before the response was whole
	Reset    uint64 // ended by RST, in any state

	Established, FirstByte, Whole, Finished, Resets uint64       // transitions that the client's program made
	Octets                                          uint64       // of responses, HTTP headers included, in order
	Stray                                           uint64       // segments that belong to no connection, or not to its state
	Disorder                                        uint64       // segments with another sequence number than the next
	NoRoom                                          uint64       // replies that the client port\'s buffers had no room for
	First                                           unit.Instant // SYN
	LastSYN                                         unit.Instant
	LastWhole                                       unit.Instant      // when a response was last whole
	Last                                            unit.Instant      // when one was last whole or closed
	Handshake                                       *result.Histogram // s, SYN to SYN-ACK
	TTFB                                            *result.Histogram // s, SYN to the response's first octet (RFC 9411 section 6.1)

	Server   ServerReport
	Sent     uint64 // frames made by both ends
	Received uint64 // frames that came to them
}

// A ServerReport is what the server's program counted.
type ServerReport struct {
	Opened   uint64 // SYNs that came
	Requests uint64
	Segments uint64
	Octets   uint64 // of them
	FINs     uint64
	Resets   uint64
	Stray    uint64 // segments that are no answer to ours
	NoRoom   uint64 // replies that the port's buffers had no room for
}

// Unexplained is what the states leave of Opened: 0, or a finding.
func (r Report) Unexplained() int64 {
	return int64(r.Opened) - int64(r.NoAnswer+r.NoData+r.Partial+r.Open+r.Unclosed+r.Closed+r.Short+r.Reset)
}

// Failed is how many neither were complete nor are held open.
func (r Report) Failed() uint64 { return r.Opened - min(r.Opened, r.Closed+r.Open) }

// Numbers is how many connections a spec tells apart.
func (s Spec) Numbers() uint64 {
	return uint64(max(s.Clients, 1)) * uint64(max(s.Services, 1)) * Ports
}

func (s Spec) check() error {
	switch {
	case s.Client.Name == "" && s.Server.Name == "":
		return errors.New("neither a client's port nor a server's is given")
	case !s.ServerAddr.Is4() || s.Client.Name != "" && !s.ClientAddr.Is4():
		return errors.New("connections are made over IPv4, and an address is missing or is none of it")
	case s.Object < 0 || s.Object > MaxObject:
		return fmt.Errorf("an object of %d octets: want 0 to %d", s.Object, MaxObject)
	case s.Most < 1 || s.Most > MaxOpen:
		return fmt.Errorf("up to %d connections: want 1 to %d", s.Most, MaxOpen)
	case s.Numbers() > 1<<30:
		return fmt.Errorf("%d clients and %d services make more than 2^30 connections", s.Clients, s.Services)
	case uint64(s.Most) > s.Numbers():
		return fmt.Errorf("up to %d connections, and addresses and ports tell %d apart: give more clients or services", s.Most, s.Numbers())
	case int(s.ServerPort)+s.Services > 1<<16:
		return fmt.Errorf("%d services from port %d on: ports end at 65535", s.Services, s.ServerPort)
	case s.MTU != 0 && s.MTU < 576:
		return fmt.Errorf("MTU %d: want at least 576", s.MTU)
	}
	return nil
}

// setup is what the programs know of a trial whose first connection is number
// first.
func (s Spec) setup(first uint32, index int, hold bool) connSetup {
	request, response := []byte(s.request()), s.Response()
	segment := s.segment()
	c := connSetup{
		Clients: uint32(max(s.Clients, 1)), Server: rawAddr(s.ServerAddr),
		ClientPort: FirstPort, Ports: Ports, ServerPort: uint32(s.ServerPort), Services: uint32(max(s.Services, 1)),
		First: first, Tuples: uint32(s.Numbers()), Seed: 0x626f7864, Ifindex: uint32(index),
		Request: uint32(len(request)), Response: uint32(response), Segment: uint32(segment),
		ClientMac: s.ClientMAC, GatewayMac: s.GatewayMAC,
		RequestSum: rawSum(request),
		FirstSum:   rawSum(s.octets(0, min(segment, response))),
		MoreSum:    rawSum(s.octets(segment, segment)),
		LastSum:    rawSum(s.octets(segment, (response-1)%segment+1)),
	}
	if s.ClientAddr.Is4() {
		a := s.ClientAddr.As4()
		c.Client = binary.BigEndian.Uint32(a[:])
	}
	if s.AnySize {
		c.Response = 0
	}
	if hold {
		c.Hold = 1
	}
	if s.redirects {
		c.Redirects = 1
	}
	return c
}

func (s Spec) segment() int {
	if s.MTU == 0 {
		return maxSegment
	}
	return min(s.MTU-40, maxSegment)
}

func (s Spec) request() string {
	return fmt.Sprintf("GET /%d HTTP/1.1\r\nHost: %v\r\nUser-Agent: boxdyno\r\nAccept: */*\r\n\r\n", s.Object, s.ServerAddr)
}

func (s Spec) head() string {
	return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: %d\r\nConnection: close\r\n\r\n", s.Object)
}

// Response is how many octets of TCP a response has, with its HTTP header.
func (s Spec) Response() int { return len(s.head()) + s.Object }

// octets are n of a response from off on: after the header octet x is that of a
// pattern which begins anew with each segment.
func (s Spec) octets(off, n int) []byte {
	const pattern = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-\n"
	head := s.head()
	b := make([]byte, n)
	for i := range b {
		if off+i < len(head) {
			b[i] = head[off+i]
		} else {
			b[i] = pattern[(off+i)%s.segment()%len(pattern)]
		}
	}
	return b
}

// rawAddr is an address as a word of memory.
func rawAddr(a netip.Addr) uint32 {
	b := a.As4()
	return binary.NativeEndian.Uint32(b[:])
}

// rawSum is the one's complement sum of b's 16-bit words as memory has them.
func rawSum(b []byte) uint32 {
	var sum uint32
	for i := 0; i < len(b); i += 2 {
		var w [2]byte
		copy(w[:], b[i:])
		sum += uint32(binary.NativeEndian.Uint16(w[:]))
		sum = sum>>16 + sum&0xffff
	}
	return sum
}

// failures names the states that hold connections which failed, for an error or
// a reason.
func (r Report) Failures() string {
	var out []string
	for _, f := range []struct {
		n    uint64
		what string
	}{
		{r.NoAnswer, "without SYN-ACK"}, {r.NoData, "without first byte"}, {r.Partial, "with a part of the response"},
		{r.Unclosed, "not closed"}, {r.Short, "closed early by the server"}, {r.Reset, "reset"},
	} {
		if f.n > 0 {
			out = append(out, fmt.Sprintf("%d %s", f.n, f.what))
		}
	}
	return strings.Join(out, ", ")
}
