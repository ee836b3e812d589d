// SPDX-License-Identifier: Apache-2.0

package packet

import (
	"errors"
	"fmt"
	"os"

	"boxdyno/internal/caps"
	"boxdyno/unit"

	"golang.org/x/sys/unix"
)

// A nicClock is a NIC's clock that stamps frames as they arrive. No NIC with one
// has been seen by the authors: reports say so.
//
// The NIC stamps while a timed meter is open; Close puts its setting back. A
// process that is killed leaves it stamping, which ptp4l and others undo when
// they set their own, and hwstamp_ctl(8) by hand.
type nicClock struct {
	port   string
	fd     int // a socket of the port's namespace
	device *os.File
	before unix.HwTstampConfig
}

// openNICClock makes port stamp every frame that arrives. fd is a socket in its
// namespace. The error says why it cannot; the port is then as it was.
func openNICClock(fd int, port string) (_ *nicClock, err error) {
	info, err := unix.IoctlGetEthtoolTsInfo(fd, port)
	if err != nil {
		return nil, fmt.Errorf("ask %s for its time stamps: %w", port, err)
	}
	index, err := stampingClock(info)
	if err != nil {
		return nil, fmt.Errorf("port %s %w", port, err)
	}
	before, err := unix.IoctlGetHwTstamp(fd, port)
	if err != nil {
		return nil, fmt.Errorf("read the time stamping of %s: %w", port, err)
	}
	c := &nicClock{port: port, fd: fd, before: *before}
	if err = caps.Override(func() (err error) {
		c.device, err = os.Open(fmt.Sprintf("/dev/ptp%d", index))
		return err
	}); err != nil {
		return nil, fmt.Errorf("open the clock of %s: %w", port, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.close())
		}
	}()
	set := unix.HwTstampConfig{Tx_type: before.Tx_type, Rx_filter: unix.HWTSTAMP_FILTER_ALL}
	if err := unix.IoctlSetHwTstamp(fd, port, &set); err != nil {
		return nil, fmt.Errorf("switch time stamps of %s on: %w", port, err)
	}
	if set.Rx_filter != unix.HWTSTAMP_FILTER_ALL { // the driver's answer
		return nil, fmt.Errorf("port %s stamps some frames only (filter %d)", port, set.Rx_filter)
	}
	if _, err := c.offset(); err != nil {
		return nil, err
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_TIMESTAMP, unix.SOF_TIMESTAMPING_RAW_HARDWARE); err != nil {
		return nil, fmt.Errorf("ask for the time stamps of %s: %w", port, err)
	}
	return c, nil
}

// stampingClock is the index of the PTP clock with which a NIC can stamp every
// frame that arrives.
func stampingClock(info *unix.EthtoolTsInfo) (int, error) {
	const raw = unix.SOF_TIMESTAMPING_RX_HARDWARE | unix.SOF_TIMESTAMPING_RAW_HARDWARE
	switch {
	case info.So_timestamping&raw != raw || info.Phc_index < 0:
		return 0, errors.New("has no clock of its own")
	case info.Rx_filters&(1<<unix.HWTSTAMP_FILTER_ALL) == 0:
		return 0, errors.New("cannot stamp every frame, but those of PTP only")
	}
	return int(info.Phc_index), nil
}

// offset is what the NIC's clock is ahead of CLOCK_MONOTONIC, in ns: the best of
// three readings, right to half of what a reading takes (some us over PCIe).
func (c *nicClock) offset() (int64, error) {
	id := unix.FdToClockID(int(c.device.Fd()))
	best, offset := unit.Instant(1<<62), int64(0)
	for range 3 {
		var t unix.Timespec
		before := unit.Now()
		if err := unix.ClockGettime(id, &t); err != nil {
			return 0, fmt.Errorf("read the clock of %s: %w", c.port, err)
		}
		if took := unit.Now() - before; took < best {
			best, offset = took, t.Nano()-int64(before+took/2)
		}
	}
	return offset, nil
}

// close puts the port's setting back.
func (c *nicClock) close() error {
	before := c.before
	err := unix.IoctlSetHwTstamp(c.fd, c.port, &before)
	if err != nil {
		err = fmt.Errorf("put the time stamping of %s back: %w", c.port, err)
	}
	return errors.Join(err, c.device.Close())
}
