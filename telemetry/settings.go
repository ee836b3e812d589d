// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"strings"

	"boxdyno/host"
	"boxdyno/result"
)

// Settings are those of this machine that are measured or asked for: the clock of cpus, and
// the flags of a throttled Raspberry Pi. What cannot be known is left out.
func Settings(cpus ...int) (env []result.Pair) {
	if hz, err := host.Clock(0, cpus...); err == nil && len(hz) > 0 {
		env = append(env, result.Pair{Key: "clock measured", Value: host.Clocks(hz)})
	}
	if bits, err := Throttled(&Machine{}); err == nil {
		words := ThrottleWords(bits)
		if len(words) == 0 {
			words = []string{"none"}
		}
		env = append(env, result.Pair{Key: "throttle flags", Value: strings.Join(words, ", ")})
	}
	return env
}
