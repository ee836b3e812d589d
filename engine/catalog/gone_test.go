// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"boxdyno/engine"
	"boxdyno/engine/afxdp"
	"boxdyno/engine/internal/enginetest"
	"boxdyno/engine/packet"
	"boxdyno/engine/xdp"
	"boxdyno/host"
	"boxdyno/internal/netns"
	"boxdyno/internal/testutil"

	"github.com/vishvananda/netlink"
)

func remove(t testing.TB, p host.Port) {
	t.Helper()
	if err := netns.Do(p.Netns, func() error {
		l, err := netlink.LinkByName(p.Name)
		if err != nil {
			return err
		}
		return netlink.LinkDel(l)
	}); err != nil {
		t.Fatal(err)
	}
}

// A port that vanishes in the middle of a load: the sender does not wait for the
// load's end to say so, and its reports come along. The meters at the other end,
// which vanishes with it, say so too, and have what came until then.
func TestPortVanishes(t *testing.T) {
	for _, source := range []bool{false, true} {
		for _, b := range []engine.Backend{xdp.New(), xdp.NewGeneric(), afxdp.New(), packet.New()} {
			t.Run(b.Name(), func(t *testing.T) {
				testutil.NoLeaks(t)
				from, to := enginetest.Quiet(t)
				ctx := context.Background()
				m, err := b.OpenMeter(ctx, to)
				if err != nil {
					t.Fatal(err)
				}
				defer m.Close()
				enginetest.Arm(t, m, true, 1)
				tx, err := b.OpenTransmitter(ctx, []host.Port{from}, -1)
				if err != nil {
					t.Fatal(err)
				}
				defer tx.Close()
				s := engine.Stream{ID: 1, Frames: enginetest.Spec4(1, 64)}
				if source {
					s = engine.Stream{ID: 1, Source: enginetest.PlainSource(100, 0, 60)}
				}
				vanished := make(chan struct{})
				go func() {
					defer close(vanished)
					for {
						r, err := m.Read(ctx)
						if err != nil || len(r.Streams) == 1 && r.Streams[0].Frames+r.Foreign > 0 {
							break
						}
						time.Sleep(5 * time.Millisecond)
					}
					remove(t, from)
				}()
				begun := time.Now()
				reps, err := tx.Transmit(ctx, engine.Load{Rate: 10e3, Duration: time.Minute}, s)
				took := time.Since(begun)
				<-vanished
				if len(reps) != 1 || reps[0].Accepted == 0 || took > 30*time.Second {
					t.Fatalf("of a minute, with a port that vanished, it sent for %v: %+v", took, reps)
				}
				if !errors.Is(err, engine.ErrPortGone) || !strings.Contains(err.Error(), fmt.Sprintf("%d frames were accepted", reps[0].Accepted)) {
					t.Error(err)
				}
				t.Logf("after %v: %v", took, err)
				for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
					if r, err := m.Read(ctx); err != nil {
						t.Log(err)
						if !errors.Is(err, engine.ErrPortGone) || len(r.Streams) != 1 {
							t.Fatalf("%v; %+v", err, r)
						}
						const ring = 256 // whose frames vanish with it
						if n := r.Streams[0].Frames + r.Foreign; n == 0 || n > reps[0].Accepted || n+ring < reps[0].Accepted {
							t.Errorf("the meter has %d of %d frames", n, reps[0].Accepted)
						}
						break
					}
					if time.Now().After(deadline) {
						t.Fatal("the meter does not see that its port is gone")
					}
				}
			})
		}
	}
}

// A port that another XDP program works on: the XDP meters say what is in their
// way, and the packet meter does without.
func TestMeterBesideAnotherProgram(t *testing.T) {
	a, _ := enginetest.Quiet(t)
	ctx := context.Background()
	for _, first := range []engine.Backend{xdp.New(), xdp.NewGeneric()} {
		other, err := first.OpenMeter(ctx, a)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range []engine.Backend{xdp.New(), xdp.NewGeneric(), afxdp.New()} {
			m, err := b.OpenMeter(ctx, a)
			if err == nil {
				m.Close()
			}
			if err == nil || !strings.Contains(err.Error(), "another XDP program") {
				t.Errorf("%s: %v", b.Name(), err)
			}
		}
		m, err := packet.New().OpenMeter(ctx, a)
		if err != nil {
			t.Error(err)
		} else {
			m.Close()
		}
		if err := other.Close(); err != nil {
			t.Error(err)
		}
	}
}
