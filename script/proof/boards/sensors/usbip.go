// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// An adapter is an i2c-tiny-usb (a USB device that is an I2C bus) as the kernel sees it
// over USB/IP:
//
//	lm75, ina2xx-adc -> i2c-tiny-usb -> USB core -> vhci_hcd --socket-- adapter -> bus
//
// USB/IP is that of the kernel's Documentation/usb/usbip_protocol.rst, the requests are
// those of drivers/i2c/busses/i2c-tiny-usb.c.
type adapter struct {
	bus    *bus
	failed bool // nobody answered the last message
}

const (
	commandSubmit = 1
	commandUnlink = 2
	replySubmit   = 3
	replyUnlink   = 4

	// Requests of the adapter's own.
	requestEcho      = 0
	requestFunctions = 1
	requestDelay     = 2
	requestStatus    = 3
	requestIO        = 4 // and with 1 added the first, with 2 the last message of a transfer

	statusAcknowledged = 1
	statusNone         = 2

	// functions: plain messages, and what SMBus makes of them (I2C_FUNC_SMBUS_EMUL).
	functions = 0x0eff0009
)

// A request of USB's control endpoint, as it arrives.
type request struct {
	sequence  uint32
	in        bool
	length    int
	kind      byte // bmRequestType
	number    byte // bRequest
	value     uint16
	index     uint16
	data      []byte // out
	cancelled uint32 // sequence of the one to unlink
	unlink    bool
}

// serve answers until the line ends.
func (a *adapter) serve(line io.ReadWriter) error {
	for {
		r, err := readRequest(line)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read a USB/IP request: %w", err)
		}
		reply := make([]byte, 48)
		binary.BigEndian.PutUint32(reply[4:], r.sequence)
		if r.unlink { // every request was answered before the next was read
			binary.BigEndian.PutUint32(reply, replyUnlink)
		} else {
			data, status := a.answer(r)
			binary.BigEndian.PutUint32(reply, replySubmit)
			binary.BigEndian.PutUint32(reply[20:], uint32(int32(status)))
			n := len(data)
			if !r.in {
				n = len(r.data)
			}
			binary.BigEndian.PutUint32(reply[24:], uint32(n))
			reply = append(reply, data...)
		}
		if _, err := line.Write(reply); err != nil {
			return fmt.Errorf("answer a USB/IP request: %w", err)
		}
	}
}

func readRequest(line io.Reader) (r request, err error) {
	head := make([]byte, 48)
	if _, err := io.ReadFull(line, head); err != nil {
		return r, err
	}
	r.sequence = binary.BigEndian.Uint32(head[4:])
	switch command := binary.BigEndian.Uint32(head); command {
	case commandUnlink:
		r.unlink, r.cancelled = true, binary.BigEndian.Uint32(head[20:])
		return r, nil
	case commandSubmit:
	default:
		return r, fmt.Errorf("command %d is none of a client's", command)
	}
	r.in = binary.BigEndian.Uint32(head[12:]) == 1
	r.length = int(binary.BigEndian.Uint32(head[24:]))
	if r.length > 64<<10 {
		return r, fmt.Errorf("a request of %d octets is longer than any control request", r.length)
	}
	setup := head[40:]
	r.kind, r.number = setup[0], setup[1]
	r.value, r.index = binary.LittleEndian.Uint16(setup[2:]), binary.LittleEndian.Uint16(setup[4:])
	if !r.in {
		r.data = make([]byte, r.length)
		_, err = io.ReadFull(line, r.data)
	}
	return r, err
}

var deviceDescriptor = []byte{
	18, 1, 0x10, 0x01, 0xff, 0, 0, 64, // USB 1.1, a class of its own, 64 octets on endpoint 0
	0x03, 0x04, 0x31, 0xc6, 0x05, 0x02, 0, 0, 0, 1, // 0403:c631, i2c-tiny-usb
}

var configDescriptor = []byte{
	9, 2, 18, 0, 1, 1, 0, 0x80, 50,
	9, 4, 0, 0, 0, 0xff, 0, 0, 0,
}

// answer carries out a request; status is 0 or the negative of an error's number.
func (a *adapter) answer(r request) (data []byte, status int) {
	stall := -int(unix.EPIPE)
	standard := r.kind&0x60 == 0
	switch {
	case standard && r.number == 6 && r.value>>8 == 1:
		data = deviceDescriptor
	case standard && r.number == 6 && r.value>>8 == 2:
		data = configDescriptor
	case standard && r.number == 0 && r.in: // its status: powered by the bus
		data = []byte{0, 0}
	case standard && (r.number == 5 || r.number == 9 || r.number == 11): // address, configuration, interface
	case standard:
		return nil, stall
	case r.number == requestEcho:
		data = binary.LittleEndian.AppendUint16(nil, r.value)
	case r.number == requestFunctions:
		data = binary.LittleEndian.AppendUint32(nil, functions)
	case r.number == requestDelay:
	case r.number == requestStatus:
		data = []byte{statusAcknowledged}
		if a.failed {
			data = []byte{statusNone}
		}
	case r.number >= requestIO && r.number < 2*requestIO:
		in := 0
		if r.in {
			in = r.length
		}
		got, err := a.bus.transfer(r.index, r.data, in)
		a.failed = err != nil
		if err != nil {
			got = make([]byte, in)
		}
		data = got
	default:
		return nil, stall
	}
	return data[:min(len(data), r.length)], 0
}

// plug connects the adapter to the kernel, which is its USB host from then on.
func (a *adapter) plug() error {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fds[0]) // the kernel holds it
	line := os.NewFile(uintptr(fds[1]), "USB/IP")
	go func() {
		if err := a.serve(line); err != nil {
			fmt.Println("FAILED", err)
		}
	}()
	// port, socket, device (bus 1, address 2), full speed
	attach := fmt.Sprintf("0 %d %d 2", fds[0], 1<<16|2)
	if err := os.WriteFile("/sys/devices/platform/vhci_hcd.0/attach", []byte(attach), 0); err != nil {
		return fmt.Errorf("attach the adapter to vhci_hcd: %w", err)
	}
	return nil
}
