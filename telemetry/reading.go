// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"context"
	"fmt"
	"strings"

	"boxdyno/result"
)

// reading is a power that somebody read off a meter and typed in. It was read in one
// state of the box at one moment, so its series is a constant with a name of its own:
// no power under load, and no joules, come from it.
type reading struct {
	held
	watts float64
}

// newReading needs nothing of the machine.
func newReading(_ context.Context, m *Machine) (Collector, error) {
	if strings.TrimSpace(m.Ask.Reading) == "" {
		return nil, ErrAbsent
	}
	watts, state, err := parseReading(m.Ask.Reading)
	if err != nil {
		return nil, err
	}
	labels := meterLabels("manual", "", "")
	if state != "" {
		labels = append(labels, result.Pair{Key: "state", Value: state})
	}
	return &reading{watts: watts, held: held{series: []result.Series{{Name: "boxdyno_power_reading_watts", Labels: labels, Unit: "W", Help: "power that a person read off a meter and typed in: a constant, in no joules"}}}}, nil
}

// parseReading reads "5.2W", or "5.2W idle": what follows the power says in which
// state the box was.
func parseReading(text string) (watts float64, state string, err error) {
	power, state, _ := strings.Cut(strings.TrimSpace(text), " ")
	if rest := strings.Fields(state); len(rest) > 0 {
		if _, ok := ParseWatts(power + rest[0]); ok { // "5.2 W idle"
			power, state = power+rest[0], strings.Join(rest[1:], " ")
		}
	}
	watts, ok := ParseWatts(power)
	if !ok {
		return 0, "", fmt.Errorf("power %q: want a number of watts and, if you like, the state, such as 5.2W or \"5.2W idle\"", strings.TrimSpace(text))
	}
	return watts, strings.TrimSpace(state), nil
}

func (r *reading) Read(dst []float64) error { dst[0] = r.watts; return nil }
