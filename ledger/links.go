// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// A Link is a port's carrier at one instant.
type Link struct {
	Host   string `json:"host"`
	Port   string `json:"port"`
	Down   bool   `json:"down,omitempty"`
	Losses uint32 `json:"losses,omitempty"` // how often it has been lost; 0 before Linux 4.16
}

// ErrLink is of a trial in which a link was not there: what it lost says nothing of the box.
var ErrLink = errors.New("a link was lost")

func (p *portOf) link() (Link, error) {
	l := Link{Host: p.label, Port: p.port.Name}
	question := nl.NewIfInfomsg(unix.AF_UNSPEC)
	question.Index = int32(p.index)
	msgs, err := p.sockets.ask(unix.NETLINK_ROUTE, unix.RTM_GETLINK, 0, unix.RTM_NEWLINK, question)
	if err != nil {
		return l, fmt.Errorf("ask for the link: %w", err)
	}
	for _, m := range msgs {
		if len(m) < unix.SizeofIfInfomsg {
			return l, errors.New("ask for the link: the kernel's answer is cut short")
		}
		l.Down = nl.DeserializeIfInfomsg(m).Flags&unix.IFF_LOWER_UP == 0
		attrs, err := nl.ParseRouteAttrAsMap(m[unix.SizeofIfInfomsg:])
		if err != nil {
			return l, err
		}
		if v := attrs[unix.IFLA_CARRIER_DOWN_COUNT].Value; len(v) == 4 {
			l.Losses = binary.NativeEndian.Uint32(v)
		}
	}
	return l, nil
}

// held is an error if a link of now is down, or was since before.
func held(before, now []Link) error {
	for _, l := range now {
		same := func(o Link) bool { return o.Host == l.Host && o.Port == l.Port }
		i := slices.IndexFunc(before, same)
		if l.Down || i >= 0 && before[i].Losses != l.Losses {
			return fmt.Errorf("%w in mid-trial, that of %s (%s): check its cable, then go on with run --resume", ErrLink, l.Port, l.Host)
		}
	}
	return nil
}

// links are those of this machine and of others.
func (s snapshot) links() (all []Link) {
	all = slices.Clone(s.carriers)
	for _, r := range s.remotes {
		all = append(all, r.Links...)
	}
	return all
}
