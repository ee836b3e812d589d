// SPDX-License-Identifier: Apache-2.0

package ports

import (
	"errors"
	"fmt"
	"time"

	"boxdyno/engine"
	"boxdyno/internal/netns"

	"golang.org/x/sys/unix"
)

// LookEvery is how often a sender in the kernel is asked whether its ports are still
// there: nothing else would end its load.
const LookEvery = 500 * time.Millisecond

// Vanished says whether the port of an index is no longer in the namespace of a
// socket. Names may change meanwhile.
func Vanished(socket, index int) bool {
	r, err := unix.NewIfreq("-") // the kernel writes the name over it
	if err != nil {
		return false
	}
	r.SetUint32(uint32(index))
	return errors.Is(unix.IoctlIfreq(socket, unix.SIOCGIFNAME, r), unix.ENODEV)
}

// GoneError says that a sender's port has vanished, and what it took until then.
func GoneError(port string, reports []engine.TxReport) error {
	accepted := uint64(0)
	for _, r := range reports {
		accepted += r.Accepted
	}
	return fmt.Errorf("send from %s: %w; %d frames were accepted until then", port, engine.ErrPortGone, accepted)
}

// Socket is a socket of a namespace, to ask there.
func Socket(ns string) (fd int, err error) {
	err = netns.Do(ns, func() error {
		fd, err = unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("open a socket in the ports' namespace: %w", err)
		}
		return nil
	})
	return fd, err
}
