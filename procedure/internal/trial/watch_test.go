// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"slices"
	"testing"

	"boxdyno/lab"
	"boxdyno/procedure"
)

// Whoever watches the machines is told when traffic begins and when it is over.
func TestTrafficIsTold(t *testing.T) {
	for _, kind := range []string{"sandbox", "memory"} {
		var told []bool
		env := &procedure.Env{Bed: &lab.Testbed{Facts: lab.Facts{Kind: kind}}, Traffic: func(begins bool) { told = append(told, begins) }}
		w := WatchTraffic(env)
		if !slices.Equal(told, []bool{true}) {
			t.Errorf("%s: before the traffic it is told %v", kind, told)
		}
		w.Stop()
		if !slices.Equal(told, []bool{true, false}) {
			t.Errorf("%s: it is told %v", kind, told)
		}
	}
}
