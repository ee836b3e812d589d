// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"

	"boxdyno/host"

	"golang.org/x/sys/unix"
)

var hostRoot = os.DirFS("/")

// A heldSocket is a packet socket, by a descriptor that a process has of it.
type heldSocket struct{ pid, fd int }

// packetSockets are those of the processes that receive from the port with that index.
// root is that of the machine.
func packetSockets(root fs.FS, pids []int, index int) (found []heldSocket) {
	held := map[string]heldSocket{} // by the socket, as links name it
	for _, pid := range pids {
		dir := path.Join("proc", strconv.Itoa(pid))
		fds, _ := fs.ReadDir(root, path.Join(dir, "fd")) // none: the process is gone
		for _, fd := range fds {
			if target, err := fs.ReadLink(root, path.Join(dir, "fd", fd.Name())); err == nil && strings.HasPrefix(target, "socket:") {
				n, _ := strconv.Atoi(fd.Name()) // all names there are numbers
				held[target] = heldSocket{pid, n}
			}
		}
	}
	if len(held) == 0 {
		return nil
	}
	for _, pid := range pids {
		text, err := fs.ReadFile(root, path.Join("proc", strconv.Itoa(pid), "net/packet"))
		if err != nil {
			continue
		}
		for _, inode := range host.PacketSockets(text, index) {
			if s, ok := held["socket:["+inode+"]"]; ok {
				found = append(found, s)
			}
		}
		return found // all processes of a tree are in one namespace
	}
	return nil
}

// statistics are how many frames the socket took and dropped since they were last read,
// by whomever. It needs the privilege to trace the process, and Linux 5.6
// (pidfd_getfd(2), packet(7): PACKET_STATISTICS).
func (h heldSocket) statistics() (packets, drops int64, err error) {
	process, err := unix.PidfdOpen(h.pid, 0)
	if err != nil {
		return 0, 0, fmt.Errorf("open process %d: %w", h.pid, err)
	}
	defer unix.Close(process)
	socket, err := unix.PidfdGetfd(process, h.fd, 0)
	if err != nil {
		return 0, 0, fmt.Errorf("take descriptor %d of process %d: %w", h.fd, h.pid, err)
	}
	defer unix.Close(socket)
	st, err := unix.GetsockoptTpacketStats(socket, unix.SOL_PACKET, unix.PACKET_STATISTICS)
	if err != nil {
		return 0, 0, fmt.Errorf("read the packet socket's statistics: %w", err)
	}
	return int64(st.Packets), int64(st.Drops), nil
}
