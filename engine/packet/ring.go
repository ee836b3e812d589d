// SPDX-License-Identifier: Apache-2.0

package packet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
	"unsafe"

	"boxdyno/unit"

	"golang.org/x/sys/unix"
)

// run reads the ring.
func (m *Meter) run() error {
	i := 0
	conn, err := m.wait.SyscallConn()
	if err != nil {
		return fmt.Errorf("wait for frames on %s: %w", m.port, err)
	}
	var failed error
	err = conn.Read(func(uintptr) bool { // now, and whenever the socket has something
		for busy := true; busy; {
			if busy, failed = m.drain(&i); failed != nil {
				return true
			}
			if busy {
				time.Sleep(m.pause())
			}
		}
		if failed = m.broken(); failed != nil {
			time.Sleep(m.late()) // for what the kernel still has
			_, err := m.drain(&i)
			failed = errors.Join(failed, err)
		}
		return failed != nil || m.stop.Load()
	})
	if failed == nil && err != nil && !m.stop.Load() {
		failed = fmt.Errorf("wait for frames on %s: %w", m.port, err)
	}
	return failed
}

// drain counts the frames of the blocks that the kernel has handed over, from
// block i on, and hands them back. full says that one was, so that more will be soon.
func (m *Meter) drain(i *int) (full bool, err error) {
	for !m.stop.Load() {
		block := m.ring[*i*ringBlock : (*i+1)*ringBlock]
		status := (*uint32)(unsafe.Pointer(&block[blockHeader]))
		flags := atomic.LoadUint32(status)
		if flags&unix.TP_STATUS_USER == 0 {
			return full, nil
		}
		full = full || flags&unix.TP_STATUS_BLK_TMO == 0
		if err := m.block(block); err != nil {
			return full, err
		}
		atomic.StoreUint32(status, unix.TP_STATUS_KERNEL)
		*i = (*i + 1) % ringBlocks
	}
	return false, nil
}

// broken is the socket's pending error, such as ENETDOWN once the port is gone.
func (m *Meter) broken() error {
	errno, err := unix.GetsockoptInt(m.fd, unix.SOL_SOCKET, unix.SO_ERROR)
	if err == nil && errno != 0 {
		err = unix.Errno(errno)
	}
	if err != nil {
		return fmt.Errorf("meter frames on %s: %w", m.port, err)
	}
	return nil
}

// Offsets of the ring's structures (include/uapi/linux/if_packet.h).
const (
	blockHeader = int(unsafe.Offsetof(unix.TpacketBlockDesc{}.Hdr))
	linkAddress = (int(unsafe.Sizeof(unix.Tpacket3Hdr{})) + 15) &^ 15 // TPACKET_ALIGN
	packetType  = linkAddress + int(unsafe.Offsetof(unix.RawSockaddrLinklayer{}.Pkttype))
	linkEnd     = linkAddress + int(unsafe.Sizeof(unix.RawSockaddrLinklayer{}))
)

// A slot of the ring, which is larger than a CPU's caches, is touched so many frames before
// it is read: each one says where the next is, so that the CPU cannot fetch ahead.
const (
	touched   = 16
	cacheLine = 64
)

// block counts the frames of a block.
func (m *Meter) block(block []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.tally == nil {
		return nil
	}
	head := (*unix.TpacketHdrV1)(unsafe.Pointer(&block[blockHeader]))
	software, hardware := m.clock.Offset(), int64(0)
	if m.nicOffset != nil {
		var err error
		if hardware, err = m.nicOffset(); err != nil {
			return err
		}
	}
	at := int(head.Offset_to_first_pkt)
	early := m.early
	for range head.Num_pkts {
		slot := block[at:]
		h := (*unix.Tpacket3Hdr)(unsafe.Pointer(&slot[0]))
		if next := at + touched*int(h.Next_offset); next+2*cacheLine < len(block) {
			early ^= block[next] ^ block[next+cacheLine] ^ block[next+2*cacheLine]
		}
		at += int(h.Next_offset)
		if m.plain {
			if arrived := unit.Instant(int64(h.Sec)*1e9 + int64(h.Nsec) - software); arrived >= m.since {
				m.software++
				m.tally.Count(int(h.Len)+tagOf(h), arrived)
			}
			continue
		}
		if slot[packetType] == unix.PACKET_OUTGOING {
			continue
		}
		stamped, offset := m.nicOffset != nil && h.Status&unix.TP_STATUS_TS_RAW_HARDWARE != 0, software
		if stamped {
			offset = hardware
		}
		arrived := unit.Instant(int64(h.Sec)*1e9 + int64(h.Nsec) - offset)
		if arrived < m.since {
			continue
		}
		if stamped {
			m.hardware++
		} else {
			m.software++
		}
		if f := wire(slot, h); !m.screen || !ofNeighbours(f) {
			m.tally.Arrive(f, arrived)
		}
	}
	m.early = early
	return nil
}

const vlanTag = 4

// tagOf is how many octets of a frame the kernel took out.
func tagOf(h *unix.Tpacket3Hdr) int {
	if h.Status&unix.TP_STATUS_VLAN_VALID != 0 {
		return vlanTag
	}
	return 0
}

// wire is the frame of a slot as it was on the wire: the kernel takes the outer
// VLAN tag out, and there is room for it before the frame (PACKET_RESERVE).
func wire(slot []byte, h *unix.Tpacket3Hdr) []byte {
	begin, end := int(h.Mac), int(h.Mac)+int(h.Snaplen)
	const addresses = 12
	if h.Status&unix.TP_STATUS_VLAN_VALID == 0 || begin-vlanTag < linkEnd || h.Snaplen < addresses {
		return slot[begin:end]
	}
	copy(slot[begin-vlanTag:], slot[begin:begin+addresses])
	begin -= vlanTag
	protocol := uint16(0x8100)
	if h.Status&unix.TP_STATUS_VLAN_TPID_VALID != 0 {
		protocol = h.Hv1.Vlan_tpid
	}
	binary.BigEndian.PutUint16(slot[begin+addresses:], protocol)
	binary.BigEndian.PutUint16(slot[begin+addresses+2:], uint16(h.Hv1.Vlan_tci))
	return slot[begin:end]
}
