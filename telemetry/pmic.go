// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"boxdyno/result"
	"boxdyno/unit"
)

// A Rail is one output of a power management IC, NaN where it is not measured:
// EXT5V and BATT have no current.
type Rail struct {
	Name           string
	Volts, Amperes float64
}

// ParseRails reads what a Raspberry Pi 5's firmware prints for pmic_read_adc:
// "VDD_CORE_A current(7)=0.75012000A" and "VDD_CORE_V volt(15)=0.89745940V", in
// whichever order, their numbers without a meaning.
func ParseRails(s string) ([]Rail, error) {
	var rails []Rail
	for line := range strings.Lines(s) {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		i := strings.LastIndexByte(fields[0], '_')
		if len(fields) != 2 || i <= 0 {
			return nil, fmt.Errorf("pmic_read_adc: %q is not a rail and its value", strings.TrimSpace(line))
		}
		name, kind := fields[0][:i], fields[0][i+1:]
		_, value, _ := strings.Cut(fields[1], "=")
		v, err := strconv.ParseFloat(strings.TrimSuffix(value, kind), 64)
		if err != nil || kind != "A" && kind != "V" {
			return nil, fmt.Errorf("pmic_read_adc: %q is not a current in A or a voltage in V", strings.TrimSpace(line))
		}
		at := -1
		for j := range rails {
			if rails[j].Name == name {
				at = j
			}
		}
		if at < 0 {
			at, rails = len(rails), append(rails, Rail{Name: name, Volts: math.NaN(), Amperes: math.NaN()})
		}
		if kind == "A" {
			rails[at].Amperes = v
		} else {
			rails[at].Volts = v
		}
	}
	if len(rails) == 0 {
		return nil, errors.New("pmic_read_adc: the firmware names no rails")
	}
	return rails, nil
}

// RailsPower is the sum over the rails that have voltage and current, and how many
// those are. It is less than the board takes: the regulators' own losses, USB and
// what hangs on 5 V directly are not measured.
func RailsPower(rails []Rail) (watts float64, n int) {
	for _, r := range rails {
		if w := r.Volts * r.Amperes; !math.IsNaN(w) {
			watts += w
			n++
		}
	}
	return watts, n
}

// pmic is a Raspberry Pi 5's rails.
type pmic struct {
	held
	poll *poll
}

const pmicEvery = time.Second

func newPMIC(ctx context.Context, m *Machine) (Collector, error) {
	box, err := openMailbox(m)
	if err != nil {
		return nil, err
	}
	return startPMIC(ctx, box)
}

func startPMIC(ctx context.Context, box mailbox) (Collector, error) {
	rails, err := readRails(box)
	if err != nil {
		if errors.Is(err, errFirmware) { // a board without such a PMIC
			err = ErrAbsent
		}
		return nil, errors.Join(err, box.Close())
	}
	c := &pmic{}
	_, n := RailsPower(rails)
	if n > 0 {
		c.series = append(c.series, result.Series{Name: "boxdyno_power_watts", Unit: "W", Labels: meterLabels("PMIC rails", coversRails, ""),
			Help: fmt.Sprintf("power of the %d rails that the PMIC measures; less than the board takes: losses, USB and 5 V are not in it", n)})
	}
	for _, r := range rails {
		label := []result.Pair{{Key: "rail", Value: r.Name}}
		if !math.IsNaN(r.Volts) {
			c.series = append(c.series, result.Series{Name: "boxdyno_pmic_volts", Labels: label, Unit: "V", Help: "voltage of a rail; EXT5V is the supply's"})
		}
		if !math.IsNaN(r.Amperes) {
			c.series = append(c.series, result.Series{Name: "boxdyno_pmic_amperes", Labels: label, Unit: "A", Help: "current of a rail"})
		}
	}
	c.poll = startPoll(ctx, "PMIC", len(c.series), pmicEvery, sensorStale, func(_ context.Context, dst []float64) error {
		now, err := readRails(box)
		if err != nil {
			return err
		}
		fill(dst, math.NaN())
		for i, s := range c.series {
			if s.Unit == "W" {
				if w, k := RailsPower(now); k == n { // a sum with a rail less would look like a saving
					dst[i] = w
				}
				continue
			}
			for _, r := range now {
				switch {
				case r.Name != s.Labels[0].Value:
				case s.Unit == "V":
					dst[i] = r.Volts
				default:
					dst[i] = r.Amperes
				}
			}
		}
		return nil
	})
	c.closers = []io.Closer{c.poll, box}
	return c, nil
}

func readRails(box mailbox) ([]Rail, error) {
	s, err := command(box, "pmic_read_adc")
	if err != nil {
		return nil, err
	}
	return ParseRails(s)
}

func (c *pmic) Read(dst []float64) error { _, err := c.poll.read(dst); return err }

func (c *pmic) Measured(int) (unit.Instant, time.Duration) { return c.poll.measured(), conversion }
