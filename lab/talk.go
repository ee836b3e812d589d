// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"boxdyno/host"
	"boxdyno/tune"
)

// talks lets this machine's kernel at a port, with the port's IPv4 address from a journal,
// until leave. Frames of its own are then on the cable, too.
func (w *wired) talks(ctx context.Context, e *wiredEnd) (leave func() error, err error) {
	i := 0
	for w.ends[i] != e {
		i++
	}
	r := tune.Recipe{Name: "sockets", Steps: []tune.Step{{Knob: tune.AddressPrefix + theirs(e.address4, sides[i].net4).String(), Target: tune.ForPorts, Value: "present"}}}
	applied, settings, err := tune.New().Apply(ctx, r, tune.On{Host: &host.Local{Netns: w.netns}, Ports: []string{e.nic.Name}}, tune.Options{By: "run"})
	if err != nil {
		return nil, err
	}
	shielded := len(e.nic.shield) > 0
	leave = sync.OnceValue(func() error {
		var err error
		if shielded {
			_, err = e.nic.setShield()
		}
		_, rerr := applied.Revert(context.Background(), tune.Revert{})
		return errors.Join(err, rerr)
	})
	for _, l := range e.nic.shield {
		err = errors.Join(err, l.Close())
	}
	e.nic.shield = nil
	if p := settings[0].Problem; p != "" {
		err = errors.Join(err, errors.New(p))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("use port %s by sockets: %w", e.nic.Name, err), leave())
	}
	return leave, nil
}
