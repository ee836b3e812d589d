// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"strconv"
	"strings"

	"boxdyno/result"
)

// ThrottleBits is what a Raspberry Pi's firmware says of its clock and supply
// (vcgencmd get_throttled). The upper ones stay set until the next boot.
var ThrottleBits = []struct {
	Bit  uint
	Word string
}{
	{0, "under-voltage now"},
	{1, "frequency capped now"},
	{2, "throttled now"},
	{3, "soft temperature limit now"},
	{16, "under-voltage has occurred"},
	{17, "frequency capping has occurred"},
	{18, "throttling has occurred"},
	{19, "soft temperature limit has occurred"},
}

// ThrottleWords says bits in words, one for each that is set: nil for 0. Bits that
// are not documented are named by their number.
func ThrottleWords(bits uint32) (words []string) {
	for _, b := range ThrottleBits {
		if bits&(1<<b.Bit) != 0 {
			words = append(words, b.Word)
			bits &^= 1 << b.Bit
		}
	}
	for i := range 32 {
		if bits&(1<<i) != 0 {
			words = append(words, fmt.Sprintf("unknown bit %d", i))
		}
	}
	return words
}

// ParseThrottled reads "throttled=0x50005" (vcgencmd) and "50005" (sysfs).
func ParseThrottled(s string) (uint32, error) {
	digits := strings.TrimPrefix(strings.TrimPrefix(strings.TrimSpace(s), "throttled="), "0x")
	bits, err := strconv.ParseUint(digits, 16, 32)
	if err != nil {
		return 0, fmt.Errorf("throttle flags %q: want hexadecimal digits", s)
	}
	return uint32(bits), nil
}

// Throttled asks once for ThrottleBits. ErrAbsent: this is no Raspberry Pi, or
// nothing here knows; *host.Missing: it needs a privilege.
func Throttled(m *Machine) (uint32, error) {
	source, err := openThrottle(m)
	if err != nil {
		return 0, err
	}
	bits, err := source.ask()
	return bits, errors.Join(err, source.Close())
}

// A throttle is where the flags are read: a kernel's file, or the firmware.
type throttle struct {
	file *file
	box  mailbox
	tag  bool // the firmware has no command get_throttled
}

// openThrottle prefers the firmware. Its command keeps the bits of what has
// occurred until the next boot; of the property tag the kernel's driver rpi_volt
// clears them every 2 s (drivers/hwmon/raspberrypi-hwmon.c).
func openThrottle(m *Machine) (*throttle, error) {
	box, err := openMailbox(m)
	if err == nil {
		return &throttle{box: box}, nil
	}
	root := m.root()
	for _, pattern := range []string{"sys/devices/platform/*/*firmware*/get_throttled", "sys/devices/platform/*firmware*/get_throttled"} {
		names, _ := fs.Glob(root, pattern) // the patterns are good
		for _, name := range names {
			f, err := open(root, name)
			if err == nil {
				return &throttle{file: f}, nil
			}
		}
	}
	return nil, err
}

func (t *throttle) ask() (uint32, error) {
	if t.file != nil {
		data, err := t.file.read()
		if err != nil {
			return 0, err
		}
		return ParseThrottled(string(data))
	}
	if !t.tag {
		s, err := command(t.box, "get_throttled")
		if err == nil {
			return ParseThrottled(s)
		}
		if !errors.Is(err, errFirmware) {
			return 0, err
		}
		t.tag = true
	}
	value, err := ask(t.box, tagThrottled, make([]byte, 4))
	if err != nil {
		return 0, fmt.Errorf("firmware property %#x: %w", uint32(tagThrottled), err)
	}
	return binary.NativeEndian.Uint32(value), nil
}

func (t *throttle) Close() error {
	if t.file != nil {
		return t.file.Close()
	}
	return t.box.Close()
}

// rpi is a Raspberry Pi's throttle flags and the clock that its firmware measures.
type rpi struct {
	held
	poll *poll
}

func newThrottle(ctx context.Context, m *Machine) (Collector, error) {
	source, err := openThrottle(m)
	if err != nil {
		return nil, err
	}
	return startThrottle(ctx, source)
}

func startThrottle(ctx context.Context, source *throttle) (Collector, error) {
	if _, err := source.ask(); err != nil {
		return nil, errors.Join(fmt.Errorf("throttle flags: %w", err), source.Close())
	}
	r := &rpi{}
	for _, b := range ThrottleBits {
		r.series = append(r.series, result.Series{Name: "boxdyno_rpi_throttled", Labels: []result.Pair{{Key: "flag", Value: b.Word}}, Unit: "1",
			Help: "1 where the Raspberry Pi's firmware sets the flag (get_throttled); what has occurred did so since the boot"})
	}
	clock := false
	if source.box != nil {
		if _, err := measuredClock(source.box); err == nil {
			clock = true
			r.series = append(r.series, result.Series{Name: "boxdyno_rpi_arm_clock_hertz", Unit: "Hz", Help: "clock of the ARM cores, measured by the firmware (measure_clock arm)"})
		}
	}
	r.poll = startPoll(ctx, "throttle flags", len(r.series), sensorEvery, sensorStale, func(_ context.Context, dst []float64) error {
		bits, err := source.ask()
		if err != nil {
			return err
		}
		for i, b := range ThrottleBits {
			dst[i] = float64(bits >> b.Bit & 1)
		}
		if clock {
			if dst[len(ThrottleBits)], err = measuredClock(source.box); err != nil {
				dst[len(ThrottleBits)] = math.NaN()
			}
		}
		return nil
	})
	r.closers = []io.Closer{r.poll, source}
	return r, nil
}

// measuredClock reads "frequency(48)=1500398464".
func measuredClock(box mailbox) (float64, error) {
	s, err := command(box, "measure_clock arm")
	if err != nil {
		return 0, err
	}
	_, digits, _ := strings.Cut(s, "=")
	hz, err := strconv.ParseFloat(strings.TrimSpace(digits), 64)
	if err != nil || hz <= 0 {
		return 0, fmt.Errorf("firmware command measure_clock arm: %q has no frequency", s)
	}
	return hz, nil
}

func (r *rpi) Read(dst []float64) error { _, err := r.poll.read(dst); return err }
