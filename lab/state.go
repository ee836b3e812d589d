// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"boxdyno/host"
	"boxdyno/internal/netns"
	"boxdyno/result"
)

// State implements Inspector: it reads how the DUT is set up, from its own kernel objects and not from
// what was asked for: the number of its nftables rules, how full its connection
// table is, and for each port its MTU, receive queues, RPS and root qdisc. What
// the kernel does not have is left out.
func (v *services) State(context.Context) (kv []result.Pair, err error) {
	add := func(key, value string) { kv = append(kv, result.Pair{Key: key, Value: value}) }
	err = netns.Do(v.dut.Netns, func() error {
		n, err := v.countRules()
		if err != nil {
			return err
		}
		add("nft rules", strconv.Itoa(n))
		kv = append(kv, host.ConnectionState(os.DirFS("/"))...)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read how the DUT is set up: %w", err)
	}
	err = netns.DoSys(v.dut.Netns, func(sys *os.Root) error {
		for _, sd := range sides {
			kv = append(kv, host.QueueState(sys.FS(), sd.dut)...)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read how the DUT's ports are set up: %w", err)
	}
	err = v.eachPort(func(index int) error {
		l, err := v.dut.nl.LinkByIndex(index)
		if err != nil {
			return err
		}
		list, err := v.dut.nl.QdiscList(l)
		if err != nil {
			return err
		}
		for _, q := range list {
			if q.Attrs().Parent == netlink.HANDLE_ROOT {
				add(l.Attrs().Name+" qdisc", q.Type())
			}
		}
		return nil
	})
	return kv, err
}

// Numbers of linux/netfilter/nf_tables.h.
const (
	nftNewRule = 6
	nftGetRule = 7
	nftNewGen  = 15
	nftGetGen  = 16
	nftaGenID  = 1
)

// countRules is the number of rules in the calling thread's namespace. They are
// counted again only when the ruleset's generation has changed: 100,000 of them
// take a tenth of a second.
func (v *services) countRules() (int, error) {
	ask := func(request, answer uint16, flags int) ([][]byte, error) {
		req := nl.NewNetlinkRequest(unix.NFNL_SUBSYS_NFTABLES<<8|int(request), flags)
		req.AddData(&nl.Nfgenmsg{NfgenFamily: unix.NFPROTO_UNSPEC})
		return req.Execute(unix.NETLINK_NETFILTER, unix.NFNL_SUBSYS_NFTABLES<<8|answer)
	}
	gen, err := ask(nftGetGen, nftNewGen, 0)
	switch {
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.EPROTONOSUPPORT):
		return 0, nil // no nf_tables, hence no rules of it
	case err != nil:
		return 0, fmt.Errorf("ask nftables for its generation: %w", err)
	}
	var id uint32
	if len(gen) > 0 && len(gen[0]) > nl.SizeofNfgenmsg {
		attrs, err := nl.ParseRouteAttrAsMap(gen[0][nl.SizeofNfgenmsg:])
		if err != nil {
			return 0, fmt.Errorf("read nftables' generation: %w", err)
		}
		if b := attrs[nftaGenID].Value; len(b) == 4 {
			id = binary.BigEndian.Uint32(b)
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if id != 0 && id == v.generation {
		return v.rules, nil
	}
	rules, err := ask(nftGetRule, nftNewRule, unix.NLM_F_DUMP)
	if err != nil {
		return 0, fmt.Errorf("count the rules of nftables: %w", err)
	}
	v.generation, v.rules = id, len(rules)
	return v.rules, nil
}
