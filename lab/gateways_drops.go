// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"boxdyno/result"
)

// errNoRoute is what the kernel answers for a route that is not there.
var errNoRoute = unix.ESRCH

// gatewayDrops are counters of gateways at which packets of a tunnel, or before it, end:
//
//	tunnel's device   tx and rx drop (/proc/net/dev): its queue was full, its peer unknown
//	UDP               RcvbufErrors: a daemon did not read its socket in time
//	IP                no route, header, MTU
//	IPsec             all of /proc/net/xfrm_stat
//
// The ports on the path are the ledger's own.
type gatewayDrops [2]*space

func (g gatewayDrops) Count(context.Context) (terms []result.Term, err error) {
	for _, s := range g {
		err := s.View(func(root fs.FS) error {
			for _, f := range []struct {
				name string
				read func(data []byte) ([]result.Term, error)
			}{{"dev", deviceDrops}, {"snmp", stackDrops}, {"netstat", stackDrops}, {"xfrm_stat", xfrmDrops}} {
				data, err := fs.ReadFile(root, "proc/thread-self/net/"+f.name)
				if errors.Is(err, fs.ErrNotExist) {
					continue // a kernel without it
				}
				if err != nil {
					return err
				}
				found, err := f.read(data)
				if err != nil {
					return fmt.Errorf("/proc/net/%s: %w", f.name, err)
				}
				for _, t := range found {
					t.Host = s.Label
					terms = append(terms, t)
				}
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("count what the gateway %s drops: %w", s.Label, err)
		}
	}
	return terms, nil
}

// deviceDrops are those of ports that are no cable's: a tunnel's, both ways.
func deviceDrops(data []byte) (terms []result.Term, err error) {
	known := []string{"lo", "outer", sides[0].dut, sides[1].dut}
	for lines := bufio.NewScanner(bytes.NewReader(data)); lines.Scan(); {
		name, rest, ok := strings.Cut(strings.TrimSpace(lines.Text()), ":")
		f := strings.Fields(rest)
		if !ok || slices.Contains(known, name) || len(f) < 12 {
			continue // its head
		}
		for _, c := range []struct {
			column     int
			name, from string
		}{{3, "tunnel refused on receipt", " rx drop"}, {11, "tunnel's queue full", " tx drop"}} {
			n, err := strconv.ParseInt(f[c.column], 10, 64)
			if err != nil {
				return nil, err
			}
			terms = append(terms, result.Term{Place: result.SubjectAt, Name: c.name, From: name + c.from, N: n, Link: name})
		}
	}
	return terms, nil
}

// stackWords are the counters of snmp and netstat that are drops on a gateway, none
// of which counts what another does (Udp.InErrors holds RcvbufErrors).
var stackWords = map[string]result.Term{
	"Udp.RcvbufErrors": {Place: result.Socket, Name: "socket buffer of the tunnel full"},
	"Ip.InHdrErrors":   {Place: result.Routing, Name: "TTL expired or bad header"},
	"Ip.InAddrErrors":  {Place: result.Routing, Name: "address not acceptable, or forwarding off"},
	"Ip.OutNoRoutes":   {Place: result.Routing, Name: "no route for the gateway's own packets"},
	"Ip.FragFails":     {Place: result.Routing, Name: "larger than the MTU"},
	"IpExt.InNoRoutes": {Place: result.Routing, Name: "no route"},
}

// stackDrops reads pairs of lines: names, then values.
func stackDrops(data []byte) (terms []result.Term, err error) {
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	for i := 0; i+1 < len(lines); i += 2 {
		names, values := strings.Fields(lines[i]), strings.Fields(lines[i+1])
		if len(names) != len(values) || len(names) == 0 || names[0] != values[0] {
			return nil, fmt.Errorf("lines %d and %d do not belong together", i+1, i+2)
		}
		for j := range names[1:] {
			t := stackWords[strings.TrimSuffix(names[0], ":")+"."+names[j+1]]
			if t.Place == "" {
				continue
			}
			t.From = strings.TrimSuffix(names[0], ":") + "." + names[j+1]
			if t.N, err = strconv.ParseInt(values[j+1], 10, 64); err != nil {
				return nil, err
			}
			terms = append(terms, t)
		}
	}
	return terms, nil
}

// xfrmDrops are all of xfrm_stat (Documentation/networking/xfrm_proc.rst): each counts
// packets that IPsec refused, and no packet is in two.
func xfrmDrops(data []byte) (terms []result.Term, err error) {
	for lines := bufio.NewScanner(bytes.NewReader(data)); lines.Scan(); {
		f := strings.Fields(lines.Text())
		if len(f) != 2 {
			return nil, fmt.Errorf("%q is not a name and a number", lines.Text())
		}
		n, err := strconv.ParseInt(f[1], 10, 64)
		if err != nil {
			return nil, err
		}
		if n > 0 {
			terms = append(terms, result.Term{Place: result.SubjectAt, Name: "refused by IPsec", From: f[0], N: n})
		}
	}
	return terms, nil
}
