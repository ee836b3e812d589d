// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"boxdyno/engine"
	"boxdyno/unit"
)

// A replayRate is when frames leave. It is a flag.Value.
type replayRate struct {
	text     string
	speed    float64        // times the capture's own; 0: not by its times
	frames   unit.FrameRate // 0: none given
	bits     unit.BitRate   // layer 2, with FCS; 0: none given
	searched bool           // the highest without loss; all four zero: flat out
}

// Values of a replayRate beside numbers.
const (
	ownTimes   = "capture"
	flatOut    = "flat-out"
	searchRate = "search"
)

// String implements flag.Value.
func (r *replayRate) String() string { return r.text }

// Set implements flag.Value.
func (r *replayRate) Set(s string) (err error) {
	n := replayRate{text: s}
	switch times, multiplied := strings.CutPrefix(s, "x"); {
	case s == ownTimes:
		n.speed = 1
	case s == flatOut:
	case s == searchRate:
		n.searched = true
	case multiplied:
		if n.speed, err = strconv.ParseFloat(times, 64); err != nil || !(n.speed >= 1e-3 && n.speed <= 1e6) {
			err = fmt.Errorf("%q is no multiplier from x0.001 to x1000000", s)
		}
	case strings.HasSuffix(s, "bps"), strings.HasSuffix(s, "bit/s"):
		n.bits, err = unit.ParseBitRate(s)
	default:
		n.frames, err = unit.ParseFrameRate(s)
	}
	if err == nil {
		*r = n
	}
	return err
}

// load is so many passes at the rate.
func (r replayRate) load(passes uint64) engine.Load {
	return engine.Load{Speed: r.speed, Rate: r.frames, Bits: r.bits, Passes: passes}
}

// pass is how long one pass takes at the rate, about; 0: nobody knows beforehand.
func (f *facts) pass(r replayRate) time.Duration {
	switch {
	case r.speed > 0:
		return time.Duration(float64(f.span) / r.speed)
	case r.frames > 0:
		return time.Duration(float64(f.frames) / float64(r.frames) * 1e9)
	case r.bits > 0:
		return time.Duration(float64(f.octets) * 8 / float64(r.bits) * 1e9)
	}
	return 0
}

// intended is the mean rate of passes at r; 0: flat out.
func (f *facts) intended(r replayRate, passes uint64) unit.FrameRate {
	n := float64(f.frames * passes)
	switch {
	case r.speed > 0 && f.span > 0 && n > 1:
		return unit.FrameRate((n - 1) / (float64(f.span) * float64(passes) / r.speed / 1e9))
	case r.bits > 0:
		return unit.FrameRate(float64(r.bits) / 8 / f.mean())
	}
	return r.frames
}
