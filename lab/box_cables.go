// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"time"

	"boxdyno/agent"
	"boxdyno/host"
	"boxdyno/internal/cables"
	"boxdyno/link"
)

const (
	// linking is how long a port that was just set up may take for its link.
	linking = 6 * time.Second
	marks   = 5 // from each port: a port that has just come up may lose the first
	markGap = 100 * time.Millisecond
)

// FindCables finds which ports in the namespace netns ("": this one) are wired to which of
// the box behind c; Faults compare them with those that were known. With look nothing is sent or
// changed, and no cable is found. It needs CAP_NET_ADMIN and CAP_NET_RAW, here and there.
func (b Box) FindCables(ctx context.Context, c *link.Conn, netns string, look bool) (found cables.Found, err error) {
	if look {
		here, err := cables.Ports(netns)
		if err != nil {
			return found, err
		}
		there, err := agent.CablesOpen.Call(ctx, c, agent.CablesArgs{})
		return cables.Found{Cables: []cables.Cable{}, Here: here, There: there.Ports, Faults: []string{}}, err
	}
	if _, err := agent.Hold.Call(ctx, c, agent.HoldArgs{Boot: (&host.Local{}).Identify().BootID}); err != nil {
		return found, err
	}
	nonce := rand.Text()
	s, err := cables.Open(ctx, netns, nonce, cables.Tester)
	if err != nil {
		return found, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	there, err := agent.CablesOpen.Call(ctx, c, agent.CablesArgs{Nonce: nonce})
	if err != nil {
		return found, err
	}
	coming := func(p cables.Port) bool { return p.Down && p.Used == "" && !p.Carrier }
	var here []cables.Port
	for begin := time.Now(); ; {
		if here, err = s.Ports(); err == nil {
			there, err = agent.CablesSee.Call(ctx, c, agent.None{})
		}
		if err != nil {
			return found, err
		}
		if !slices.ContainsFunc(here, coming) && !slices.ContainsFunc(there.Ports, coming) || time.Since(begin) > linking {
			break
		}
		if err := host.Pause(ctx, markGap); err != nil {
			return found, err
		}
	}
	for range marks {
		err := s.Send()
		if err == nil {
			_, err = agent.CablesSend.Call(ctx, c, agent.None{})
		}
		if err == nil {
			err = host.Pause(ctx, markGap)
		}
		if err != nil {
			return found, err
		}
	}
	if there, err = agent.CablesSee.Call(ctx, c, agent.None{}); err != nil {
		return found, err
	}
	if here, err = s.Ports(); err != nil {
		return found, err
	}
	if _, err := agent.CablesClose.Call(ctx, c, agent.None{}); err != nil {
		return found, err
	}
	found = cables.Match(b.Name, here, there.Ports, s.Heard(), there.Heard)
	var known []cables.Cable
	for _, k := range b.Cables {
		here, there, _ := strings.Cut(k, "=")
		known = append(known, cables.Cable{Here: here, There: there})
	}
	found.Faults = append(cables.Changed(known, found.Cables), found.Faults...)
	slices.SortStableFunc(found.Cables, func(x, y cables.Cable) int { // known ones stay first, in their order
		at := func(c cables.Cable) int { return (slices.Index(known, c) + len(known) + 1) % (len(known) + 1) }
		return at(x) - at(y)
	})
	return found, nil
}

// Keep has the box remember cables, as many as are used.
func (b *Box) Keep(found []cables.Cable) {
	b.Cables = nil
	for _, c := range found[:min(len(found), len(endNames))] {
		b.Cables = append(b.Cables, c.String())
	}
}
