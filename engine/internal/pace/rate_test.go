// SPDX-License-Identifier: Apache-2.0

package pace

import (
	"testing"
	"time"

	"boxdyno/engine"
	"boxdyno/unit"
)

func TestOffered(t *testing.T) {
	second := unit.Instant(time.Second)
	for _, c := range []struct {
		l             engine.Load
		r             engine.TxReport
		offered, peak unit.FrameRate
	}{
		{engine.Load{Rate: 100, Duration: time.Second}, engine.TxReport{Accepted: 50, Last: second / 2}, 50, 50}, // it stood still at the end
		{engine.Load{Rate: 100, Duration: time.Second}, engine.TxReport{Accepted: 100, Last: 2 * second}, 50, 50},
		{engine.Load{Rate: 100, Duration: time.Second}, engine.TxReport{Accepted: 100, Late: 1, Last: second}, 100, 112.5},
		{engine.Load{Rate: 100, Duration: time.Second, Late: engine.Shift}, engine.TxReport{Accepted: 90, Late: 1, Last: second}, 90, 90},
		{engine.Load{Bits: 1e3, Duration: time.Second}, engine.TxReport{Accepted: 80, Late: 1, Last: second / 2}, 80, 90},
		{engine.Load{Bits: 1e3, Duration: time.Second, Count: 80}, engine.TxReport{Accepted: 81, Last: second / 2}, 160, 160},
		{engine.Load{Speed: 2, Passes: 3, Duration: time.Second}, engine.TxReport{Accepted: 81, Passes: 3, Last: second / 2}, 160, 160},
		{engine.Load{Speed: 2, Passes: 3, Duration: time.Second}, engine.TxReport{Accepted: 81, Passes: 2, Last: second / 2}, 81, 81},
		{engine.Load{Duration: time.Second}, engine.TxReport{Accepted: 81, Late: 3, Last: second / 2}, 160, 160},
		{engine.Load{Rate: 100, Count: 81}, engine.TxReport{Accepted: 81, Last: second / 2}, 160, 160},
	} {
		if got := Offered(c.l, c.r); got != c.offered {
			t.Errorf("%+v %+v: offered %v, want %v", c.l, c.r, float64(got), float64(c.offered))
		}
		c.r.Offered = c.offered
		if got := Peak(c.l, c.r); got != c.peak {
			t.Errorf("%+v %+v: peak %v, want %v", c.l, c.r, float64(got), float64(c.peak))
		}
	}
}
