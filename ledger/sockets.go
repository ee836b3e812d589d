// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"boxdyno/host"
	"boxdyno/internal/ethtool"
	"boxdyno/internal/netns"
)

// patience is how long one question to the kernel may take.
const patience = time.Second

// sockets ask one namespace for its counters. A socket stays in the namespace in
// which it was opened, so they are opened there once and used from any thread.
type sockets struct {
	route   *netlink.Handle
	raw     map[int]*nl.SocketHandle // by netlink family, for what netlink has no call for
	ethtool *ethtool.Socket
}

func openSockets(path string) (*sockets, error) {
	s := &sockets{raw: map[int]*nl.SocketHandle{}}
	err := netns.Do(path, func() (err error) {
		if s.route, err = netlink.NewHandle(unix.NETLINK_ROUTE); err != nil {
			return fmt.Errorf("open netlink: %w", err)
		}
		if err := s.route.SetSocketTimeout(patience); err != nil {
			return fmt.Errorf("limit the wait for netlink: %w", err)
		}
		if s.ethtool, err = ethtool.Open(); err != nil {
			return err
		}
		for _, family := range []int{unix.NETLINK_ROUTE, unix.NETLINK_NETFILTER} {
			sock, err := nl.Subscribe(family)
			if errors.Is(err, unix.EPROTONOSUPPORT) {
				continue // a kernel without netfilter
			}
			if err != nil {
				return fmt.Errorf("open netlink: %w", err)
			}
			s.raw[family] = &nl.SocketHandle{Socket: sock}
			tv := unix.NsecToTimeval(patience.Nanoseconds())
			if err := errors.Join(sock.SetReceiveTimeout(&tv), sock.SetSendTimeout(&tv)); err != nil {
				return fmt.Errorf("limit the wait for netlink: %w", err)
			}
		}
		return nil
	})
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *sockets) close() {
	if s.route != nil {
		s.route.Close()
	}
	for _, h := range s.raw {
		h.Close()
	}
	if s.ethtool != nil {
		s.ethtool.Close()
	}
}

// ask sends one request and returns the payloads of the answer. A dump that a
// change of configuration interrupted is asked for again.
func (s *sockets) ask(family, request, flags int, answer uint16, data nl.NetlinkRequestData) (msgs [][]byte, err error) {
	err = again(func() error {
		req := nl.NewNetlinkRequest(request, flags)
		req.Sockets = s.raw
		req.AddData(data)
		msgs, err = req.Execute(family, answer)
		return err
	})
	return msgs, err
}

func again(dump func() error) (err error) {
	for range 5 {
		if err = dump(); !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	return err
}

// statsRequest is struct if_stats_msg.
type statsRequest struct{ index int }

func (statsRequest) Len() int { return 12 }
func (r statsRequest) Serialize() []byte {
	b := make([]byte, 12)
	binary.NativeEndian.PutUint32(b[4:], uint32(r.index))
	binary.NativeEndian.PutUint32(b[8:], 1<<(unix.IFLA_STATS_LINK_64-1))
	return b
}

// stats64 are the names of struct rtnl_link_stats64, in its order; a kernel may
// know fewer (rx_otherhost_dropped came with 5.19).
var stats64 = []string{
	"rx_packets", "tx_packets", "rx_bytes", "tx_bytes", "rx_errors", "tx_errors", "rx_dropped", "tx_dropped",
	"multicast", "collisions", "rx_length_errors", "rx_over_errors", "rx_crc_errors", "rx_frame_errors",
	"rx_fifo_errors", "rx_missed_errors", "tx_aborted_errors", "tx_carrier_errors", "tx_fifo_errors",
	"tx_heartbeat_errors", "tx_window_errors", "rx_compressed", "tx_compressed", "rx_nohandler", "rx_otherhost_dropped",
}

// linkStats adds the port's rtnl_link_stats64 to c.
func (s *sockets) linkStats(index int, c counters) error {
	msgs, err := s.ask(unix.NETLINK_ROUTE, unix.RTM_GETSTATS, 0, unix.RTM_NEWSTATS, statsRequest{index})
	if err != nil {
		return err
	}
	for _, m := range msgs {
		if len(m) < 12 {
			return errors.New("the kernel's answer is cut short")
		}
		attrs, err := nl.ParseRouteAttrAsMap(m[12:])
		if err != nil {
			return err
		}
		values := attrs[unix.IFLA_STATS_LINK_64].Value
		for i := 0; i < len(stats64) && 8*i+8 <= len(values); i++ {
			c[stats64[i]] = binary.NativeEndian.Uint64(values[8*i:])
		}
	}
	return nil
}

// driversOwn begins the names of counters that ethtool -S shows.
const driversOwn = "ethtool "

// driverStats adds the driver's own counters to c. A driver without any has none,
// which is an error where the dictionary needs them.
func (s *sockets) driverStats(port string, needed bool, c counters) error {
	stats, err := s.ethtool.Stats(port)
	if err != nil {
		if needed {
			return err
		}
		return nil
	}
	for name, n := range stats {
		c[driversOwn+name] = n
	}
	return nil
}

// sumPatterns adds to c the sums of the counters that patterns name
// ("ethtool rx_queue_*_drops": the star is a number).
func sumPatterns(all counters, patterns []string, c counters) {
	for _, p := range patterns {
		for name, n := range all {
			if matches(p, name) {
				c[p] += n
			}
		}
	}
}

// qdiscs gives, by the port's index, what the queueing disciplines at its root
// say (those below a root are in its numbers) and those of tc programs.
func (s *sockets) qdiscs() (map[int]counters, error) {
	var list []netlink.Qdisc
	err := again(func() (err error) {
		list, err = s.route.QdiscList(nil)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the queueing disciplines: %w", err)
	}
	all := map[int]counters{}
	for _, q := range list {
		a := q.Attrs()
		if a.Statistics == nil || a.Statistics.Queue == nil {
			continue
		}
		c := all[a.LinkIndex]
		if c == nil {
			c = counters{}
			all[a.LinkIndex] = c
		}
		switch a.Parent {
		case netlink.HANDLE_ROOT:
			c["qdisc drops"] += uint64(a.Statistics.Queue.Drops)
			c["qdisc queued"] += uint64(a.Statistics.Queue.Qlen)
		case netlink.HANDLE_INGRESS:
			c["clsact drops"] += uint64(a.Statistics.Queue.Drops)
		}
	}
	return all, nil
}

// waiting says whether frames on the port wait for somebody's address.
func (s *sockets) waiting(index int) (bool, error) {
	var list []netlink.Neigh
	err := again(func() (err error) {
		list, err = s.route.NeighList(index, unix.AF_UNSPEC)
		return err
	})
	if err != nil {
		return false, fmt.Errorf("read the neighbours: %w", err)
	}
	for _, n := range list {
		if n.State&netlink.NUD_INCOMPLETE != 0 {
			return true, nil
		}
	}
	return false, nil
}

// buffered says whether a veth hands frames to a receive ring of its own (a
// native XDP program or GRO gives it one). Without, they go through the backlog.
func (s *sockets) buffered(link netlink.Link) (bool, error) {
	if xdp := link.Attrs().Xdp; xdp != nil && xdp.Attached && xdp.AttachMode == nl.XDP_ATTACHED_DRV {
		return true, nil
	}
	features, err := s.ethtool.Features(link.Attrs().Name)
	if err != nil {
		return false, fmt.Errorf("read the features of %s: %w", link.Attrs().Name, err)
	}
	return features["rx-gro"].Active, nil
}

// A counter of nftables and where it stands: "inet boxdyno drop_unwanted".
type nftCounter struct {
	family, table, name string
	packets             uint64
}

var nftFamilies = map[uint8]string{
	unix.NFPROTO_INET: "inet", unix.NFPROTO_IPV4: "ip", unix.NFPROTO_IPV6: "ip6",
	unix.NFPROTO_ARP: "arp", unix.NFPROTO_NETDEV: "netdev", unix.NFPROTO_BRIDGE: "bridge",
}

// Numbers of linux/netfilter/nf_tables.h.
const (
	nftNewObject = 18
	nftGetObject = 19
	nftaTable    = 1
	nftaName     = 2
	nftaType     = 3
	nftaData     = 4
	nftIsCounter = 1
	nftaPackets  = 2
	nlaTypeMask  = 0x3fff
)

// nftCounters lists the named counters of all tables; none where the kernel has
// no nf_tables. It needs CAP_NET_ADMIN.
func (s *sockets) nftCounters() ([]nftCounter, error) {
	if s.raw[unix.NETLINK_NETFILTER] == nil {
		return nil, nil
	}
	msgs, err := s.ask(unix.NETLINK_NETFILTER, unix.NFNL_SUBSYS_NFTABLES<<8|nftGetObject, unix.NLM_F_DUMP,
		unix.NFNL_SUBSYS_NFTABLES<<8|nftNewObject, &nl.Nfgenmsg{NfgenFamily: unix.NFPROTO_UNSPEC})
	switch {
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOENT):
		return nil, nil // no nf_tables, hence no rules of it
	case errors.Is(err, unix.EPERM):
		return nil, host.Privilege("read the counters of nftables")
	case err != nil:
		return nil, fmt.Errorf("read the counters of nftables: %w", err)
	}
	var all []nftCounter
	for _, m := range msgs {
		c, ok, err := parseNFT(m)
		if err != nil {
			return nil, fmt.Errorf("read the counters of nftables: %w", err)
		}
		if ok {
			all = append(all, c)
		}
	}
	return all, nil
}

// parseNFT parses one object; ok says whether it is a counter.
func parseNFT(m []byte) (c nftCounter, ok bool, err error) {
	if len(m) < nl.SizeofNfgenmsg {
		return c, false, errors.New("the kernel's answer is cut short")
	}
	c.family = nftFamilies[m[0]]
	attrs, err := nl.ParseRouteAttr(m[nl.SizeofNfgenmsg:])
	if err != nil {
		return c, false, err
	}
	for _, a := range attrs {
		switch a.Attr.Type & nlaTypeMask {
		case nftaTable:
			c.table = unix.ByteSliceToString(a.Value)
		case nftaName:
			c.name = unix.ByteSliceToString(a.Value)
		case nftaType:
			ok = len(a.Value) == 4 && binary.BigEndian.Uint32(a.Value) == nftIsCounter
		case nftaData:
			inner, err := nl.ParseRouteAttr(a.Value)
			if err != nil {
				return c, false, err
			}
			for _, d := range inner {
				if d.Attr.Type&nlaTypeMask == nftaPackets && len(d.Value) == 8 {
					c.packets = binary.BigEndian.Uint64(d.Value)
				}
			}
		}
	}
	return c, ok, nil
}
