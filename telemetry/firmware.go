// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"boxdyno/host"
)

// A mailbox carries property messages to a Raspberry Pi's firmware and the answers
// back (the firmware's wiki, "Mailbox property interface"):
//
//	octets  0  size of the message    4  0; of an answer 0x80000000
//	        8  tag                   12  octets of its value
//	       16  0; of an answer 0x80000000 | octets
//	       20  value ...             then a tag 0, the end
type mailbox interface {
	property(message []byte) error // the answer replaces the message
	Close() error
}

const (
	tagThrottled = 0x00030046 // value: flags; asked with 0 it clears none
	tagCommand   = 0x00030080 // value: a word of error, then the text of a command and of its answer
	commandSize  = 1024
	answered     = 0x80000000
)

var errFirmware = errors.New("the firmware does not know the question")

// ask sends one tag and returns its value as the firmware left it.
func ask(box mailbox, tag uint32, value []byte) ([]byte, error) {
	m := make([]byte, 20+len(value)+4)
	put := binary.NativeEndian.PutUint32
	put(m, uint32(len(m)))
	put(m[8:], tag)
	put(m[12:], uint32(len(value)))
	copy(m[20:], value)
	if err := box.property(m); err != nil {
		return nil, err
	}
	if get := binary.NativeEndian.Uint32; get(m[4:]) != answered || get(m[16:])&answered == 0 {
		return nil, errFirmware
	}
	return m[20 : 20+len(value)], nil
}

// command runs what vcgencmd runs ("get_throttled") and returns what it prints.
func command(box mailbox, text string) (string, error) {
	value := make([]byte, 4+commandSize)
	copy(value[4:], text)
	out, err := ask(box, tagCommand, value)
	if err != nil {
		return "", fmt.Errorf("firmware command %s: %w", text, err)
	}
	s, _, _ := strings.Cut(string(out[4:]), "\x00")
	if code := binary.NativeEndian.Uint32(out); code != 0 || strings.HasPrefix(s, "error=") {
		return "", fmt.Errorf("firmware command %s: %w (%d %s)", text, errFirmware, code, s)
	}
	return s, nil
}

// vcio is the mailbox as a device of the kernel.
type vcio struct{ *os.File }

// openMailbox returns ErrAbsent where there is none, *host.Missing where it may
// not be used: it is root's and the group video's.
func openMailbox(m *Machine) (mailbox, error) {
	if m.Root != nil {
		return nil, ErrAbsent // a recorded tree has no devices
	}
	f, err := os.Open("/dev/vcio")
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENXIO), errors.Is(err, unix.ENODEV):
		return nil, ErrAbsent
	case errors.Is(err, fs.ErrPermission):
		return nil, &host.Missing{What: "privilege to ask the Raspberry Pi's firmware (/dev/vcio)", Hint: "run it with sudo, or put the user into the group video"}
	case err != nil:
		return nil, err
	}
	return vcio{f}, nil
}

func (v vcio) property(message []byte) error {
	// _IOWR(100, 0, char *): the size is the pointer's
	request := uintptr(3<<30 | unsafe.Sizeof(uintptr(0))<<16 | 100<<8)
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, v.Fd(), request, uintptr(unsafe.Pointer(&message[0])))
	if errno != 0 {
		return fmt.Errorf("ask the firmware by /dev/vcio: %w", errno)
	}
	return nil
}
