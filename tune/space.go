// SPDX-License-Identifier: Apache-2.0

package tune

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"boxdyno/internal/netns"
)

// identity tells a namespace from every other one since the machine was started:
// "cookie:N" (SO_NETNS_COOKIE, Linux 5.14), which is never used again, or on an older
// kernel "inode:N" of its file, which may be.
func identity(path string) (id string, err error) {
	err = netns.Do(path, func() error {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		cookie, err := unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
		if err == nil {
			id = fmt.Sprintf("cookie:%d", cookie)
			return nil
		}
		var st unix.Stat_t
		if err := unix.Stat("/proc/thread-self/ns/net", &st); err != nil {
			return err
		}
		id = fmt.Sprintf("inode:%d", st.Ino)
		return nil
	})
	return id, err
}

// locate finds a namespace again: where it was, where this process is, under a name,
// or under any process. a goneError: it is nowhere, and its settings with it.
func locate(path, id string) (string, error) {
	tried := map[string]bool{}
	is := func(p string) bool {
		to, err := os.Readlink(p) // "net:[4026531840]" below /proc
		if err == nil && p != path {
			if tried[to] {
				return false
			}
			tried[to] = true
		}
		got, err := identity(p)
		return err == nil && got == id
	}
	if is(path) {
		return path, nil
	}
	if is("") {
		return "", nil
	}
	named, _ := filepath.Glob("/run/netns/*") // the patterns are good
	processes := []string{"/proc/1/ns/net"}
	if strings.HasPrefix(id, "cookie:") { // an inode may be another's by now
		all, _ := filepath.Glob("/proc/[0-9]*/ns/net")
		processes = append(processes, all...)
	}
	for _, p := range append(named, processes...) {
		if is(p) {
			return p, nil
		}
	}
	return "", goneError("network namespace " + id + " is not there any more")
}

// portIndex is a port's number in its namespace, which a port of the same name that
// comes later does not have.
func portIndex(site Site) (index int, err error) {
	err = netns.Do(site.Netns, func() error {
		l, err := netlink.LinkByName(site.Port)
		if errors.As(err, &netlink.LinkNotFoundError{}) {
			return noPort(site.Port)
		}
		if err != nil {
			return fmt.Errorf("find port %s: %w", site.Port, err)
		}
		index = l.Attrs().Index
		return nil
	})
	return index, err
}
