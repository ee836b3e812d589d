// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"testing"
)

// A kernel that asks for the adapter's descriptor, and then reads a chip.
func TestAdapter(t *testing.T) {
	heat, power := newLM75(), newINA219()
	heat.celsius(-4.5)
	power.write([]byte{5, 0x10, 0x00}) // calibration 4096: 1 mA a step
	power.load(5, 0.4)
	a := &adapter{bus: &bus{chips: map[uint16]*chip{thermometer: heat, meter: power}}}
	here, there := net.Pipe()
	done := make(chan error, 1)
	go func() { done <- a.serve(there) }()
	sequence := uint32(0)
	ask := func(in bool, kind, number byte, value, index uint16, length int, out []byte) []byte {
		t.Helper()
		sequence++
		head := make([]byte, 48)
		binary.BigEndian.PutUint32(head, commandSubmit)
		binary.BigEndian.PutUint32(head[4:], sequence)
		if in {
			binary.BigEndian.PutUint32(head[12:], 1)
		}
		binary.BigEndian.PutUint32(head[24:], uint32(length))
		head[40], head[41] = kind, number
		binary.LittleEndian.PutUint16(head[42:], value)
		binary.LittleEndian.PutUint16(head[44:], index)
		if _, err := here.Write(append(head, out...)); err != nil {
			t.Fatal(err)
		}
		reply := make([]byte, 48)
		if _, err := io.ReadFull(here, reply); err != nil {
			t.Fatal(err)
		}
		if binary.BigEndian.Uint32(reply) != replySubmit || binary.BigEndian.Uint32(reply[4:]) != sequence || binary.BigEndian.Uint32(reply[20:]) != 0 {
			t.Fatalf("request %d was answered with %x", sequence, reply)
		}
		n := int(binary.BigEndian.Uint32(reply[24:]))
		if !in {
			if n != len(out) {
				t.Fatalf("%d of %d octets were taken", n, len(out))
			}
			return nil
		}
		data := make([]byte, n)
		if _, err := io.ReadFull(here, data); err != nil {
			t.Fatal(err)
		}
		return data
	}
	const vendorIn, vendorOut = 0xc1, 0x41
	if got := ask(true, 0x80, 6, 1<<8, 0, 64, nil); !bytes.Equal(got, deviceDescriptor) || len(got) != int(got[0]) {
		t.Errorf("the device is %x", got)
	}
	if got := ask(true, 0x80, 6, 2<<8, 0, 64, nil); len(got) != int(binary.LittleEndian.Uint16(got[2:])) {
		t.Errorf("the configuration is %x", got)
	}
	read := func(address uint16, register byte) uint16 {
		t.Helper()
		ask(false, vendorOut, requestIO+1, 0, address, 1, []byte{register})
		return binary.BigEndian.Uint16(ask(true, vendorIn, requestIO+2, 1, address, 2, nil))
	}
	if got := int16(read(thermometer, 0)) >> 7; got != -9 {
		t.Errorf("-4.5 °C is %d half degrees", got)
	}
	// 5 V in steps of 4 mV, 400 mA of 1 mA, 2 W of 20 mW (SBOS448, section 8.5).
	if v, c, p := read(meter, 2)>>3, read(meter, 4), read(meter, 3); v != 1250 || c != 400 || p != 100 {
		t.Errorf("5 V and 0.4 A are %d, %d, %d", v, c, p)
	}
	if got := ask(true, vendorIn, requestStatus, 0, 0, 1, nil); got[0] != statusAcknowledged {
		t.Errorf("a chip that is there: status %d", got[0])
	}
	read(0x10, 0)
	if got := ask(true, vendorIn, requestStatus, 0, 0, 1, nil); got[0] != statusNone {
		t.Errorf("a chip that is not there: status %d", got[0])
	}
	if err := here.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}
