// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"boxdyno/host"
	"boxdyno/internal/guard"
	"boxdyno/internal/netns"
)

// A responder is the tester's neighbour on a real port, where its kernel has no address and a
// shield has it say nothing. Its packet socket's filter takes what is no test frame: groups,
// and all that is neither UDP nor TCP. Its count, and that of the responder's own frames, is
// what the port's counters hold beside the load. The socket, its filter and its membership of
// all groups end with the process.
type responder struct {
	port host.Port
	mac  [6]byte
	owns func(netip.Addr) bool

	file *os.File
	conn syscall.RawConn
	done chan struct{}

	sent atomic.Uint64 // its own frames
	nd   atomic.Uint64 // of them, those of IPv6
	mu   sync.Mutex
	seen uint64 // frames that the filter took, those that the socket had no room for too

	heard map[netip.Addr][6]byte
	news  chan struct{} // closed when heard grows
}

// noTestFrame is the socket's filter (socket(7), classic BPF).
var noTestFrame = []unix.SockFilter{
	{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS, K: 0},
	{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, K: 1, Jt: 9}, // a group's
	{Code: unix.BPF_LD | unix.BPF_H | unix.BPF_ABS, K: 12},
	{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: etherIPv4, Jf: 2},
	{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS, K: etherLen + 9},
	{Code: unix.BPF_JMP | unix.BPF_JA, K: 2},
	{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: etherIPv6, Jf: 4},
	{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS, K: etherLen + 6},
	{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: protoUDP, Jt: 1},
	{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: protoTCP, Jf: 1},
	{Code: unix.BPF_RET | unix.BPF_K, K: 0},
	{Code: unix.BPF_RET | unix.BPF_K, K: 512},
}

// newResponder answers on p, whose MAC address is mac, for the addresses that owns
// says. It needs CAP_NET_RAW (a *host.Missing otherwise).
func newResponder(p host.Port, index int, mac [6]byte, owns func(netip.Addr) bool) (_ *responder, err error) {
	r := &responder{port: p, mac: mac, owns: owns, done: make(chan struct{}), heard: map[netip.Addr][6]byte{}, news: make(chan struct{})}
	err = netns.Do(p.Netns, func() error {
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			return err
		}
		r.file = os.NewFile(uintptr(fd), "neighbours of "+p.Name)
		program := unix.SockFprog{Len: uint16(len(noTestFrame)), Filter: &noTestFrame[0]}
		all := uint16(unix.ETH_P_ALL) // others would come after the shield
		err = errors.Join(
			unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &program),
			unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_QDISC_BYPASS, 1), // past the shield
			unix.SetsockoptPacketMreq(fd, unix.SOL_PACKET, unix.PACKET_ADD_MEMBERSHIP,
				&unix.PacketMreq{Ifindex: int32(index), Type: unix.PACKET_MR_ALLMULTI}), // IPv6 asks groups
		)
		if e := unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1); e != unix.ENOPROTOOPT { // Linux 4.20
			err = errors.Join(err, e)
		}
		if err == nil {
			err = unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all<<8 | all>>8, Ifindex: index})
		}
		return err
	})
	if err == nil {
		r.conn, err = r.file.SyscallConn()
	}
	if err != nil {
		if r.file != nil {
			r.file.Close()
		}
		return nil, fmt.Errorf("listen for neighbours on %s: %w", p.Name, err)
	}
	guard.Go(r.listen)
	return r, nil
}

func (r *responder) close() error {
	err := r.file.Close()
	<-r.done
	return err
}

func (r *responder) listen() {
	defer close(r.done)
	b := make([]byte, 2048)
	for {
		n, err := r.file.Read(b)
		switch {
		case errors.Is(err, os.ErrClosed):
			return
		case err != nil: // the port went down, or is gone: it may come back
			time.Sleep(10 * time.Millisecond)
			continue
		}
		r.take(b[:n])
	}
}

// take answers a question for an address of its own, and remembers answers.
func (r *responder) take(b []byte) {
	n, ok := parseNeighbour(b)
	if !ok || n.senderMAC == r.mac {
		return
	}
	if n.ask {
		if r.owns(n.target) {
			_ = r.send(neighbour{target: n.target, senderMAC: r.mac, to: n.sender, toMAC: n.senderMAC}) // who asks will ask again
		}
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.heard[n.target] = n.senderMAC
	close(r.news)
	r.news = make(chan struct{})
}

func (r *responder) send(n neighbour) error {
	if _, err := r.file.Write(n.frame()); err != nil {
		return fmt.Errorf("send from %s: %w", r.port.Name, err)
	}
	r.sent.Add(1)
	if n.target.Is6() {
		r.nd.Add(1)
	}
	return nil
}

// errNoAnswer is that nobody answers for an address.
var errNoAnswer = errors.New("nobody answers")

// Three questions a second apart (RFC 4861 10, RFC 1122 2.3.2.1 asks for at most
// one a second).
const (
	questions   = 3
	questionGap = time.Second
)

// resolve asks the link for target's MAC address, on behalf of from. errNoAnswer:
// nobody has it.
func (r *responder) resolve(ctx context.Context, from, target netip.Addr) ([6]byte, error) {
	r.mu.Lock()
	delete(r.heard, target)
	r.mu.Unlock()
	for range questions {
		if err := r.send(neighbour{ask: true, target: target, sender: from, senderMAC: r.mac}); err != nil {
			return [6]byte{}, err
		}
		late := time.After(questionGap)
		for waiting := true; waiting; {
			r.mu.Lock()
			mac, ok := r.heard[target]
			news := r.news
			r.mu.Unlock()
			if ok {
				return mac, nil
			}
			select {
			case <-ctx.Done():
				return [6]byte{}, ctx.Err()
			case <-late:
				waiting = false
			case <-news:
			}
		}
	}
	return [6]byte{}, errNoAnswer
}

// introduce makes target know every one of addrs before it must send there: who is
// asked remembers who asks (RFC 826, RFC 4861 7.2.3).
func (r *responder) introduce(target netip.Addr, addrs []netip.Addr) error {
	for _, a := range addrs {
		if err := r.send(neighbour{ask: true, target: target, sender: a, senderMAC: r.mac}); err != nil {
			return err
		}
	}
	return nil
}

// announce says where addrs are, to whom it concerns: a switch learns the port.
func (r *responder) announce(addrs []netip.Addr) error {
	for _, a := range addrs {
		if err := r.send(neighbour{target: a, senderMAC: r.mac, unsolicited: true}); err != nil {
			return err
		}
	}
	return nil
}

// beside is how many frames so far were not of a load: sent by the responder, and
// received by the port.
func (r *responder) beside() (sent, received uint64, err error) {
	var stats *unix.TpacketStats
	cerr := r.conn.Control(func(fd uintptr) {
		stats, err = unix.GetsockoptTpacketStats(int(fd), unix.SOL_PACKET, unix.PACKET_STATISTICS)
	})
	if err = errors.Join(cerr, err); err != nil {
		return 0, 0, fmt.Errorf("read the count of the socket on %s: %w", r.port.Name, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen += uint64(stats.Packets) // since it was read last, those without room too
	return r.sent.Load(), r.seen, nil
}
