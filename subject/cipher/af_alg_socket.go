// SPDX-License-Identifier: Apache-2.0

package cipher

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"boxdyno/host"
)

// An algSocket is a cipher of the kernel with its key, through AF_ALG as cryptsetup uses
// it (Documentation/crypto/userspace-if.rst):
//
//	socket -> bind skcipher or aead, name -> ALG_SET_KEY -> accept
//	then for each request: sendmsg with ALG_SET_OP and ALG_SET_IV -> read
//
// One goroutine uses it at a time. It needs no privilege; the kernel loads what it has as
// modules. CONFIG_CRYPTO_USER_API_SKCIPHER and _AEAD are off in some kernels.
type algSocket struct{ parent, op int }

// mostAlg is what the kernel takes in one request: 16 pages of 4096 octets.
const mostAlg = 65536

// algTag is the octets of an authenticated cipher's tag, which follow what it encrypts.
const algTag = 16

// An algName is what the kernel calls a cipher: "skcipher" "cbc(aes)", or "aead"
// "gcm(aes)" with a tag of algTag octets.
type algName struct{ kind, name string }

// openAlg is the kernel's cipher of that name. Where the kernel has none of the name, or
// no AF_ALG, the error is a *host.Missing.
func openAlg(alg algName, key []byte) (s *algSocket, err error) {
	name := alg.name
	s = &algSocket{parent: -1, op: -1}
	defer func() {
		if err != nil {
			s.Close()
			s = nil
		}
	}()
	if s.parent, err = unix.Socket(unix.AF_ALG, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0); err != nil {
		s.parent = -1
		return s, algMissing(err)
	}
	if err := unix.Bind(s.parent, &unix.SockaddrALG{Type: alg.kind, Name: name}); err != nil {
		if errors.Is(err, unix.ENOENT) {
			return s, &host.Missing{What: "the kernel's cipher " + name, Hint: "load its module and algif_" + alg.kind + " with modprobe, or use a kernel that has both, such as Debian's: /proc/crypto lists the ciphers that are there"}
		}
		return s, fmt.Errorf("bind the kernel's cipher %s: %w", name, err)
	}
	if err := unix.SetsockoptString(s.parent, unix.SOL_ALG, unix.ALG_SET_KEY, string(key)); err != nil {
		return s, fmt.Errorf("set a key of %d bits for the kernel's cipher %s: %w", 8*len(key), name, err)
	}
	if alg.kind == "aead" {
		// The length of the tag is that of the option, which has no value.
		if _, _, errno := unix.Syscall6(unix.SYS_SETSOCKOPT, uintptr(s.parent), unix.SOL_ALG, unix.ALG_SET_AEAD_AUTHSIZE, 0, algTag, 0); errno != 0 {
			return s, fmt.Errorf("set a tag of %d octets for the kernel's cipher %s: %w", algTag, name, errno)
		}
	}
	// Accept of package unix wants an address, and such sockets have none.
	fd, _, errno := unix.Syscall6(unix.SYS_ACCEPT4, uintptr(s.parent), 0, 0, unix.SOCK_CLOEXEC, 0, 0)
	if errno != 0 {
		return s, fmt.Errorf("accept a request of the kernel's cipher %s: %w", name, errno)
	}
	s.op = int(fd)
	return s, nil
}

// algMissing is what the error of socket(AF_ALG) means.
func algMissing(err error) error {
	if errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EPROTONOSUPPORT) || errors.Is(err, unix.ESOCKTNOSUPPORT) {
		return &host.Missing{What: "AF_ALG sockets of ciphers in this kernel", Hint: "run modprobe algif_skcipher, or a kernel with CONFIG_CRYPTO_USER_API_SKCIPHER, such as Debian's"}
	}
	return fmt.Errorf("open an AF_ALG socket: %w", err)
}

// Close may be called more than once.
func (s *algSocket) Close() {
	for _, fd := range []*int{&s.op, &s.parent} {
		if *fd >= 0 {
			_ = unix.Close(*fd) // it holds no data
			*fd = -1
		}
	}
}

// algControl is the control message of a request.
func algControl(decrypt bool, iv []byte) []byte {
	op := uint32(unix.ALG_OP_ENCRYPT)
	if decrypt {
		op = unix.ALG_OP_DECRYPT
	}
	words := binary.NativeEndian.AppendUint32(nil, op)
	vector := append(binary.NativeEndian.AppendUint32(nil, uint32(len(iv))), iv...)
	out := make([]byte, unix.CmsgSpace(len(words))+unix.CmsgSpace(len(vector)))
	rest := out
	for _, m := range []struct {
		kind int32
		data []byte
	}{{unix.ALG_SET_OP, words}, {unix.ALG_SET_IV, vector}} {
		h := (*unix.Cmsghdr)(unsafe.Pointer(&rest[0]))
		h.Level, h.Type = unix.SOL_ALG, m.kind
		h.SetLen(unix.CmsgLen(len(m.data)))
		copy(rest[unix.CmsgLen(0):], m.data)
		rest = rest[unix.CmsgSpace(len(m.data)):]
	}
	return out
}

// Do has the kernel encrypt or decrypt, as control says, all of in, at most mostAlg
// octets and a tag, to out, which may be in and is as long as what comes out. A wrong tag
// is unix.EBADMSG.
func (s *algSocket) Do(control, in, out []byte) error {
	n, err := unix.SendmsgN(s.op, in, control, nil, 0)
	if err != nil {
		return fmt.Errorf("send %d octets to the kernel's cipher: %w", len(in), err)
	}
	if n != len(in) {
		return fmt.Errorf("the kernel's cipher took %d of %d octets", n, len(in))
	}
	if n, err = unix.Read(s.op, out); err != nil {
		return fmt.Errorf("read %d octets of the kernel's cipher: %w", len(out), err)
	}
	if n != len(out) {
		return fmt.Errorf("the kernel's cipher gave %d of %d octets", n, len(out))
	}
	return nil
}
