// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"boxdyno/internal/ethtool"
	"boxdyno/internal/netns"
	"boxdyno/internal/testutil"
	"boxdyno/result"
)

// A bench is a tester's and a DUT's namespace:
//
//	tester p0 ==veth== lan DUT wan ==veth== p1 tester
type bench struct {
	t           testing.TB
	tester, dut *netns.Namespace
}

func newBench(t testing.TB) *bench {
	t.Helper()
	testutil.Privileged(t)
	b := &bench{t: t}
	for _, at := range []**netns.Namespace{&b.tester, &b.dut} {
		ns, err := netns.New()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { ns.Close() })
		*at = ns
		b.in(ns, func() error { // no frames but ours
			err := os.WriteFile("/proc/sys/net/ipv6/conf/default/disable_ipv6", []byte("1"), 0)
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			return err
		})
	}
	b.wire("p0", "lan")
	b.wire("p1", "wan")
	return b
}

func (b *bench) in(ns *netns.Namespace, f func() error) {
	b.t.Helper()
	if err := netns.Do(ns.Path(), f); err != nil {
		b.t.Fatal(err)
	}
}

// wire makes a veth pair from the tester's to the DUT's namespace.
func (b *bench) wire(here, there string) { b.t.Helper(); b.wireAt(0, here, there) }

// wireAt gives the tester's port an index of choice.
func (b *bench) wireAt(index int, here, there string) {
	b.t.Helper()
	b.in(b.tester, func() error {
		a := netlink.NewLinkAttrs()
		a.Name, a.Index, a.NumRxQueues, a.NumTxQueues = here, index, 2, 2
		return netlink.LinkAdd(&netlink.Veth{LinkAttrs: a, PeerName: there, PeerNamespace: netlink.NsFd(b.dut.Fd())})
	})
	for ns, name := range map[*netns.Namespace]string{b.tester: here, b.dut: there} {
		b.in(ns, func() error {
			l, err := netlink.LinkByName(name)
			if err != nil {
				return err
			}
			return netlink.LinkSetUp(l)
		})
	}
}

func (b *bench) unwire(name string) {
	b.t.Helper()
	b.in(b.tester, func() error {
		l, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		return netlink.LinkDel(l)
	})
}

// send sends n frames of 60 octets on a port of the tester.
func (b *bench) send(port string, n int) {
	b.t.Helper()
	b.in(b.tester, func() error {
		l, err := netlink.LinkByName(port)
		if err != nil {
			return err
		}
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		frame := make([]byte, 60)
		copy(frame, "\xff\xff\xff\xff\xff\xff\x02\x00\x00\x00\x00\x01\x88\xb5") // an experimental EtherType
		for range n {
			if err := unix.Sendto(fd, frame, 0, &unix.SockaddrLinklayer{Ifindex: l.Attrs().Index, Halen: 6}); err != nil && !errors.Is(err, unix.ENOBUFS) {
				return err
			}
		}
		return nil
	})
}

func (b *bench) machine() *Machine {
	return &Machine{Spaces: []Space{{}, {Name: "tester", Path: b.tester.Path()}, {Name: "dut", Path: b.dut.Path()}}}
}

// collect is a collector that the test closes.
func (b *bench) collect(create func(context.Context, *Machine) (Collector, error)) Collector {
	b.t.Helper()
	c := collect(b.t, b.machine(), create)
	b.t.Cleanup(func() { closed(b.t, c) })
	return c
}

const (
	sent     = `node_network_transmit_packets_total{netns="tester",device="p0"}`
	received = `node_network_receive_packets_total{netns="dut",device="lan"}`
)

// A port that goes away is absent; one that comes back under its name goes on.
func TestInterfaces(t *testing.T) {
	b := newBench(t)
	c := b.collect(newInterfaces)
	some(t, "begin", values(t, c), map[string]float64{sent: 0, received: 0})
	b.send("p0", 500)
	b.send("p1", 7)
	some(t, "sent", values(t, c), map[string]float64{sent: 500, received: 500,
		`node_network_receive_bytes_total{netns="dut",device="lan"}`: 500 * 60, `node_network_receive_packets_total{netns="dut",device="wan"}`: 7})
	if got, want := placed(c)[`node_network_transmit_dropped_total{netns="tester",device="p0"}`], result.DUTNIC; got != want {
		t.Errorf("tx_dropped of p0 is at %q, want %q", got, want)
	}
	for k, p := range placed(c) {
		if !strings.Contains(k, "netns") {
			t.Errorf("%s is at %q: the machine around a sandbox is no DUT", k, p)
		}
	}

	b.unwire("p0")
	for i := range 2 {
		got := values(t, c)
		some(t, "gone", got, map[string]float64{sent: nan, received: nan, `node_network_receive_packets_total{netns="dut",device="wan"}`: 7})
		if math.IsNaN(got[`node_network_receive_packets_total{device="lo"}`]) {
			t.Errorf("read %d: the machine's own loopback is absent", i)
		}
	}
	b.wire("spare", "other") // takes what indices became free
	some(t, "another", values(t, c), map[string]float64{sent: nan, received: nan})
	b.wire("p0", "lan")
	b.send("p0", 30)
	some(t, "back", values(t, c), map[string]float64{sent: 530, received: 530})
	b.send("spare", 11)
	b.send("p0", 1)
	some(t, "back", values(t, c), map[string]float64{sent: 531, received: 531})

	b.unwire("p0") // and back between two reads
	b.wire("p0", "lan")
	b.send("p0", 600)
	some(t, "changed unseen", values(t, c), map[string]float64{sent: 1131, received: 1131})
}

// An interface that takes a lost one's index does not lend its numbers to it.
func TestInterfaceIndexTaken(t *testing.T) {
	b := newBench(t)
	c := b.collect(newInterfaces)
	b.send("p0", 5)
	values(t, c)
	var index int
	b.in(b.tester, func() error {
		l, err := netlink.LinkByName("p0")
		if err == nil {
			index = l.Attrs().Index
		}
		return err
	})
	b.unwire("p0")
	b.wireAt(index, "x0", "x1")
	b.send("x0", 30)
	some(t, "another", values(t, c), map[string]float64{sent: nan})
	b.unwire("x0")
	b.wireAt(index+100, "p0", "lan")
	b.send("p0", 7)
	some(t, "back", values(t, c), map[string]float64{sent: 12})
}

func TestQueues(t *testing.T) {
	b := newBench(t)
	c := b.collect(newQueues)
	drops, waiting := `node_qdisc_drops_total{netns="tester",device="p0"}`, `node_qdisc_current_queue_length{netns="tester",device="p0"}`
	some(t, "noqueue", values(t, c), map[string]float64{drops: nan, waiting: nan})
	shape := func(add func(netlink.Qdisc) error) {
		b.in(b.tester, func() error {
			l, err := netlink.LinkByName("p0")
			if err != nil {
				return err
			}
			return add(&netlink.Tbf{QdiscAttrs: netlink.QdiscAttrs{LinkIndex: l.Attrs().Index, Handle: netlink.MakeHandle(1, 0), Parent: netlink.HANDLE_ROOT},
				Rate: 1000, Limit: 1200, Buffer: 20000})
		})
	}
	ports := b.collect(newInterfaces)
	lacking := false
	shape(func(q netlink.Qdisc) error {
		err := netlink.QdiscAdd(q)
		if lacking = errors.Is(err, unix.ENOENT); lacking {
			return nil
		}
		return err
	})
	if lacking {
		t.Skip("the kernel has no qdisc tbf: load the module sch_tbf")
	}
	some(t, "shaped", values(t, c), map[string]float64{drops: 0, waiting: 0})
	b.send("p0", 200)
	got := values(t, c)
	if n := values(t, ports)[sent] + got[drops] + got[waiting]; got[drops] < 100 || n != 200 {
		t.Errorf("of 200 frames %v were sent, %v dropped and %v wait", values(t, ports)[sent], got[drops], got[waiting])
	}
	if p := placed(c)[`node_qdisc_drops_total{netns="dut",device="wan"}`]; p != result.Qdisc {
		t.Errorf("drops of the DUT's queue are at %q", p)
	}
	if p := placed(c)[drops]; p != "" {
		t.Errorf("drops of the tester's queue are at %q: it refuses", p)
	}
	shape(netlink.QdiscDel)
	some(t, "without", values(t, c), map[string]float64{drops: nan})
	shape(netlink.QdiscAdd)
	b.send("p0", 400) // so that a new queue says more than the old one did
	again := values(t, c)[drops]
	if !(again >= got[drops]+300 && again <= got[drops]+400) {
		t.Errorf("after %v and most of 400 frames again %v were dropped", got[drops], again)
	}
	b.unwire("p0")
	some(t, "gone", values(t, c), map[string]float64{drops: nan})
	b.wire("p0", "lan")
	shape(netlink.QdiscAdd)
	b.send("p0", 600)
	if n := values(t, c)[drops]; !(n >= again+500 && n <= again+600) {
		t.Errorf("after %v and most of 600 frames again %v were dropped", again, n)
	}
}

// Of a port's disciplines that at its root has the numbers of those below it; all
// have 32 bit.
func TestQueueMessages(t *testing.T) {
	q := &queuesOf{ports: []*queuePort{{index: 7, counts: make([]counter, len(queueCounters)+1)}}, dst: make([]float64, len(queueCounters)+1)}
	tell := func(index, handle, parent, drops uint32) []byte {
		body, stats := make([]byte, tcMessage), make([]byte, queueStats)
		binary.NativeEndian.PutUint32(body[4:], index)
		binary.NativeEndian.PutUint32(body[8:], handle)
		binary.NativeEndian.PutUint32(body[12:], parent)
		binary.NativeEndian.PutUint32(stats[8:], drops)
		return message(unix.RTM_NEWQDISC, 1, slices.Concat(body, attr(tcaKind, []byte("mq\x00")), attr(tcaStats2, attr(tcaStatsQueue, stats))))
	}
	for _, c := range []struct {
		drops         uint32
		root, ingress float64
	}{{math.MaxUint32 - 1, math.MaxUint32 - 1, 5}, {3, math.MaxUint32 + 4, 5}} {
		fill(q.dst, nan)
		b := slices.Concat(tell(7, 1, tcRoot, c.drops), tell(7, 2, 0x10001, 77), tell(8, 1, tcRoot, 78), tell(7, 0xffff0000, tcIngress, 5), message(unix.NLMSG_DONE, 1, make([]byte, 4)))
		if done, again, err := messages(b, 1, q.message); !done || again || err != nil {
			t.Fatalf("done %v, again %v, %v", done, again, err)
		}
		if q.dst[0] != c.root || q.dst[len(q.dst)-1] != c.ingress {
			t.Errorf("drops are %.0f, of tc %v, want %.0f and %v", q.dst[0], q.dst[len(q.dst)-1], c.root, c.ingress)
		}
	}
	stale := message(unix.RTM_NEWQDISC, 1, make([]byte, 4)) // too short, but an answer to an older question
	if done, _, err := messages(stale, 2, q.message); done || err != nil {
		t.Errorf("an older answer: done %v, %v", done, err)
	}
	denied := message(unix.NLMSG_ERROR, 2, binary.NativeEndian.AppendUint32(nil, uint32(0xffffffff)))
	if _, _, err := messages(denied, 2, q.message); !errors.Is(err, unix.EPERM) {
		t.Errorf("EPERM is %v", err)
	}
}

func TestSocketsAndStack(t *testing.T) {
	b := newBench(t)
	sockets, protocols := b.collect(newSockets), b.collect(newProtocols)
	open := `boxdyno_packet_sockets{netns="dut"}`
	some(t, "none", values(t, sockets), map[string]float64{open: 0, `boxdyno_packet_sockets{netns="tester"}`: 0, `node_sockstat_UDP_inuse{netns="dut"}`: 0})
	var fds []int
	b.in(b.dut, func() error {
		for _, kind := range []struct{ domain, kind, proto int }{{unix.AF_PACKET, unix.SOCK_RAW, 0x0300}, {unix.AF_INET, unix.SOCK_DGRAM, 0}} {
			fd, err := unix.Socket(kind.domain, kind.kind|unix.SOCK_CLOEXEC, kind.proto)
			if err != nil {
				return err
			}
			fds = append(fds, fd)
		}
		return unix.Bind(fds[1], &unix.SockaddrInet4{Port: 5000})
	})
	defer func() {
		for _, fd := range fds {
			_ = unix.Close(fd)
		}
	}()
	b.send("p0", 3)
	got := values(t, sockets)
	some(t, "open", got, map[string]float64{open: 1, `boxdyno_packet_sockets{netns="tester"}`: 0, `node_sockstat_UDP_inuse{netns="dut"}`: 1})
	if got[`boxdyno_packet_socket_queue_bytes{netns="dut"}`] <= 0 {
		t.Errorf("three frames wait in no memory")
	}
	some(t, "stack", values(t, protocols), map[string]float64{`node_netstat_Ip_InReceives{netns="dut"}`: 0})
}

func TestConntrackOfNamespaces(t *testing.T) {
	if _, err := os.Stat("/proc/net/stat/nf_conntrack"); err != nil {
		t.Skip("the kernel has no connection tracking: load the module nf_conntrack")
	}
	b := newBench(t)
	c := b.collect(newConntrack)
	got := values(t, c)
	some(t, "conntrack", got, map[string]float64{`node_nf_conntrack_entries{netns="dut"}`: 0, `node_nf_conntrack_stat_drop{netns="tester"}`: 0})
	if n, ok := got[`node_nf_conntrack_entries_limit{netns="dut"}`]; !ok || n <= 0 {
		t.Errorf("the DUT's limit is %v (%v)", n, ok)
	}
	if p := placed(c)[`node_nf_conntrack_stat_drop{netns="dut"}`]; p != result.Conntrack {
		t.Errorf("its drops are at %q", p)
	}
}

func TestDriverStats(t *testing.T) {
	b := newBench(t)
	c := b.collect(newDriverStats)
	lost := `node_ethtool_received_queue_0_drops{netns="dut",device="lan"}`
	some(t, "veth", values(t, c), map[string]float64{lost: 0, `node_ethtool_received_queue_0_xdp_drops{netns="dut",device="wan"}`: 0})
	if got := placed(c)[lost]; got != result.DUTNIC {
		t.Errorf("%s is at %q", lost, got)
	}
	first, second := `node_ethtool_received_queue_0_drops{netns="tester",device="p1"}`, `node_ethtool_received_queue_1_drops{netns="tester",device="p1"}`
	some(t, "two queues", values(t, c), map[string]float64{first: 0, second: 0})
	b.in(b.tester, func() error {
		e, err := ethtool.Open()
		if err != nil {
			return err
		}
		defer e.Close()
		have, err := e.Channels("p1")
		if err != nil {
			return err
		}
		have.RxCount, have.TxCount = 1, 1
		return e.SetChannels("p1", have)
	})
	some(t, "one queue", values(t, c), map[string]float64{first: 0, second: nan})
	b.unwire("p0")
	some(t, "gone", values(t, c), map[string]float64{lost: nan, `node_ethtool_received_queue_0_drops{netns="dut",device="wan"}`: 0})
	b.wire("p0", "lan")
	some(t, "back", values(t, c), map[string]float64{lost: 0})
}

// The driver's list grows in its middle when it gets another queue.
func TestDriverStatsArrange(t *testing.T) {
	d := &driverPort{wants: []string{"rx_queue_0_drops", "tx_errors"}, counts: make([]counter, 2)}
	d.arrange([]string{"rx_queue_0_drops", "tx_errors"})
	dst := []float64{nan, nan}
	d.take([]uint64{3, 4}, dst)
	d.arrange([]string{"rx_queue_0_drops", "rx_queue_1_drops", "tx_errors"})
	d.take([]uint64{5, 100, 6}, dst)
	if !slices.Equal(dst, []float64{5, 6}) {
		t.Errorf("with a second queue: %v", dst)
	}
	dst = []float64{nan, nan}
	d.arrange([]string{"tx_errors"})
	d.take([]uint64{7}, dst)
	if !math.IsNaN(dst[0]) || dst[1] != 7 {
		t.Errorf("without a queue: %v", dst)
	}
}

func TestChosenStats(t *testing.T) {
	names := []string{"rx_packets", "rx_bytes", "rx_dropped", "peer_ifindex", "rx_queue_0_packets", "rx_queue_0_drops", "RX Dropped Frames", "rx-dropped", "link_speed"}
	none := func(string) result.Place { return "" }
	var got []string
	for _, i := range chosenStats(names, none) {
		got = append(got, statName(names[i]))
	}
	want := []string{"node_ethtool_received_dropped", "node_ethtool_received_queue_0_packets", "node_ethtool_received_queue_0_drops", "node_ethtool_received_dropped_frames"}
	if !slices.Equal(got, want) {
		t.Errorf("chosen are %v, want %v", got, want)
	}
	for i := range 200 {
		names = append(names, "rx_queue_"+string(rune('a'+i%26))+strings.Repeat("9", 1+i/26)+"_drops", "rx"+strings.Repeat("1", i+1)+"_errors")
	}
	if n := len(chosenStats(names, none)); n != 2 {
		t.Errorf("of a port with hundreds of queues %d are chosen, want those 2 that are of no queue", n)
	}
}

// Collectors leave nothing behind, with namespaces or, for anybody, without.
func TestKernelCollectorsClose(t *testing.T) {
	t.Run("own", func(t *testing.T) { openAndClose(t, &Machine{}) })
	t.Run("sandbox", func(t *testing.T) { openAndClose(t, newBench(t).machine()) })
}

func openAndClose(t *testing.T, m *Machine) {
	testutil.NoLeaks(t)
	opened := 0
	for _, name := range append(slices.Clone(kernelCollectors), "qdisc") {
		c, err := spec(t, name).New(t.Context(), m)
		if errors.Is(err, ErrAbsent) {
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		values(t, c)
		closed(t, c)
		opened++
	}
	if opened < 5 {
		t.Errorf("%d collectors found something to read", opened)
	}
}

// BenchmarkKernel reads each collector with three namespaces; us/tick is its share
// of a tick of 10 Hz.
func BenchmarkKernel(b *testing.B) {
	m := newBench(b).machine()
	for _, name := range append(slices.Clone(kernelCollectors), "qdisc") {
		b.Run(name, func(b *testing.B) {
			s := spec(b, name)
			c, err := s.New(b.Context(), m)
			if errors.Is(err, ErrAbsent) {
				b.Skip(err)
			}
			if err != nil {
				b.Fatal(err)
			}
			if closer, ok := c.(io.Closer); ok {
				defer closer.Close()
			}
			dst := make([]float64, len(c.Series()))
			b.ReportAllocs()
			begin := time.Now()
			for b.Loop() {
				if err := c.Read(dst); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(time.Since(begin).Seconds()*1e6/float64(b.N)/float64(max(s.Every, 1)), "us/tick")
			b.ReportMetric(float64(len(dst)), "series")
		})
	}
}
