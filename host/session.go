// SPDX-License-Identifier: Apache-2.0

package host

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// A session is a connection that a process depends on from which this one descends.
type session struct {
	peer, local netip.Addr
	netns       uint64 // inode of the network namespace it is in; 0: not known
}

// sessions returns the connections over which a process was started: SSH_CONNECTION of
// itself and of each process that it descends from, and the TCP connections that those
// processes hold. sudo takes the variable out of the environment; sshd above it has the
// socket. Empty: there is none, or it cannot be seen.
func sessions(root fs.FS, pid int) (all []session) {
	add := func(s session) {
		s.peer, s.local = s.peer.Unmap().WithZone(""), s.local.Unmap().WithZone("")
		if !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	for generation := range 64 {
		dir := "proc/" + strconv.Itoa(pid) + "/"
		env, _ := fs.ReadFile(root, dir+"environ") // another user's cannot be read
		for v := range bytes.SplitSeq(env, []byte{0}) {
			s, ok := bytes.CutPrefix(v, []byte("SSH_CONNECTION="))
			if f := strings.Fields(string(s)); ok && len(f) == 4 {
				from, err := netip.ParseAddr(f[0])
				to, errTo := netip.ParseAddr(f[2])
				if errors.Join(err, errTo) == nil {
					add(session{peer: from, local: to})
				}
			}
		}
		if generation > 0 { // this program's own are its business
			for _, s := range connections(root, dir) {
				add(s)
			}
		}
		status, err := fs.ReadFile(root, dir+"status")
		if err != nil {
			break
		}
		_, rest, _ := strings.Cut(string(status), "\nPPid:")
		parent, _, _ := strings.Cut(rest, "\n")
		if pid, err = strconv.Atoi(strings.TrimSpace(parent)); err != nil || pid < 1 {
			break
		}
	}
	return all
}

// connections returns the established TCP connections that a process holds.
func connections(root fs.FS, dir string) (all []session) {
	fds, _ := fs.ReadDir(root, dir+"fd") // another user's cannot be read
	inodes := map[string]bool{}
	for _, fd := range fds {
		to, err := fs.ReadLink(root, dir+"fd/"+fd.Name())
		if inode, ok := strings.CutPrefix(to, "socket:["); err == nil && ok {
			inodes[strings.TrimSuffix(inode, "]")] = true
		}
	}
	if len(inodes) == 0 {
		return nil
	}
	ns := netnsOf(root, dir+"ns/net")
	for _, table := range []string{"net/tcp", "net/tcp6"} {
		text, _ := fs.ReadFile(root, dir+table) // a kernel without IPv6
		for line := range strings.Lines(string(text)) {
			// sl local rem st tx:rx tr:when retrnsmt uid timeout inode
			f := strings.Fields(line)
			if len(f) < 10 || f[3] != "01" || !inodes[f[9]] {
				continue
			}
			local, err := procAddr(f[1])
			peer, errPeer := procAddr(f[2])
			if errors.Join(err, errPeer) == nil && !peer.IsLoopback() {
				all = append(all, session{peer, local, ns})
			}
		}
	}
	return all
}

// procAddr reads the address of "0100007F:0016": words of 32 bit in the machine's order.
func procAddr(s string) (netip.Addr, error) {
	text, _, _ := strings.Cut(s, ":")
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != 4 && len(b) != 16 {
		return netip.Addr{}, fmt.Errorf("%q is no address", s)
	}
	for i := 0; i < len(b); i += 4 {
		binary.NativeEndian.PutUint32(b[i:], binary.BigEndian.Uint32(b[i:]))
	}
	a, _ := netip.AddrFromSlice(b)
	return a.Unmap(), nil
}

// netnsOf returns the inode of a network namespace; 0 if it cannot be seen.
func netnsOf(root fs.FS, path string) uint64 {
	info, err := fs.Stat(root, path)
	if err != nil {
		return 0
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0
	}
	return st.Ino
}
