// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"

	"boxdyno/host"
	"boxdyno/subject"
	"boxdyno/tune"
)

// While a subject listens to a port of a card, that is set up as behind a mirror port:
//
//	card | filter of MAC addresses: promiscuous, for test frames have nobody's
//	     | merging (GRO, LRO): off where the subject counts frames of TCP
//	     | packet socket of the subject
//
// The kernel ends the first with this process, tune's journal the second.

// An unmerged subject counts frames that a port may merge.
type unmerged interface{ Unmerged() bool }

// apart is what keeps frames of TCP apart, in the kernel and in the card.
var apart = tune.Recipe{Name: "frames", Steps: []tune.Step{
	{Knob: "gro", Target: tune.ForPorts, Value: "off"},
	{Knob: "gro-hw", Target: tune.ForPorts, Value: "off"},
	{Knob: "lro", Target: tune.ForPorts, Value: "off"},
}}

// apartFor says whether a subject's frames are kept apart.
func apartFor(sub subject.Subject) bool {
	u, ok := sub.(unmerged)
	return ok && u.Unmerged()
}

// listenOn prepares a port of h for software, until the function that it returns is called.
// It needs CAP_NET_RAW, and where frames are kept apart what tune needs.
func listenOn(ctx context.Context, h *host.Local, port string, unmerged bool) (release func() error, err error) {
	p := host.Port{Host: Label, Netns: h.Netns, Name: port}
	lower, err := p.Promiscuous()
	if err != nil {
		return nil, err
	}
	// A virtual cable has its receive ring by GRO: XDP could not send to it without.
	if !unmerged || p.Cable() {
		return lower, nil
	}
	// What the port does not have is a problem of its setting, and merges nothing.
	applied, _, err := tune.New().Apply(ctx, apart, tune.On{Host: h, Ports: []string{port}}, tune.Options{By: "subject"})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("keep %s from merging frames: %w", port, err), lower())
	}
	return func() error {
		_, err := applied.Revert(context.Background(), tune.Revert{})
		return errors.Join(err, lower())
	}, nil
}
