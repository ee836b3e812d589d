// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"fmt"
	"testing"
	"time"

	"boxdyno/engine"
	"boxdyno/procedure"
	"boxdyno/procedure/internal/roomtest"
)

// In the sandbox a bucket lets a burst of its size through, and of longer ones no
// more than its rate brings meanwhile, whatever else a busy machine loses.
func TestSandboxTokenBucket(t *testing.T) {
	const rate = 50e3
	for _, burst := range []uint64{200, 2000} {
		t.Run(fmt.Sprint(burst), func(t *testing.T) {
			b := roomtest.NewBench(t, "sandbox", map[string]string{"dut.policer": fmt.Sprint(int(rate)), "dut.policer_burst": fmt.Sprint(burst)})
			p := NewSuite()
			r, err := p.Open(t.Context(), &procedure.Env{Bed: b.Bed}, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			for _, count := range []uint64{burst, 5 * burst} {
				time.Sleep(time.Duration(float64(burst) / rate * 1.1e9)) // it is full again
				o, err := r.trial(t.Context(), engine.Load{Count: count}, false)
				if err != nil {
					t.Fatal(err)
				}
				a, policed := o.Account, int64(0)
				for _, d := range a.Drops {
					if d.Name == "policer" {
						policed += d.N
					}
				}
				took := time.Duration(o.Phases[1].End - o.Phases[0].Begin).Seconds()
				most := int64(float64(burst) + rate*took + 1)
				switch {
				case a.Unexplained != 0:
					t.Errorf("%d frames: %+v", count, a)
				case count == burst && policed != 0:
					t.Errorf("of %d frames, as many as the bucket holds, the policer dropped %d", count, policed)
				case count > burst && (a.Received > most || policed == 0 && a.Lost() == 0):
					t.Errorf("of %d frames %d came through, and the bucket has at most %d in %v s; the policer dropped %d", count, a.Received, most, took, policed)
				}
			}
		})
	}
}
