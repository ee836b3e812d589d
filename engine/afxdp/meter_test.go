// SPDX-License-Identifier: Apache-2.0

package afxdp

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"boxdyno/engine"
	"boxdyno/engine/internal/bucket"
	"boxdyno/engine/internal/enginetest"
	"boxdyno/engine/internal/ports"
	"boxdyno/engine/internal/tally"
	"boxdyno/frame"
	"boxdyno/host"
	"boxdyno/internal/ethtool"
	"boxdyno/internal/netns"
	"boxdyno/internal/testutil"
	"boxdyno/internal/xsk"
	"boxdyno/result"
	"boxdyno/unit"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

func TestAFXDPMeterTellsFramesApart(t *testing.T) {
	a, b := enginetest.Quiet(t)
	_, ms := enginetest.Open(t, New(), []host.Port{a}, b)
	m := ms[0]
	enginetest.Arm(t, m, false, 7)
	other := enginetest.Frame(t, enginetest.Spec(), 8, 0)
	enginetest.Inject(t, a, enginetest.Frame(t, enginetest.Spec(), 7, 0), other)
	ours := enginetest.Frame(t, enginetest.Spec(), 7, 3)
	experimental := append(append(make([]byte, 12), 0x88, 0xb5), make([]byte, 100)...)
	arp := append(append(make([]byte, 12), 0x08, 0x06), make([]byte, 46)...)
	icmp6 := func(kind byte) []byte {
		f := append(append(make([]byte, 12), 0x86, 0xdd), make([]byte, 64)...)
		f[14], f[20], f[54] = 0x60, 58, kind
		return f
	}
	tagged := bytes.Join([][]byte{ours[:12], {0x88, 0xa8, 0, 8, 0x81, 0, 0, 7}, ours[12:]}, nil)
	unsigned := bytes.Clone(ours)
	unsigned[45]++ // the magic's last octet
	foreign := [][]byte{other, experimental, unsigned, arp, icmp6(132), icmp6(133), icmp6(137), icmp6(138)}
	neighbours := [][]byte{arp, icmp6(133), icmp6(137)}
	for _, c := range []struct {
		name       string
		hash, sink bool
		stack      [][]byte
	}{
		{"alone", false, false, foreign},
		{"hash", true, false, neighbours},
		{"sink", false, true, nil},
		{"hash and sink", true, true, nil},
		{"alone again", false, false, foreign},
	} {
		m.(engine.Hasher).Hash(c.hash)
		if err := m.(engine.Sinker).Sink(c.sink); err != nil {
			t.Fatal(err)
		}
		enginetest.Arm(t, m, false, 7, 9) // forgets what came so far
		stack := hearAt(t, b)
		begin := unit.Now()
		enginetest.FromCPU0(t, a, slices.Concat([][]byte{ours, tagged, ours, enginetest.Frame(t, enginetest.Spec(), 7, 1), append(bytes.Clone(ours), 1, 2)}, foreign)...)
		r := enginetest.Read(t, m)
		if s := r.Streams[0]; s.Frames != 4 || s.Duplicate != 2 || s.Reordered != 1 || s.Broken != 1 {
			t.Errorf("%s: %+v", c.name, s)
		}
		octets := uint64(0)
		for _, f := range foreign {
			octets += uint64(len(f) + unit.FCS)
		}
		if r.Foreign != uint64(len(foreign)) || r.ForeignOctets != octets || r.Drops != 0 || r.Streams[1].Stream != 9 || r.Streams[1].Frames != 0 {
			t.Errorf("%s: want %d foreign octets, %+v", c.name, octets, r)
		}
		if r.First < begin || r.First > r.Streams[0].First || r.Last < r.Streams[0].Last || r.Last > unit.Now() || (r.Hash != "") != c.hash {
			t.Errorf("%s: began at %d: %+v", c.name, begin, r)
		}
		if again := enginetest.Read(t, m); again.Streams[0].Frames != 4 || again.Foreign != r.Foreign {
			t.Errorf("%s: read twice: %+v", c.name, again)
		}
		for _, want := range c.stack {
			buf := make([]byte, 2048)
			n, err := unix.Read(stack, buf)
			if err != nil || !bytes.Equal(buf[:max(n, 0)], want) {
				t.Errorf("%s: the stack has %x, %v, want %x", c.name, buf[:max(n, 0)], err, want)
			}
		}
		if n, _, err := unix.Recvfrom(stack, make([]byte, 2048), unix.MSG_DONTWAIT); err != unix.EAGAIN {
			t.Errorf("%s: the stack has more: %d octets, %v", c.name, n, err)
		}
	}
}

// What the program takes for an armed stream's is what frame.Parse finds signed:
// nothing of a stream passes by the meter, and nothing else is kept from the stack.
func TestRedirectReadsAsParse(t *testing.T) {
	testutil.Privileged(t)
	r, err := newRedirect(1)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	prog := r.coll.Programs[redirectProgRedirect]
	var seeds [][]byte
	for _, k := range enginetest.SourceKinds(t) {
		if k.Spec != nil || k.Long != 0 {
			continue
		}
		twin := enginetest.NewTwinFeed(t, k, 7)
		for range 3 {
			buf, _ := twin.Next(t)
			seeds = append(seeds, buf)
		}
	}
	ours := 0
	rapid.Check(t, func(t *rapid.T) {
		f := bytes.Clone(rapid.SampledFrom(seeds).Draw(t, "frame"))
		for range rapid.IntRange(0, 2).Draw(t, "changes") {
			f[rapid.IntRange(12, min(len(f)-1, 80)).Draw(t, "octet")] = rapid.Byte().Draw(t, "value")
		}
		f = f[:rapid.SampledFrom([]int{len(f), len(f), rapid.IntRange(14, len(f)).Draw(t, "length")}).Draw(t, "cut")]
		s, class := frame.Parse(f)
		var streams []uint16
		if rapid.Bool().Draw(t, "armed") {
			streams = append(streams, s.Stream)
		}
		if err := r.arm(streams, false); err != nil {
			t.Fatal(err)
		}
		if _, err := prog.Run(&ebpf.RunOptions{Data: f, DataOut: make([]byte, len(f)+256)}); err != nil {
			t.Fatal(err)
		}
		var rep engine.MeterReport
		if err := r.count(&rep); err != nil {
			t.Fatal(err)
		}
		want := uint64(1)
		if class != frame.Foreign && streams != nil {
			want = 0
			ours++
		}
		if rep.Foreign != want || rep.ForeignOctets != want*uint64(len(f)+unit.FCS) {
			t.Fatalf("%d frames passed by, want %d; %d of %v: %x", rep.Foreign, want, class, streams, f)
		}
	})
	if ours == 0 {
		t.Error("no frame was a stream's")
	}
}

// A ring that nobody empties loses frames, and says how many.
func TestAFXDPMeterDrops(t *testing.T) {
	a, b := enginetest.Quiet(t)
	tx, ms := enginetest.Open(t, New(), []host.Port{a}, b)
	m := ms[0].(*Meter)
	enginetest.Arm(t, m, false, 7)
	q := m.queues[0]
	q.mu.Lock() // the thread stands
	const n = 20_000
	_, err := tx.Transmit(context.Background(), engine.Load{Count: n}, engine.Stream{ID: 7, Frames: enginetest.Spec4(1, 64)})
	q.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	r := enginetest.Read(t, m)
	dropped := enginetest.Stats(t, a).TxDropped
	if r.Drops == 0 || r.Drops+r.Streams[0].Frames+dropped != n {
		t.Errorf("%d received, %d dropped by the meter, %d by the port, of %d", r.Streams[0].Frames, r.Drops, dropped, n)
	}
	enginetest.Arm(t, m, false, 7)
	if r := enginetest.Read(t, m); r.Drops != 0 {
		t.Errorf("armed again: %d drops", r.Drops)
	}
}

// hearAt is a socket that hears what arrives at p.
func hearAt(t testing.TB, p host.Port) (fd int) {
	t.Helper()
	if err := netns.Do(p.Netns, func() (err error) {
		if fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err != nil {
			return err
		}
		index, _, err := ports.Ethernet(p)
		if err != nil {
			return err
		}
		all := uint16(unix.ETH_P_ALL)
		return errors.Join(
			unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 64<<20),
			unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 5}),
			unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all<<8 | all>>8, Ifindex: index}),
		)
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

// wide is quiet with ports of two queues.
func wide(t testing.TB) (a, b host.Port) {
	t.Helper()
	return enginetest.Wire(t, testutil.Cable{A: "a", B: "b", Queues: 2, Silent: true})
}

// A queue that only receives is nobody's to send by: the kernel would index the
// port's transmit queues with it.
func TestAFXDPSendsByTransmitQueues(t *testing.T) {
	a, _ := wide(t)
	if err := netns.Do(a.Netns, func() error {
		e, err := ethtool.Open()
		if err != nil {
			return err
		}
		defer e.Close()
		return e.SetChannels(a.Name, ethtool.Channels{RxCount: 2, TxCount: 1})
	}); err != nil {
		t.Fatal(err)
	}
	b := New()
	tx, _ := enginetest.Open(t, b, []host.Port{a}, a)
	if _, err := b.OpenTransmitter(context.Background(), []host.Port{a}, 1); err == nil {
		t.Error("a port of one transmit queue has two transmitters")
	}
	if n := len(tx.(*Transmitter).outlets[0].port.queues); n != 2 {
		t.Errorf("%d queues, want 2", n)
	}
}

// A meter has the queues that receive, and leaves the others to everybody else.
func TestAFXDPMetersReceiveQueues(t *testing.T) {
	a, b := wide(t)
	if err := netns.Do(a.Netns, func() error {
		e, err := ethtool.Open()
		if err != nil {
			return err
		}
		defer e.Close()
		peer := e.SetChannels(b.Name, ethtool.Channels{RxCount: 2, TxCount: 1}) // a veth's XDP wants no more than it receives by
		return errors.Join(peer, e.SetChannels(a.Name, ethtool.Channels{RxCount: 1, TxCount: 2}))
	}); err != nil {
		t.Fatal(err)
	}
	enginetest.Open(t, New(), []host.Port{a}, a) // of one program, by queue 0
	other := New()
	tx, err := other.OpenTransmitter(context.Background(), []host.Port{a}, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := tx.Close(); err != nil {
		t.Error(err)
	}
}

// A port has a bounded memory, however many queues it has, and each queue its least.
func TestAFXDPMemory(t *testing.T) {
	for _, c := range []struct{ queues, receive, send int }{{1, 4096, 1024}, {2, 4096, 1024}, {4, 2048, 1024}, {8, 1024, 1024}, {16, 512, 512}, {32, 256, 256}, {33, 256, 128}, {128, 256, 128}} {
		receive, send := part(mostReceives, leastReceive, c.queues), part(sendChunks, leastSend, c.queues)
		if receive != c.receive || send != c.send {
			t.Errorf("%d queues: %d chunks to receive into and %d to send from, want %d and %d", c.queues, receive, send, c.receive, c.send)
		}
		if mib := c.queues * (receive + send) * xsk.Chunk >> 20; mib > 64 && mib > 64+(c.queues-32)*3/2 {
			t.Errorf("%d queues have %d MiB", c.queues, mib)
		}
	}
}

// Two transmitters send by two queues at once; the meter sums what both bring.
func TestAFXDPQueues(t *testing.T) {
	testutil.NoLeaks(t)
	a, b := wide(t)
	backend := New()
	tx, m := enginetest.Open(t, backend, []host.Port{a}, b)
	ctx := context.Background()
	second, err := backend.OpenTransmitter(ctx, []host.Port{a}, -1)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if _, err := backend.OpenTransmitter(ctx, []host.Port{a}, -1); !errors.Is(err, host.ErrNotSupported) {
		t.Errorf("a third transmitter on a port of two queues: %v", err)
	}
	enginetest.Arm(t, m[0], true, 1, 2)
	done := make(chan error, 1)
	go func() {
		_, err := second.Transmit(ctx, engine.Load{Rate: 5e3, Count: 1000}, engine.Stream{ID: 2, Frames: enginetest.Spec4(1, 128)})
		done <- err
	}()
	_, err = tx.Transmit(ctx, engine.Load{Rate: 5e3, Count: 1000}, engine.Stream{ID: 1, Frames: enginetest.Spec4(1, 64)})
	if err := errors.Join(err, <-done); err != nil {
		t.Fatal(err)
	}
	r := enginetest.Read(t, m[0])
	for i, octets := range []uint64{64_000, 128_000} {
		if s := r.Streams[i]; s.Frames != 1000 || s.Octets != octets || s.Reordered+s.Duplicate != 0 || s.Latency.Total() != 1000 {
			t.Errorf("%+v", s)
		}
	}
	for i, q := range m[0].(*Meter).queues {
		if q.stamped != 1000 {
			t.Errorf("queue %d brought %d frames", i, q.stamped)
		}
	}
	if r.Foreign+r.Drops != 0 {
		t.Errorf("%+v", r)
	}
}

// attached says whether an XDP program is on p.
func attached(t testing.TB, p host.Port) (yes bool) {
	t.Helper()
	if err := netns.Do(p.Netns, func() error {
		l, err := netlink.LinkByName(p.Name)
		if err == nil && l.Attrs().Xdp != nil {
			yes = l.Attrs().Xdp.Attached
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return yes
}

// A port whose driver runs no XDP programs has the kernel run them.
func TestAFXDPGeneric(t *testing.T) {
	testutil.NoLeaks(t)
	a, _ := enginetest.Quiet(t)
	lo := host.Port{Netns: a.Netns, Name: "lo"}
	if err := netns.Do(lo.Netns, func() error {
		l, err := netlink.LinkByName(lo.Name)
		if err != nil {
			return err
		}
		return netlink.LinkSetUp(l)
	}); err != nil {
		t.Fatal(err)
	}
	x := New()
	if err := x.Probe(context.Background(), lo); err != nil || x.Name() != "afxdp/copy+generic" {
		t.Errorf("%s: %v", x.Name(), err)
	}
	tx, m := enginetest.Open(t, New(), []host.Port{lo}, lo)
	enginetest.Arm(t, m[0], true, 4)
	const n = 500
	reps, err := tx.Transmit(context.Background(), engine.Load{Rate: 5e3, Count: n}, engine.Stream{ID: 4, Frames: enginetest.Spec4(1, 128)})
	if err != nil {
		t.Fatal(err)
	}
	r := enginetest.Read(t, m[0])
	if s := r.Streams[0]; reps[0].Accepted != n || s.Frames != n || s.Octets != n*128 || s.Broken+s.Reordered+r.Drops+r.Foreign != 0 || !strings.Contains(r.Stamps, "XDP program") {
		t.Errorf("%+v, %+v", reps, r)
	}
}

// A process that is killed leaves neither program nor socket.
func TestAFXDPKilled(t *testing.T) {
	if port := os.Getenv("BOXDYNO_TEST_METER"); port != "" {
		ns, name, _ := strings.Cut(port, " ")
		if _, err := New().OpenMeter(context.Background(), host.Port{Netns: ns, Name: name}); err != nil {
			t.Fatal(err)
		}
		os.Stdout.WriteString("open\n")
		select {}
	}
	a, _ := enginetest.Quiet(t)
	child := exec.Command(os.Args[0], "-test.run=^TestAFXDPKilled$")
	child.Env = append(os.Environ(), "BOXDYNO_TEST_METER="+a.Netns+" "+a.Name)
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	if err == nil {
		err = child.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	held := attached(t, a)
	if err := child.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = child.Wait() // killed
	if line != "open\n" || !held {
		t.Fatalf("the child said %q; program attached: %v", line, held)
	}
	if attached(t, a) {
		t.Error("the program is still attached")
	}
	m, err := New().OpenMeter(context.Background(), a)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}

func TestSumReports(t *testing.T) {
	ours, other := enginetest.Frame(t, enginetest.Spec(), 4, 0), make([]byte, 60)
	rapid.Check(t, func(t *rapid.T) {
		both := tally.New(false, []uint16{4})
		queues := []*tally.Tally{tally.New(false, []uint16{4}), tally.New(false, []uint16{4})}
		at := unit.Instant(0)
		for range rapid.IntRange(0, 50).Draw(t, "frames") {
			at += unit.Instant(rapid.IntRange(1, 1000).Draw(t, "gap"))
			f := rapid.SampledFrom([][]byte{ours, other}).Draw(t, "frame")
			both.Arrive(f, at)
			queues[rapid.IntRange(0, 1).Draw(t, "queue")].Arrive(f, at)
		}
		want := both.Report(7, "")
		got := sumReports([]engine.MeterReport{queues[0].Report(3, ""), queues[1].Report(4, "")})
		w, g := &want.Streams[0], &got.Streams[0]
		w.Duplicate, g.Duplicate = 0, 0 // the same number again: each queue judges for itself
		if g.Frames != w.Frames || g.Octets != w.Octets || g.First != w.First || g.Last != w.Last || g.Rate != w.Rate ||
			got.Foreign != want.Foreign || got.ForeignOctets != want.ForeignOctets || got.Drops != want.Drops || got.First != want.First || got.Last != want.Last {
			t.Fatalf("%+v, want %+v", got, want)
		}
	})
}

func TestSumHistograms(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var counts [3][bucket.Count]uint64
		for i := range 2 {
			for range rapid.IntRange(0, 20).Draw(t, "values") {
				b := rapid.IntRange(0, 40).Draw(t, "bucket")
				counts[i][b]++
				counts[2][b]++
			}
		}
		got, want := sumHistograms(bucket.Histogram(counts[0][:]), bucket.Histogram(counts[1][:])), bucket.Histogram(counts[2][:])
		if !slices.Equal(got.Upper, want.Upper) || !slices.Equal(got.Count, want.Count) {
			t.Fatalf("%v, want %v", got, want)
		}
	})
	if sumHistograms(nil, &result.Histogram{}) != nil {
		t.Error("a sum with none")
	}
}
