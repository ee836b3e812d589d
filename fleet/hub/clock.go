// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"boxdyno/host"
	"boxdyno/internal/files"
)

// A steady is the clock by which orders expire, and with which their counters grow. It
// begins at the machine's wall clock, and never steps: not when that is set, not when the
// hub or its machine is started anew. Commands of the same machine have the same one.
type steady struct {
	Boot  string `json:"boot"`  // boot_id of the machine's start that Ahead is for
	Ahead int64  `json:"ahead"` // of CLOCK_BOOTTIME, ns
	Until int64  `json:"until"` // no hub has said a later instant
}

const (
	clockFile = "clock.json"
	// reserve is how long a hub's clock may run until the file says so anew.
	reserve = time.Hour
)

// sinceBoot is CLOCK_BOOTTIME, which counts on while the machine sleeps.
func sinceBoot() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic("clock_gettime(CLOCK_BOOTTIME): " + err.Error()) // no Linux lacks it
	}
	return ts.Nano()
}

// now is ns since 1970, by this clock.
func (s steady) now() int64 { return sinceBoot() + s.Ahead }

// clock reads the hub's clock.
func (k keys) clock() (s steady, err error) {
	data, err := files.Read(filepath.Join(k.folder, clockFile), 4<<10)
	if errors.Is(err, fs.ErrNotExist) {
		return s, &host.Missing{What: "the clock of a hub in " + k.folder, Hint: "start the hub anew: boxdyno fleet hub"}
	}
	if err == nil {
		err = json.Unmarshal(data, &s)
	}
	if err != nil {
		return s, fmt.Errorf("read the hub's clock: %w; remove %s", err, filepath.Join(k.folder, clockFile))
	}
	return s, nil
}

// startClock is the clock of a hub that starts, on a machine with that wall clock and boot_id.
func (k keys) startClock(wall time.Time, boot string) (s steady, err error) {
	if s, err = k.clock(); err != nil && !errors.As(err, new(*host.Missing)) {
		return s, err
	}
	if s.Boot != boot || boot == "" {
		s.Boot, s.Ahead = boot, max(wall.UnixNano(), s.Until)-sinceBoot()
	}
	return k.reserve(s)
}

// reserve writes how far the clock may run.
func (k keys) reserve(s steady) (steady, error) {
	s.Until = s.now() + int64(reserve)
	data, err := json.Marshal(s)
	if err == nil {
		err = k.keep(clockFile, data)
	}
	if err != nil {
		return s, fmt.Errorf("keep the hub's clock: %w", err)
	}
	return s, nil
}
