// SPDX-License-Identifier: Apache-2.0

package subject

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
)

var hostRoot = os.DirFS("/")

// listens says whether a packet socket that one of the processes holds receives from
// the port with that index (proc(5), net/packet/af_packet.c: packet_seq_show). root
// is that of the machine.
func listens(root fs.FS, pids []int, index int) bool {
	held := map[string]bool{} // sockets, as links name them
	for _, pid := range pids {
		dir := path.Join("proc", strconv.Itoa(pid))
		fds, _ := fs.ReadDir(root, path.Join(dir, "fd")) // none: the process is gone
		for _, fd := range fds {
			if target, err := fs.ReadLink(root, path.Join(dir, "fd", fd.Name())); err == nil && strings.HasPrefix(target, "socket:") {
				held[target] = true
			}
		}
	}
	if len(held) == 0 {
		return false
	}
	for _, pid := range pids {
		text, err := fs.ReadFile(root, path.Join("proc", strconv.Itoa(pid), "net/packet"))
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			// sk RefCnt Type Proto Iface R Rmem User Inode
			f := strings.Fields(line)
			if len(f) == 9 && f[4] == strconv.Itoa(index) && f[5] == "1" && held[fmt.Sprintf("socket:[%s]", f[8])] {
				return true
			}
		}
		return false // all processes of a tree are in one namespace
	}
	return false
}
