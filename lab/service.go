// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"

	"boxdyno/host"
	"boxdyno/service"
)

// services makes a DUT in a namespace do one thing after another. Counters in
// nft that count drops are named drop_*, for the ledger; others are not drops.
type services struct {
	dut      *space
	programs *dutObjects
	drops    *service.Drops
	xdp      [2]link.Link // on the ports of sides
	bare     bool         // lan has none, for somebody listens there
	plant    Plant
	cpu      int          // that does the DUT's work
	more     []int        // that it may use beside
	senders  []int        // of the tester, beside the first
	spreads  []int        // CPUs that flows are spread over; nil: none
	stop     func() error // ends what a fault keeps running; nil: nothing

	mu    sync.Mutex
	kind  string                      // that is served; "": route
	clear func(context.Context) error // takes down what was set last; nil: nothing

	routes []netlink.Route // to networks, that are set

	generation uint32 // of the ruleset when its rules were counted
	rules      int
}

// A serving is a way to set up a Service and to take it down again; clear also
// clears what set left half done, and may be called again.
type serving struct {
	kind  string
	set   func(*services, context.Context, Service) error
	clear func(*services, context.Context) error
}

var allServices = []serving{
	{"route", nil, nil},
	{"filter", setFilter, clearNFT},
	{"nat", setNAT, clearNAT},
	{"drop-xdp", setDropXDP, clearDropXDP},
	{"drop-tc", setDropTC, clearDropTC},
	{"drop-nft", setDropNFT, clearNFT},
	{Listening, setListen, clearListen},
}

// Serve implements Server. If it fails, the DUT routes. An unknown kind or a
// number out of range is an error before anything changes; a missing nft is a
// *host.Missing.
func (v *services) Serve(ctx context.Context, s Service) error {
	i := slices.IndexFunc(allServices, func(k serving) bool { return k.kind == s.Kind })
	if i < 0 {
		return fmt.Errorf("service %q: want one of %s", s.Kind, strings.Join(Services, ", "))
	}
	k := allServices[i]
	if err := s.Check(); err != nil {
		return err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if err := v.reset(ctx); err != nil {
		return fmt.Errorf("take the last service down: %w", err)
	}
	err := errors.Join(v.route(s.Networks), v.spread(s))
	if err == nil && k.set != nil {
		v.clear, v.kind = func(ctx context.Context) error { return k.clear(v, ctx) }, s.Kind
		err = k.set(v, ctx, s)
	}
	if err != nil {
		err = host.Permit("set up service "+s.Kind, fmt.Errorf("set up service %s: %w", s.Kind, err))
		return errors.Join(err, v.reset(ctx))
	}
	return nil
}

// reset leaves the DUT routing, even where ctx has ended.
func (v *services) reset(ctx context.Context) error {
	if v.clear != nil {
		if err := v.clear(context.WithoutCancel(ctx)); err != nil {
			return err
		}
		v.clear, v.kind = nil, ""
	}
	return v.unroute()
}

// names are what the counters of the DUT's ports stand for now.
func (v *services) names() map[string]string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.plant.names(v.kind)
}
