// SPDX-License-Identifier: Apache-2.0

// Package cables finds out which port of one machine is wired to which port of another:
//
//	tester                                     box
//	Open: free ports are set up                Open: the same there
//	Send: a mark from each free port --------> every port listens: Heard
//	Heard <----------------------------------- Send
//	Match: what was heard both ways is a cable
//
// A mark is a broadcast frame with the search's nonce, its side and its port. Ports that
// were set up are set down again by Close, and after a crash by package tune's journal.
package cables

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"boxdyno/host"
	"boxdyno/internal/guard"
	"boxdyno/internal/netns"
	"boxdyno/tune"
)

// A Side is who sends a mark.
type Side string

// The sides.
const (
	Tester Side = "tester"
	Box    Side = "box"
)

// A Port is one of Ethernet that a cable may be in.
type Port struct {
	Name    string `json:"name"`
	Link    string `json:"link"`           // driver, and speed where it has one
	Carrier bool   `json:"carrier"`        // its cable is in, and the other end is there
	Used    string `json:"used,omitempty"` // why nothing is sent by it; "": it is free
	Down    bool   `json:"down,omitempty"` // it is not set up
	index   int
	mac     [6]byte
}

// A Heard is a mark that came in.
type Heard struct {
	Port string `json:"port"` // that it came in at
	Side Side   `json:"side"` // that sent it
	From string `json:"from"` // that side's port
}

// Ports are those of a namespace (a path; "": the caller's own), by name. Nothing is
// changed.
func Ports(path string) (ports []Port, err error) {
	err = netns.Do(path, func() error {
		links, err := netlink.LinkList()
		if err != nil {
			return fmt.Errorf("list links: %w", err)
		}
		for _, l := range links {
			a := l.Attrs()
			if !slices.Contains([]string{"device", "veth", "tuntap"}, l.Type()) || a.EncapType != "ether" || len(a.HardwareAddr) != 6 {
				continue
			}
			p := Port{Name: a.Name, Carrier: a.RawFlags&unix.IFF_LOWER_UP != 0, Down: a.RawFlags&unix.IFF_UP == 0, index: a.Index, mac: [6]byte(a.HardwareAddr)}
			driver, speed := host.Driver(a.Name, l.Type())
			if p.Link = driver; speed > 0 && p.Carrier {
				p.Link += ", " + speed.String()
			}
			ports = append(ports, p)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for i, p := range ports {
		if ports[i].Used, err = used(host.Port{Netns: path, Name: p.Name}); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(ports, func(a, b Port) int { return strings.Compare(a.Name, b.Name) })
	return ports, nil
}

// used says why a port must not be sent by. An address of the networks for benchmarks
// says that it is meant for a test.
func used(p host.Port) (string, error) {
	if _, err := os.Stat("/sys/class/net/" + p.Name + "/phy80211"); err == nil && p.Netns == "" {
		return "is wireless", nil
	}
	use, err := p.Used(host.Benchmarks...)
	return use.Why, err
}

// A Search is one side of a search for cables. Its methods may be called side by side.
type Search struct {
	netns string
	nonce string
	side  Side
	file  *os.File
	raw   syscall.RawConn
	done  chan struct{}
	ups   *tune.Applied

	mu    sync.Mutex
	ports []Port
	heard []Heard
	close func() error
}

const (
	etherType = 0x88b5 // IEEE 802, local experimental
	magic     = "boxdyno cable"
	mostNonce = 64
)

// onlyMarks is the socket's filter (socket(7), classic BPF).
var onlyMarks = []unix.SockFilter{
	{Code: unix.BPF_LD | unix.BPF_H | unix.BPF_ABS, K: 12},
	{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: etherType, Jf: 1},
	{Code: unix.BPF_RET | unix.BPF_K, K: 256},
	{Code: unix.BPF_RET | unix.BPF_K, K: 0},
}

// Open begins to listen at all ports of a namespace, and sets up those that are free and
// down. nonce is the search's. It needs CAP_NET_RAW and CAP_NET_ADMIN: a *host.Missing
// otherwise.
func Open(ctx context.Context, path, nonce string, side Side) (_ *Search, err error) {
	if nonce == "" || len(nonce) > mostNonce || strings.ContainsAny(nonce, "\n\x00") {
		return nil, errors.New("search for cables: the nonce is none")
	}
	s := &Search{netns: path, nonce: nonce, side: side, done: make(chan struct{})}
	s.close = sync.OnceValue(s.end)
	if s.ports, err = Ports(path); err != nil {
		return nil, err
	}
	err = netns.Do(path, func() error {
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			return err
		}
		s.file = os.NewFile(uintptr(fd), "cables")
		program := unix.SockFprog{Len: uint16(len(onlyMarks)), Filter: &onlyMarks[0]}
		all := uint16(unix.ETH_P_ALL) // others would not hear at a bridge's port
		return errors.Join(
			unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &program),
			unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all<<8 | all>>8}))
	})
	if err == nil {
		s.raw, err = s.file.SyscallConn()
	}
	if err != nil {
		if s.file != nil {
			s.file.Close()
		}
		return nil, host.Permit("search for cables", fmt.Errorf("listen for marks: %w", err))
	}
	guard.Go(s.listen)
	if err := s.up(ctx); err != nil {
		return nil, errors.Join(host.Permit("set ports up", err), s.Close())
	}
	return s, nil
}

// up sets free ports up that are down.
func (s *Search) up(ctx context.Context) error {
	var names []string
	for _, p := range s.ports {
		if p.Used == "" && p.Down {
			names = append(names, p.Name)
		}
	}
	if names == nil {
		return nil
	}
	r := tune.Recipe{Name: "cables", Steps: []tune.Step{{Knob: "link", Target: tune.ForPorts, Value: "up"}}}
	ups, settings, err := tune.New().Apply(ctx, r, tune.On{Host: &host.Local{Netns: s.netns}, Ports: names}, tune.Options{By: "box cables"})
	if err != nil {
		return err
	}
	s.ups = ups
	for _, set := range settings {
		for i := range s.ports {
			if s.ports[i].Name == set.Target && set.Problem != "" {
				s.ports[i].Used = "cannot be set up: " + set.Problem
			}
		}
	}
	return nil
}

// Ports are those of the search, with the carrier that they have now.
func (s *Search) Ports() ([]Port, error) {
	now, err := Ports(s.netns)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.ports {
		for _, p := range now {
			if p.index == s.ports[i].index {
				s.ports[i].Carrier, s.ports[i].Link = p.Carrier, p.Link
			}
		}
	}
	return slices.Clone(s.ports), nil
}

// Send sends a mark from each free port that has a carrier. Those that cannot send are
// left out: the other side hears nothing of them.
func (s *Search) Send() error {
	s.mu.Lock()
	ports := slices.Clone(s.ports)
	s.mu.Unlock()
	return s.raw.Control(func(fd uintptr) {
		for _, p := range ports {
			if p.Used == "" && p.Carrier {
				_ = unix.Sendto(int(fd), s.mark(p), 0, &unix.SockaddrLinklayer{Ifindex: p.index})
			}
		}
	})
}

// mark is the frame that a port sends.
func (s *Search) mark(p Port) []byte {
	b := append([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, p.mac[:]...)
	b = append(b, etherType>>8, etherType&0xff)
	b = append(b, strings.Join([]string{magic, s.nonce, string(s.side), p.Name, ""}, "\n")...)
	return append(b, make([]byte, max(0, 60-len(b)))...)
}

// parse reads a mark of this search.
func (s *Search) parse(b []byte) (side Side, port string, ok bool) {
	if len(b) < 14 {
		return "", "", false
	}
	f := strings.Split(string(b[14:]), "\n")
	if len(f) < 5 || f[0] != magic || f[1] != s.nonce || f[2] != string(Tester) && f[2] != string(Box) || f[3] == "" || len(f[3]) > 15 {
		return "", "", false
	}
	return Side(f[2]), f[3], true
}

func (s *Search) listen() {
	defer close(s.done)
	b := make([]byte, 256)
	for {
		var n int
		var from unix.Sockaddr
		var err error
		if s.raw.Read(func(fd uintptr) bool {
			n, from, err = unix.Recvfrom(int(fd), b, 0)
			return !errors.Is(err, unix.EAGAIN)
		}) != nil {
			return // it was closed
		}
		at, ok := from.(*unix.SockaddrLinklayer)
		if err != nil || !ok || at.Pkttype == unix.PACKET_OUTGOING {
			continue
		}
		s.take(at.Ifindex, bytes.Clone(b[:n]))
	}
}

func (s *Search) take(index int, b []byte) {
	side, from, ok := s.parse(b)
	if !ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.ports {
		h := Heard{Port: p.Name, Side: side, From: from}
		if p.index == index && !slices.Contains(s.heard, h) {
			s.heard = append(s.heard, h)
		}
	}
}

// Heard are the marks that came in so far, each once.
func (s *Search) Heard() []Heard {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.heard)
}

// Close ends the search and sets down what it set up. It may be called more than once.
func (s *Search) Close() error { return s.close() }

func (s *Search) end() error {
	err := s.file.Close()
	<-s.done
	if s.ups != nil {
		_, rerr := s.ups.Revert(context.Background(), tune.Revert{})
		err = errors.Join(err, rerr)
	}
	return err
}

// State says whether the port would be tried, in words.
func (p Port) State() string {
	switch {
	case p.Used != "":
		return "not tried: it " + p.Used
	case p.Down:
		return "free, and set up for the search"
	case !p.Carrier:
		return "free, no link"
	}
	return "free"
}
