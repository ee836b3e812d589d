// SPDX-License-Identifier: Apache-2.0

// Command sensors plays an I2C adapter with a thermometer (LM75) and a power meter
// (INA219) to this board's kernel, over USB/IP, moves what they measure while boxdyno
// watches, and looks whether boxdyno saw every step. It runs on an emulated board.
//
//	plug in -> the kernel's own drivers -> boxdyno watch --json
//	              registers: step, step, step   \-> each value seen, in this order?
//
// It prints a line for each check: "ok" or "FAILED".
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"boxdyno/host"
	"boxdyno/result"
)

const (
	thermometer = 0x48
	meter       = 0x40
	patience    = 90 * time.Second // for what a slow board does in a few
)

// steps are what the chips measure one after the other.
var steps = []struct{ celsius, volts, amperes float64 }{
	{21.5, 5.0, 0.4}, {48, 5.1, 1.2}, {83.5, 4.8, 2.5}, {-4, 5.0, 0.1},
}

func main() {
	if (&host.Local{}).Identify().Kind != "emulated" {
		fmt.Fprintln(os.Stderr, "sensors: this plugs a device into the kernel, and is for emulated boards alone: run script/boards --test")
		os.Exit(2)
	}
	if err := run(); err != nil {
		fmt.Println("FAILED", err)
		os.Exit(1)
	}
}

func run() error {
	heat, power := newLM75(), newINA219()
	b := &bus{chips: map[uint16]*chip{thermometer: heat, meter: power}}
	set := func(i int) {
		b.move(func() { heat.celsius(steps[i].celsius); power.load(steps[i].volts, steps[i].amperes) })
	}
	set(0)
	if err := (&adapter{bus: b}).plug(); err != nil {
		return err
	}
	i2c, err := appears("/sys/bus/i2c/devices/i2c-*/name", "i2c-tiny-usb")
	if err != nil {
		return err
	}
	fmt.Println("ok the kernel's i2c-tiny-usb has the adapter")
	for _, device := range []string{fmt.Sprintf("lm75 %#x", thermometer), fmt.Sprintf("ina219 %#x", meter)} {
		if err := os.WriteFile(filepath.Join(i2c, "new_device"), []byte(device), 0); err != nil {
			return fmt.Errorf("tell the kernel of %s: %w", device, err)
		}
	}
	for _, d := range []struct{ pattern, name string }{{"/sys/class/hwmon/hwmon*/name", "lm75"}, {"/sys/bus/iio/devices/iio:device*/name", "ina219"}} {
		if _, err := appears(d.pattern, d.name); err != nil {
			return err
		}
		fmt.Println("ok the kernel's driver has", d.name)
	}
	return watch(set)
}

// appears waits for a device of a name, and returns its folder.
func appears(pattern, name string) (string, error) {
	for begin := time.Now(); time.Since(begin) < patience; time.Sleep(50 * time.Millisecond) {
		files, err := filepath.Glob(pattern)
		if err != nil {
			return "", err
		}
		for _, f := range files {
			if text, err := os.ReadFile(f); err == nil && strings.HasPrefix(string(text), name) {
				return filepath.Dir(f), nil
			}
		}
	}
	return "", fmt.Errorf("no %s says %q within %v: see the kernel's messages", pattern, name, patience)
}

// watch goes to the next step when boxdyno has seen the one before, so that the board
// may be as slow as it likes.
func watch(set func(int)) (err error) {
	cmd := exec.Command("boxdyno", "watch", "--json", "--rate", "2", "--collectors", "hwmon,iio")
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	late := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	var s seen
	at := 0
	lines := bufio.NewScanner(out)
	for lines.Scan() && at < len(steps) {
		if err := s.line(lines.Bytes()); err != nil {
			return errors.Join(err, cmd.Process.Kill(), cmd.Wait())
		}
		want := steps[at]
		if !near(s.celsius, want.celsius, 0.01) || !near(s.watts, want.volts*want.amperes, 0.05) {
			continue
		}
		fmt.Printf("ok boxdyno watch sees %.1f °C and %.2f W, asked are %.1f °C and %.2f W\n", s.celsius, s.watts, want.celsius, want.volts*want.amperes)
		if at++; at < len(steps) {
			set(at)
			continue
		}
		if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
			return err
		}
	}
	werr := cmd.Wait()
	if at < len(steps) {
		return fmt.Errorf("boxdyno watch saw %.2f °C and %.3f W where step %d is %+v: %w %s", s.celsius, s.watts, at, steps[at], werr, errs.String())
	}
	if werr != nil {
		return fmt.Errorf("boxdyno watch, which was interrupted, must end with 0: %w %s", werr, errs.String())
	}
	fmt.Println("ok boxdyno watch ends with exit code 0 at an interrupt")
	return nil
}

func near(got, want, by float64) bool { return math.Abs(got-want) <= by }

// seen is what boxdyno said last.
type seen struct {
	series         []result.Series
	celsius, watts float64
}

func (s *seen) line(text []byte) error {
	var l struct {
		Series []result.Series `json:"series"` // a head's, which stands for all heads before
		First  int             `json:"first"`
		Values []*float64      `json:"values"`
	}
	if err := json.Unmarshal(text, &l); err != nil {
		return fmt.Errorf("boxdyno watch --json says %q: %w", text, err)
	}
	if l.Series != nil {
		s.series = l.Series
	}
	for i, v := range l.Values {
		if l.First+i >= len(s.series) {
			return fmt.Errorf("boxdyno watch --json has a value of a series that it has not told: %q", text)
		}
		if v == nil {
			continue
		}
		switch one := s.series[l.First+i]; {
		case one.Name == "node_hwmon_temp_celsius" && result.Get(one.Labels, "chip_name") == "lm75" && result.Get(one.Labels, "sensor") == "temp1":
			s.celsius = *v
		case one.Name == "boxdyno_power_watts" && strings.HasPrefix(result.Get(one.Labels, "meter"), "ina219"):
			s.watts = *v
		}
	}
	return nil
}
