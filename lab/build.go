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

	"boxdyno/engine/catalog"
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
	fs.Var(within(mtu, minMTU, maxMTU), "mtu", "MTU of every link, octets")
	addRateFlag(fs, rate, "the tester's ceiling limits")
}

func addRateFlag(fs *flag.FlagSet, rate *unit.BitRate, otherwise string) {
	fs.Func("link_rate", "layer-1 bit rate that loads may not exceed, such as 1Gbps; by default "+otherwise, func(s string) (err error) {
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

// A parsed is a flag whose value parse reads and text writes.
type parsed[T any] struct {
	p     *T
	text  func(T) string
	parse func(string) (T, error)
}

// String implements flag.Value; "" of the zero parsed.
func (f parsed[T]) String() string {
	if f.p == nil {
		return ""
	}
	return f.text(*f.p)
}

func (f parsed[T]) Set(s string) error {
	v, err := f.parse(s)
	if err == nil {
		*f.p = v
	}
	return err
}

// oneOf is a flag whose value is one of words.
func oneOf(p *string, words ...string) parsed[string] {
	return parsed[string]{p, func(s string) string { return s }, func(s string) (string, error) {
		if !slices.Contains(words, s) {
			return "", fmt.Errorf("want %s", strings.Join(words, " or "))
		}
		return s, nil
	}}
}

// within is a flag whose value is an integer from lo to hi.
func within(p *int, lo, hi int) parsed[int] {
	return parsed[int]{p, strconv.Itoa, func(s string) (int, error) {
		n, err := strconv.Atoi(s)
		if err != nil || n < lo || n > hi {
			return 0, fmt.Errorf("want %d to %d", lo, hi)
		}
		return n, nil
	}}
}

func plainFloat[T ~float64](v T) string { return strconv.FormatFloat(float64(v), 'f', -1, 64) }

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
	if tb.Engine, tb.Tried, err = catalog.Best(ctx, ports...); err != nil {
		return nil, errors.Join(fmt.Errorf("choose a backend: %w", err), tb.Close())
	}
	if err := narrow(tb, ports); err != nil {
		return nil, errors.Join(err, tb.Close())
	}
	tb.Settings = append(tb.Settings, senderSettings(tb.Facts)...)
	return tb, nil
}
