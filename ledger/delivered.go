// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"boxdyno/internal/netns"
)

// InDelivers counts packets from every port. Where a machine's own connections share the
// namespace, as ssh does on a box, a table of nftables counts those from the paths' ports
// alone, behind all other chains of input. The table belongs to a socket, and goes with it.

const (
	deliveredTable   = "boxdyno_ledger_" // and the socket's number
	delivered        = "delivered"
	deliveredByPorts = "nft.delivered" // the dictionary's name
)

// Numbers of linux/netfilter/nf_tables.h that x/sys lacks.
const (
	nftTableOwner   = 2
	nftCmpEqual     = 0
	nftHookLocalIn  = 1
	nftLastPriority = 1<<31 - 1
)

// A deliveries is such a table while its socket is open.
type deliveries struct {
	socket *nl.NetlinkSocket
	table  string
}

// countDeliveries counts what is delivered to the machine from these ports, and from
// what stands on them (bridges, bonds, VLANs). It needs CAP_NET_ADMIN, nf_tables and
// Linux 5.12.
func countDeliveries(path string, route *netlink.Handle, ports []int) (d *deliveries, err error) {
	links, err := route.LinkList()
	if err != nil {
		return nil, fmt.Errorf("list the ports: %w", err)
	}
	d = &deliveries{}
	err = netns.Do(path, func() (err error) {
		if d.socket, err = nl.Subscribe(unix.NETLINK_NETFILTER); err != nil {
			return err
		}
		tv := unix.NsecToTimeval(patience.Nanoseconds())
		if err := errors.Join(d.socket.SetReceiveTimeout(&tv), d.socket.SetSendTimeout(&tv)); err != nil {
			return err
		}
		id, err := d.socket.GetPid()
		if err != nil {
			return err
		}
		d.table = fmt.Sprint(deliveredTable, id)
		return d.make(standingOn(links, ports))
	})
	if err != nil {
		d.close()
		return nil, fmt.Errorf("add a table to nftables: %w", err)
	}
	return d, nil
}

func (d *deliveries) close() {
	if d.socket != nil {
		d.socket.Close()
	}
}

// standingOn are ports, and all that receives their frames in their place.
func standingOn(links []netlink.Link, ports []int) (all []int) {
	in := map[int]bool{}
	for _, p := range ports {
		in[p] = true
	}
	for grew := true; grew; {
		grew = false
		for _, l := range links {
			a := l.Attrs()
			if m := a.MasterIndex; in[a.Index] && m != 0 && !in[m] {
				in[m], grew = true, true
			}
			if _, ok := l.(*netlink.Vlan); ok && in[a.ParentIndex] && !in[a.Index] {
				in[a.Index], grew = true, true
			}
		}
	}
	for _, l := range links {
		if i := l.Attrs().Index; in[i] {
			all = append(all, i)
		}
	}
	return all
}

// make makes the table in one transaction: a counter, and a chain with a rule a port.
func (d *deliveries) make(ports []int) error {
	text := func(a *nl.RtAttr, kind int, s string) { a.AddRtAttr(kind, nl.ZeroTerminated(s)) }
	number := func(a *nl.RtAttr, kind int, n uint32) { a.AddRtAttr(kind, binary.BigEndian.AppendUint32(nil, n)) }
	batch := newBatch()
	t := nl.NewRtAttr(0, nil)
	text(t, unix.NFTA_TABLE_NAME, d.table)
	number(t, unix.NFTA_TABLE_FLAGS, nftTableOwner)
	batch.add(unix.NFT_MSG_NEWTABLE, unix.NLM_F_CREATE|unix.NLM_F_EXCL, t)

	o := nl.NewRtAttr(0, nil)
	text(o, nftaTable, d.table)
	text(o, nftaName, delivered)
	number(o, nftaType, nftIsCounter)
	o.AddRtAttr(unix.NLA_F_NESTED|nftaData, nil)
	batch.add(unix.NFT_MSG_NEWOBJ, unix.NLM_F_CREATE, o)

	c := nl.NewRtAttr(0, nil)
	text(c, unix.NFTA_CHAIN_TABLE, d.table)
	text(c, unix.NFTA_CHAIN_NAME, "input")
	hook := c.AddRtAttr(unix.NLA_F_NESTED|unix.NFTA_CHAIN_HOOK, nil)
	number(hook, unix.NFTA_HOOK_HOOKNUM, nftHookLocalIn)
	number(hook, unix.NFTA_HOOK_PRIORITY, nftLastPriority)
	text(c, unix.NFTA_CHAIN_TYPE, "filter")
	batch.add(unix.NFT_MSG_NEWCHAIN, unix.NLM_F_CREATE, c)

	for _, port := range ports {
		r := nl.NewRtAttr(0, nil)
		text(r, unix.NFTA_RULE_TABLE, d.table)
		text(r, unix.NFTA_RULE_CHAIN, "input")
		list := r.AddRtAttr(unix.NLA_F_NESTED|unix.NFTA_RULE_EXPRESSIONS, nil)
		express := func(name string) *nl.RtAttr {
			e := list.AddRtAttr(unix.NLA_F_NESTED|unix.NFTA_LIST_ELEM, nil)
			text(e, unix.NFTA_EXPR_NAME, name)
			return e.AddRtAttr(unix.NLA_F_NESTED|unix.NFTA_EXPR_DATA, nil)
		}
		meta := express("meta")
		number(meta, unix.NFTA_META_KEY, unix.NFT_META_IIF)
		number(meta, unix.NFTA_META_DREG, unix.NFT_REG_1)
		cmp := express("cmp")
		number(cmp, unix.NFTA_CMP_SREG, unix.NFT_REG_1)
		number(cmp, unix.NFTA_CMP_OP, nftCmpEqual)
		value := cmp.AddRtAttr(unix.NLA_F_NESTED|unix.NFTA_CMP_DATA, nil)
		value.AddRtAttr(unix.NFTA_DATA_VALUE, binary.NativeEndian.AppendUint32(nil, uint32(port)))
		ref := express("objref")
		number(ref, unix.NFTA_OBJREF_IMM_TYPE, nftIsCounter)
		text(ref, unix.NFTA_OBJREF_IMM_NAME, delivered)
		batch.add(unix.NFT_MSG_NEWRULE, unix.NLM_F_CREATE|unix.NLM_F_APPEND, r)
	}
	return batch.send(d.socket)
}

// A batch is messages of nf_tables that take effect together or not at all.
type batch struct {
	seq   uint32
	bytes []byte
}

func newBatch() *batch {
	b := &batch{}
	b.message(unix.NFNL_MSG_BATCH_BEGIN, 0, unix.AF_UNSPEC, unix.NFNL_SUBSYS_NFTABLES, nil)
	return b
}

func (b *batch) message(kind, flags int, family uint8, resource uint16, body []byte) {
	b.seq++
	n := binary.NativeEndian.AppendUint32(nil, uint32(unix.NLMSG_HDRLEN+nl.SizeofNfgenmsg+len(body)))
	n = binary.NativeEndian.AppendUint16(n, uint16(kind))
	n = binary.NativeEndian.AppendUint16(n, uint16(flags|unix.NLM_F_REQUEST))
	n = binary.NativeEndian.AppendUint32(n, b.seq)
	n = binary.NativeEndian.AppendUint32(n, 0)
	n = append(n, family, unix.NFNETLINK_V0)
	n = binary.BigEndian.AppendUint16(n, resource)
	b.bytes = append(append(b.bytes, n...), body...)
}

// add adds a message with the attributes below a.
func (b *batch) add(kind, flags int, a *nl.RtAttr) {
	b.message(unix.NFNL_SUBSYS_NFTABLES<<8|kind, flags|unix.NLM_F_ACK, unix.NFPROTO_INET, 0, a.Serialize()[unix.SizeofRtAttr:])
}

// send sends the batch and takes an answer for each message.
func (b *batch) send(s *nl.NetlinkSocket) error {
	asked := b.seq - 1
	b.message(unix.NFNL_MSG_BATCH_END, 0, unix.AF_UNSPEC, unix.NFNL_SUBSYS_NFTABLES, nil)
	if err := unix.Sendto(s.GetFd(), b.bytes, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	for answers := uint32(0); answers < asked; {
		msgs, _, err := s.Receive()
		if err != nil {
			return err
		}
		for _, m := range msgs {
			if m.Header.Type != unix.NLMSG_ERROR || len(m.Data) < 4 {
				continue
			}
			if code := int32(binary.NativeEndian.Uint32(m.Data)); code != 0 {
				return unix.Errno(-code)
			}
			answers++
		}
	}
	return nil
}

// ours says whether a counter of nftables is a book's, and not the machine's.
func (n nftCounter) ours() bool { return strings.HasPrefix(n.table, deliveredTable) }
