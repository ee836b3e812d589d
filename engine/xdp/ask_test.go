// SPDX-License-Identifier: Apache-2.0

package xdp

import (
	"context"
	"errors"
	"testing"

	"boxdyno/engine"
	"boxdyno/engine/internal/enginetest"
	"boxdyno/engine/packet"
	"boxdyno/host"
	"boxdyno/internal/netns"
	"boxdyno/internal/testutil"
)

// Whether xdp sends from a port is found out without a frame.
func TestAskTransmit(t *testing.T) {
	testutil.Alone(t)
	a, b := enginetest.Pair(t)
	ctx := context.Background()
	x := New().(engine.Asker)
	m, err := packet.New().OpenMeter(ctx, b)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	err = netns.Do(a.Netns, func() error {
		_, err := redirectTarget(a.Name)
		return err
	})
	if errors.Is(err, host.ErrNotSupported) {
		t.Skipf("needs Linux 6.3: %v", err)
	}
	if frames, err := x.AskTransmit(ctx, a); frames != 0 || !errors.Is(err, host.ErrNotSupported) {
		t.Errorf("the peer has no XDP program: %d frames, %v, want none and not supported", frames, err)
	}
	if frames, err := x.AskTransmit(ctx, host.Port{Netns: a.Netns, Name: "lo"}); frames != 0 || !errors.Is(err, host.ErrNotSupported) {
		t.Errorf("lo: %d frames, %v, want none and not supported", frames, err)
	}
	if _, err := x.AskTransmit(ctx, host.Port{Netns: a.Netns, Name: "none"}); err == nil || errors.Is(err, host.ErrNotSupported) {
		t.Errorf("a port that is not there: %v", err)
	}
	meter, err := New().OpenMeter(ctx, b)
	if err != nil {
		t.Fatal(err)
	}
	defer meter.Close()
	before := enginetest.Stats(t, a).TxPackets
	if frames, err := x.AskTransmit(ctx, a); frames != 0 || err != nil {
		t.Errorf("the peer has an XDP program: %d frames, %v", frames, err)
	}
	if n := enginetest.Stats(t, a).TxPackets - before; n != 0 {
		t.Errorf("%d frames left the port", n)
	}
}
