// SPDX-License-Identifier: Apache-2.0

package tune

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// What every port has, by rtnetlink.
var (
	mtu = Spec{
		Name: "mtu", Doc: "largest IP packet of the port, octets", Values: "1280 to 65535 (below 1280 IPv6 would lose its addresses)",
		Scope: PerPort, Check: number(1280, 65535),
		Read:  readLink(func(l netlink.Link) string { return strconv.Itoa(l.Attrs().MTU) }),
		Write: writeNumber(netlink.LinkSetMTU),
		Disturbs: func(_ context.Context, at Site) ([]Ref, error) { // IPv6's own follows, and may have been less
			return []Ref{{Knob: sysctlPrefix + "net.ipv6.conf.{port}.mtu", Port: at.Port}}, nil
		},
		Export: linkKey("MTUBytes"),
	}
	queueLength = Spec{
		Name: "txqueuelen", Doc: "frames in the port's default queue before it drops", Values: "a number",
		Scope: PerPort, Check: number(0, 1<<31-1),
		Read:   readLink(func(l netlink.Link) string { return strconv.Itoa(l.Attrs().TxQLen) }),
		Write:  writeNumber(netlink.LinkSetTxQLen),
		Export: linkKey("TransmitQueueLength"),
	}
	promiscuous = Spec{
		Name: "promiscuous", Doc: "frames for other stations are received, too, as a sensor needs", Values: "on, off",
		Scope: PerPort, Check: oneOf("on", "off"),
		Read: readLink(func(l netlink.Link) string { // what was asked for; sockets and bridges may hold it on besides
			return map[bool]string{true: "on", false: "off"}[l.Attrs().RawFlags&unix.IFF_PROMISC != 0]
		}),
		Write: writeEither("on", netlink.SetPromiscOn, netlink.SetPromiscOff),
		Export: func(port, value string) ([]Exported, error) {
			return command("ip link set dev " + port + " promisc " + value), nil
		},
	}
	// linkState is put back to down only where it was down.
	linkState = Spec{
		Name: "link", Doc: "the port is set up, as somebody does who uses it", Values: "up",
		Scope: PerPort, Check: oneOf("up"),
		Read: readLink(func(l netlink.Link) string {
			return map[bool]string{true: "up", false: "down"}[l.Attrs().RawFlags&unix.IFF_UP != 0]
		}),
		Write: writeEither("up", netlink.LinkSetUp, netlink.LinkSetDown),
	}
	// qdisc is the kind at the port's root. The kernel's default has no handle; one
	// with a handle is somebody's, with parameters that could not be put back.
	qdisc = Spec{
		Name: "qdisc", Doc: "queueing discipline at the root of the port's sending side, with its default parameters", Values: "a kind: fq_codel, pfifo_fast, noqueue...",
		Scope: PerPort, Check: word,
		Read: func(_ context.Context, at Site) (text string, err error) {
			err = at.link(func(l netlink.Link) error {
				q, err := rootQdisc(l)
				if err == nil {
					text = q.Type()
					if q.Attrs().Handle == 0 {
						text += " by default"
					}
				}
				return err
			})
			return text, err
		},
		Resolve: func(_ context.Context, _ Site, asked, now string) (string, error) {
			kind, byDefault := strings.CutSuffix(now, " by default")
			if kind == asked {
				return now, nil
			}
			if !byDefault {
				return "", fmt.Errorf("its %s was set by somebody, and its parameters could not be put back", now)
			}
			return asked, nil
		},
		Write: func(_ context.Context, at Site, value string) error {
			return at.link(func(l netlink.Link) error {
				if strings.HasSuffix(value, " by default") {
					q, err := rootQdisc(l)
					if err != nil || q.Attrs().Handle == 0 {
						return err
					}
					return netlink.QdiscDel(q)
				}
				return netlink.QdiscReplace(&netlink.GenericQdisc{
					QdiscAttrs: netlink.QdiscAttrs{LinkIndex: l.Attrs().Index, Parent: netlink.HANDLE_ROOT, Handle: netlink.MakeHandle(0xb0d, 0)},
					QdiscType:  value,
				})
			})
		},
		Export: func(port, value string) ([]Exported, error) {
			return command("tc qdisc replace dev " + port + " root " + value), nil
		},
	}
)

func readLink(f func(netlink.Link) string) func(context.Context, Site) (string, error) {
	return func(_ context.Context, at Site) (text string, err error) {
		err = at.link(func(l netlink.Link) error {
			text = f(l)
			return nil
		})
		return text, err
	}
}

func writeLink(f func(netlink.Link, string) error) func(context.Context, Site, string) error {
	return func(_ context.Context, at Site, value string) error {
		return at.link(func(l netlink.Link) error { return f(l, value) })
	}
}

func writeNumber(f func(netlink.Link, int) error) func(context.Context, Site, string) error {
	return writeLink(func(l netlink.Link, v string) error {
		n, err := strconv.Atoi(v)
		if err != nil {
			return err
		}
		return f(l, n)
	})
}

// writeEither is yes for one value, and no for any other.
func writeEither(value string, yes, no func(netlink.Link) error) func(context.Context, Site, string) error {
	return writeLink(func(l netlink.Link, v string) error {
		if v == value {
			return yes(l)
		}
		return no(l)
	})
}

func rootQdisc(l netlink.Link) (netlink.Qdisc, error) {
	all, err := netlink.QdiscList(l)
	if err != nil {
		return nil, err
	}
	for _, q := range all {
		if q.Attrs().Parent == netlink.HANDLE_ROOT {
			return q, nil
		}
	}
	return nil, unix.EOPNOTSUPP // a port that is down may have none yet
}
