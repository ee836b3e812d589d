// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"context"
	"net/netip"

	"boxdyno/host"
	"boxdyno/lab"
)

// Talk lets sockets of this machine use the testbed's first port with its IPv4 address,
// until leave.
func Talk(ctx context.Context, bed *lab.Testbed) (leave func() error, err error) {
	if t, ok := bed.Means.(lab.Talker); ok {
		return t.Talk(ctx)
	}
	if err := host.Has("ip"); err != nil {
		return nil, err
	}
	p := bed.Ports[0]
	local := &host.Local{Label: "tester", Netns: p.Netns}
	change := func(ctx context.Context, what string) error {
		_, err := local.Run(ctx, "", "ip", "addr", what, netip.PrefixFrom(p.Addr4, 16).String(), "dev", p.Name)
		return err
	}
	if err := change(ctx, "add"); err != nil {
		return nil, err
	}
	return func() error { return change(context.Background(), "del") }, nil
}
