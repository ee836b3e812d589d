// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"slices"
	"testing"

	"boxdyno/engine"
	"boxdyno/engine/crew"
	"boxdyno/frame"
	"boxdyno/host"
	"boxdyno/internal/testutil"
	"boxdyno/ledger"
	"boxdyno/result"
	"boxdyno/unit"
)

// Where ports have several queues, two CPUs send through a box at the same time. The
// receiver has all frames of both, the account balances, and the record names both CPUs.
func TestSendersThroughABox(t *testing.T) {
	testutil.Alone(t)
	for _, c := range []struct {
		name  string
		build func(*testing.T, bench) Topology
	}{
		{"wire2", func(t *testing.T, b bench) Topology {
			b.box.sh(t, router)
			return b.wire()
		}},
		{"pair", func(t *testing.T, b bench) Topology { return b.managed(t) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			tb := built(t, c.build(t, newBenchOf(t, 2)))
			if _, serves := tb.Means.(Server); serves {
				if err := tb.Serve(t.Context(), Service{Kind: "route"}); err != nil {
					t.Fatal(err)
				}
			}
			cpus := tb.SenderCPUs(2)
			if len(cpus) != 2 || cpus[0] == cpus[1] || tb.Narrow != "" || result.Get(tb.Settings, "sender_cpus") != CPUList(append([]int{tb.TesterCPU}, tb.Senders...)) {
				if all, err := host.AllowedCPUs(); err == nil && len(all) == 1 {
					t.Skip("this machine has one CPU")
				}
				t.Fatalf("CPUs %v send: %q, %v", cpus, tb.Narrow, tb.Settings)
			}
			a, each := together(t, tb, cpus, 4000)
			if a.Accepted != 4000 || a.Received != 4000 || a.Unexplained != 0 || len(a.Drops) != 0 || !slices.Equal(each, []uint64{2000, 2000}) {
				t.Errorf("engine %s: %v frames of each sender: %+v", tb.Engine.Name(), each, a)
			}
		})
	}
}

// together sends count frames of four flows from the first port by senders on cpus, and
// returns the account and how many frames of each sender arrived.
func together(t *testing.T, tb *Testbed, cpus []int, count uint64) (_ result.Account, each []uint64) {
	t.Helper()
	ctx := t.Context()
	from, to := tb.Ports[0], tb.Ports[1]
	load := engine.Load{Rate: 20_000, Count: count}
	stream := engine.Stream{ID: 1, Frames: frame.Spec{Sizes: []unit.FrameSize{64}, Flows: 4, SrcMAC: from.MAC, DstMAC: from.GatewayMAC, Src: from.Addr4, Dst: to.Addr4, SrcPort: frame.FirstPort, DstPort: frame.Port}}
	shares, err := crew.Split(load, []engine.Stream{stream}, len(cpus))
	if err != nil {
		t.Fatal(err)
	}
	var numbers []uint16
	for _, s := range shares {
		numbers = append(numbers, s.Streams[0].ID)
	}
	m, err := tb.Engine.OpenMeter(ctx, to.Port)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if err := m.Arm(ctx, false, numbers...); err != nil {
		t.Fatal(err)
	}
	tx, err := crew.Open(ctx, tb.Engine, []host.Port{from.Port}, cpus)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Close()
	book, err := ledger.Open([]ledger.Path{tb.Path(0, 1, false)}, tb.Sources...)
	if err != nil {
		t.Fatal(err)
	}
	defer book.Close()
	if err := book.Begin(ctx); err != nil {
		t.Fatal(err)
	}
	sent, err := tx.Transmit(ctx, load, stream)
	if err != nil {
		t.Fatal(err)
	}
	a, err := book.Balance(ctx, func(ctx context.Context) (e ledger.Ends, err error) {
		rep, err := m.Read(ctx)
		if err != nil {
			return e, err
		}
		each = nil
		for _, s := range rep.Streams {
			e.Received += s.Frames
			each = append(each, s.Frames)
		}
		e.Accepted = sent[0].Accepted
		return e, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return a, each
}
