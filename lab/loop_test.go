// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"testing"

	"boxdyno/frame"
	"boxdyno/internal/testutil"
)

func TestLoop(t *testing.T) {
	testutil.Privileged(t)
	tb, err := (&loop{mtu: defaultMTU}).build()
	if err != nil {
		t.Fatal(err)
	}
	defer tb.Close()
	if _, serves := tb.Means.(Server); serves || len(tb.Ports) != 2 || len(tb.Loop) != 2 || tb.Ports[0] != tb.Loop[0] || tb.DUT != nil {
		t.Errorf("got %+v", tb)
	}
	for from := range 2 {
		w := way{from: from, to: 1 - from, srcPort: 10_000, dstPort: frame.Port}
		if got := burst(t, tb, w, 100, tb.TesterCPU); got != 100 {
			t.Errorf("%s: %d of 100 frames arrived", tb.Path(from, 1-from, true).Name, got)
		}
		if tb.Ports[from].GatewayMAC != tb.Ports[1-from].MAC || tb.Ports[from].Gateway4 != tb.Ports[1-from].Addr4 {
			t.Errorf("port %d is not wired to the other: %+v", from, tb.Ports[from])
		}
	}
}
