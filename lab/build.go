// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"boxdyno/engine"
	"boxdyno/host"
	"boxdyno/result"
	"boxdyno/unit"
)

// What topologies of veth pairs have in common.

const (
	defaultMTU = 1500
	minMTU     = 1280 // of IPv6 (RFC 8200)
	maxMTU     = 3394 // the largest frame that XDP sends live has 3,408 octets
	vethRing   = 256  // VETH_RING_SIZE
)

func addLinkFlags(fs *flag.FlagSet, mtu *int, rate *unit.BitRate) {
	fs.Var(within{mtu, minMTU, maxMTU}, "mtu", "MTU of every link, octets")
	fs.Func("link_rate", "layer-1 bit rate that loads may not exceed, such as 1Gbps; by default the tester's ceiling limits",
		func(s string) (err error) {
			*rate, err = unit.ParseBitRate(s)
			return err
		})
}

func linkSettings(mtu int, rate unit.BitRate) []result.Pair {
	kv := []result.Pair{
		{Key: "mtu", Value: strconv.Itoa(mtu)},
		{Key: "offloads", Value: "off"},
		{Key: "ring", Value: strconv.Itoa(vethRing)},
		{Key: "queues", Value: "1"},
	}
	if rate > 0 {
		kv = append(kv, result.Pair{Key: "link_rate", Value: rate.String()})
	}
	return kv
}

// oneOf is a flag whose value is one of words.
type oneOf struct {
	p     *string
	words []string
}

func (f oneOf) String() string {
	if f.p == nil {
		return ""
	}
	return *f.p
}

func (f oneOf) Set(s string) error {
	if !slices.Contains(f.words, s) {
		return fmt.Errorf("want %s", strings.Join(f.words, " or "))
	}
	*f.p = s
	return nil
}

// within is a flag whose value is an integer from lo to hi.
type within struct {
	p      *int
	lo, hi int
}

func (f within) String() string {
	if f.p == nil {
		return ""
	}
	return strconv.Itoa(*f.p)
}

func (f within) Set(s string) error {
	n, err := strconv.Atoi(s)
	if err != nil || n < f.lo || n > f.hi {
		return fmt.Errorf("want %d to %d", f.lo, f.hi)
	}
	*f.p = n
	return nil
}

// A cleanup takes down what was built, last first.
type cleanup []func() error

func (c *cleanup) add(f func() error) { *c = append(*c, f) }

func (c *cleanup) close() (err error) {
	for _, f := range slices.Backward(*c) {
		err = errors.Join(err, f())
	}
	*c = nil
	return err
}

// withEngine chooses the backend for all ports of tb; without one there is no
// testbed.
func withEngine(ctx context.Context, tb *Testbed, err error) (*Testbed, error) {
	if err != nil {
		return nil, err
	}
	var ports []host.Port
	for _, p := range slices.Concat(tb.Ports, tb.Loop) {
		if !slices.Contains(ports, p.Port) {
			ports = append(ports, p.Port)
		}
	}
	if tb.Engine, tb.Tried, err = engine.Best(ctx, ports...); err != nil {
		return nil, errors.Join(fmt.Errorf("choose a backend: %w", err), tb.Close())
	}
	return tb, nil
}
