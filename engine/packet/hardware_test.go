// SPDX-License-Identifier: Apache-2.0

package packet

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"strings"
	"testing"

	"boxdyno/engine"
	"boxdyno/engine/internal/clock"
	"boxdyno/engine/internal/enginetest"
	"boxdyno/engine/internal/tally"
	"boxdyno/unit"

	"golang.org/x/sys/unix"
)

func TestStampingClock(t *testing.T) {
	const both = unix.SOF_TIMESTAMPING_RX_HARDWARE | unix.SOF_TIMESTAMPING_RAW_HARDWARE
	all := uint32(1<<unix.HWTSTAMP_FILTER_NONE | 1<<unix.HWTSTAMP_FILTER_ALL)
	for _, c := range []struct {
		name string
		info unix.EthtoolTsInfo
		why  string // "" is yes
	}{
		{"i210", unix.EthtoolTsInfo{So_timestamping: both | unix.SOF_TIMESTAMPING_SOFTWARE, Phc_index: 2, Rx_filters: all}, ""},
		{"veth", unix.EthtoolTsInfo{So_timestamping: unix.SOF_TIMESTAMPING_TX_SOFTWARE | unix.SOF_TIMESTAMPING_RX_SOFTWARE | unix.SOF_TIMESTAMPING_SOFTWARE, Phc_index: -1}, "no clock"},
		{"transmit only", unix.EthtoolTsInfo{So_timestamping: unix.SOF_TIMESTAMPING_RAW_HARDWARE, Phc_index: 0, Rx_filters: all}, "no clock"},
		{"clock without an index", unix.EthtoolTsInfo{So_timestamping: both, Phc_index: -1, Rx_filters: all}, "no clock"},
		{"PTP only", unix.EthtoolTsInfo{So_timestamping: both, Phc_index: 0, Rx_filters: 1 << unix.HWTSTAMP_FILTER_PTP_V2_EVENT}, "PTP only"},
	} {
		index, err := stampingClock(&c.info)
		switch {
		case c.why == "" && (err != nil || index != int(c.info.Phc_index)):
			t.Errorf("%s: %d, %v", c.name, index, err)
		case c.why != "" && (err == nil || !strings.Contains(err.Error(), c.why)):
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// A ringSlot is a frame as the kernel leaves it in a block (if_packet.h); the
// offsets are the kernel's, not the meter's.
type ringSlot struct {
	frame     []byte
	sec, nsec uint32
	status    uint32
	tci, tpid uint16
	kind      byte
}

func ringOf(slots ...ringSlot) []byte {
	le := binary.NativeEndian
	b := make([]byte, 48) // tpacket_block_desc
	le.PutUint32(b[0:], 1)
	le.PutUint32(b[12:], uint32(len(slots)))
	le.PutUint32(b[16:], 48)
	for i, s := range slots {
		const mac = 86 // 48 header, 20 address, then the frame so that IP is aligned, and 4 reserved
		p := make([]byte, (mac+len(s.frame)+15)&^15)
		if i < len(slots)-1 {
			le.PutUint32(p[0:], uint32(len(p)))
		}
		le.PutUint32(p[4:], s.sec)
		le.PutUint32(p[8:], s.nsec)
		le.PutUint32(p[12:], uint32(len(s.frame)))
		le.PutUint32(p[16:], uint32(len(s.frame)))
		le.PutUint32(p[20:], s.status)
		le.PutUint16(p[24:], mac)
		le.PutUint16(p[26:], mac+14)
		le.PutUint32(p[32:], uint32(s.tci))
		le.PutUint16(p[36:], s.tpid)
		p[58] = s.kind
		copy(p[mac:], s.frame)
		b = append(b, p...)
	}
	return b
}

func TestRingBlock(t *testing.T) {
	f := enginetest.Frame(t, enginetest.Spec(), 1, 0)
	tagged := func(protocol, tci uint16) []byte {
		b := append([]byte(nil), f[:12]...)
		b = binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(b, protocol), tci)
		return append(b, f[12:]...)
	}
	const valid, tpid = unix.TP_STATUS_VLAN_VALID, unix.TP_STATUS_VLAN_TPID_VALID
	m := &Meter{clock: clock.New(), tally: tally.New(true, []uint16{1}), stamps: "software"}
	m.tally.Hash = engine.NewDigest()
	now := uint32(unit.Now()/1e9 + unit.Instant(m.clock.Offset()/1e9))
	if err := m.block(ringOf(
		ringSlot{frame: f, sec: now, status: unix.TP_STATUS_USER},
		ringSlot{frame: f, sec: now, status: valid, tci: 0x2005},                      // before Linux 3.14
		ringSlot{frame: f, sec: now, status: valid | tpid, tci: 7, tpid: 0x88a8},      // as today
		ringSlot{frame: f, sec: now, status: 0, tci: 9, tpid: 0x8100},                 // no tag
		ringSlot{frame: f, sec: now, kind: unix.PACKET_OUTGOING},                      // not received
		ringSlot{frame: f[:9:9], sec: now, status: valid | tpid, tpid: 0x8100},        // shorter than addresses
		ringSlot{frame: f, sec: now, status: unix.TP_STATUS_TS_RAW_HARDWARE, nsec: 5}, // by a clock that was not asked
	)); err != nil {
		t.Fatal(err)
	}
	want := engine.NewDigest()
	for _, b := range [][]byte{f, tagged(0x8100, 0x2005), tagged(0x88a8, 7), f, f[:9], f} {
		want.Add(b)
	}
	r := m.tally.Report(0, m.stamped())
	if r.Hash != want.Sum() || r.Foreign != 1 || r.Streams[0].Frames != 5 || r.Streams[0].Octets != 5*64+8 || r.Stamps != "software" {
		t.Errorf("%+v", r)
	}
	if d := unit.Now() - r.First; d < -2e9 || d > 2e9 {
		t.Errorf("arrived %v before now", d)
	}

	// The same meter once the NIC's clock is known; frames that it did not stamp have the kernel's time.
	m.tally, m.software, m.hardware = tally.New(true, []uint16{1}), 0, 0
	m.nicOffset = func() (int64, error) { return 7_000_000_001, nil }
	if err := m.block(ringOf(ringSlot{frame: f, sec: 9, nsec: 2, status: unix.TP_STATUS_TS_RAW_HARDWARE})); err != nil {
		t.Fatal(err)
	}
	if r := m.tally.Report(0, m.stamped()); r.First != 2_000_000_001 || r.Stamps != "hardware (not seen on hardware)" {
		t.Errorf("%+v", r)
	}
	if err := m.block(ringOf(ringSlot{frame: f, sec: now, status: unix.TP_STATUS_TS_SOFTWARE})); err != nil {
		t.Fatal(err)
	}
	if r := m.tally.Report(0, m.stamped()); r.Last < unit.Now()-2e9 || r.Stamps != "hardware (not seen on hardware), 1 of 2 frames software" {
		t.Errorf("%+v", r)
	}
}

// What the ring meter hashes and counts is what was sent, octet for octet, tags
// and all.
func TestPacketMeterHash(t *testing.T) {
	a, b := enginetest.Quiet(t)
	m, err := New().OpenMeter(context.Background(), b)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	m.(engine.Hasher).Hash(true)
	enginetest.Arm(t, m, true)
	rnd := rand.New(rand.NewPCG(1, 2))
	want, octets := engine.NewDigest(), uint64(0)
	for range 20 {
		var frames [][]byte
		for range 50 {
			f := make([]byte, 14+rnd.IntN(1501))
			for i := range f {
				f[i] = byte(rnd.Uint32())
			}
			f[0] = 2
			copy(f[12:], [][]byte{{0x08, 0x00}, {0x81, 0x00}, {0x88, 0xa8}, {0x88, 0xb5}, {0x00, 0x40}}[rnd.IntN(5)])
			want.Add(f)
			octets += uint64(len(f) + unit.FCS)
			frames = append(frames, f)
		}
		enginetest.Inject(t, a, frames...)
	}
	r := enginetest.Read(t, m)
	if r.Foreign != 1000 || r.ForeignOctets != octets || r.Hash != want.Sum() || r.Drops != 0 {
		t.Errorf("%+v, want 1000 frames of %d octets and hash %s", r, octets, want.Sum())
	}
	if !strings.Contains(r.Stamps, "software, packet ring") {
		t.Errorf("stamps %q of a port without a clock", r.Stamps)
	}
}
