// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"bytes"
	"context"
	"io/fs"

	"boxdyno/result"
)

// sockstat are lines of /proc/net/sockstat: "TCP: inuse 1 orphan 0 tw 0 alloc 1
// mem 0". Memory is counted in pages, and of the whole machine in each namespace;
// the names in node_exporter say so too.
var sockstatWants = []struct {
	proto, key string
	want
}{
	{"sockets", "used", want{name: "node_sockstat_sockets_used", unit: "1", help: "sockets"}},
	{"TCP", "inuse", want{name: "node_sockstat_TCP_inuse", unit: "1", help: "TCP sockets in use"}},
	{"TCP", "orphan", want{name: "node_sockstat_TCP_orphan", unit: "1", help: "TCP sockets that no program has open"}},
	{"TCP", "tw", want{name: "node_sockstat_TCP_tw", unit: "1", help: "TCP connections that wait for late segments"}},
	{"TCP", "alloc", want{name: "node_sockstat_TCP_alloc", unit: "1", help: "TCP sockets, of the whole machine"}},
	{"TCP", "mem", want{name: "node_sockstat_TCP_mem", unit: "1", help: "pages in TCP's queues, of the whole machine"}},
	{"UDP", "inuse", want{name: "node_sockstat_UDP_inuse", unit: "1", help: "UDP sockets in use"}},
	{"UDP", "mem", want{name: "node_sockstat_UDP_mem", unit: "1", help: "pages in UDP's queues, of the whole machine"}},
	{"RAW", "inuse", want{name: "node_sockstat_RAW_inuse", unit: "1", help: "raw sockets in use"}},
	{"FRAG", "inuse", want{name: "node_sockstat_FRAG_inuse", unit: "1", help: "IPv4 packets being put together from fragments"}},
	{"FRAG", "memory", want{name: "node_sockstat_FRAG_memory", unit: bytesUnit, help: "memory of fragments"}},
}

// newSockets reads, of each namespace, /proc/net/sockstat and the packet sockets
// in /proc/net/packet.
func newSockets(_ context.Context, m *Machine) (Collector, error) {
	c := &files{}
	err := m.within(func(s Space, root fs.FS) error {
		err := c.add(root, "proc/thread-self/net/sockstat", func(data []byte) ([]result.Series, func([]byte, []float64) error, error) {
			series, parse := newSockstat(data, s.labels())
			return series, parse, nil
		})
		if err != nil {
			return err
		}
		return c.add(root, "proc/thread-self/net/packet", func([]byte) ([]result.Series, func([]byte, []float64) error, error) {
			return []result.Series{
				{Name: "boxdyno_packet_sockets", Labels: s.labels(), Unit: "1", Help: "packet sockets that receive (AF_PACKET: sniffers)"},
				{Name: "boxdyno_packet_socket_queue_bytes", Labels: s.labels(), Unit: bytesUnit, Help: "memory of frames that wait in packet sockets; those in mapped rings do not count"},
			}, parsePacketSockets, nil
		})
	})
	return c.done(err)
}

func newSockstat(data []byte, labels []result.Pair) (all []result.Series, parse func([]byte, []float64) error) {
	var wants []int
	_ = eachSockstat(data, func(proto, key, _ []byte) error { // what is no number, the first Read says
		for i := range sockstatWants {
			if w := &sockstatWants[i]; w.proto == string(proto) && w.key == string(key) {
				all, wants = append(all, w.series(labels)), append(wants, i)
			}
		}
		return nil
	})
	return all, func(data []byte, dst []float64) error {
		return eachSockstat(data, func(proto, key, value []byte) error {
			for i, at := range wants {
				if w := &sockstatWants[at]; w.proto == string(proto) && w.key == string(key) {
					n, ok := decimal(value)
					if !ok {
						return malformed(value)
					}
					dst[i] = float64(n)
				}
			}
			return nil
		})
	}
}

func eachSockstat(data []byte, f func(proto, key, value []byte) error) error {
	text := scan(data)
	for l, ok := text.line(); ok; l, ok = text.line() {
		proto := bytes.TrimSuffix(l.field(), []byte{':'})
		for {
			key := l.field()
			if key == nil {
				break
			}
			if err := f(proto, key, l.field()); err != nil {
				return err
			}
		}
	}
	return nil
}

// parsePacketSockets counts the sockets that run and sums their memory: columns R
// and Rmem of
//
//	sk       RefCnt Type Proto  Iface R Rmem   User   Inode
func parsePacketSockets(data []byte, dst []float64) error {
	text := scan(data)
	text.line()
	sockets, queued := 0., 0.
	for l, ok := text.line(); ok; l, ok = text.line() {
		whole := l
		for range 5 {
			l.field()
		}
		running, ok := l.number()
		memory, ok2 := l.number()
		if !ok || !ok2 {
			return malformed(whole)
		}
		if running == 1 {
			sockets++
			queued += float64(memory)
		}
	}
	dst[0], dst[1] = sockets, queued
	return nil
}
