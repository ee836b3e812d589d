// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"strings"

	"boxdyno/reference"
	"boxdyno/report/internal/phrase"
	"boxdyno/result"
)

// tunnelOf is nil for rows of other procedures.
func tunnelOf(p result.Record, at func(metric string) *Figure) *Tunnel {
	if p.Procedure != vpnProcedure && p.Procedure != streamProcedure {
		return nil
	}
	get := func(key string) string { return result.Get(p.Config, key) }
	t := &Tunnel{
		Tunnel: cmp.Or(get("tunnel"), "none"), Cipher: strings.TrimPrefix(get("cipher"), "default"), Offloads: get("offloads"),
		Protocol: cmp.Or(get("protocol"), "tcp"), Connections: get("connections"), Userland: strings.TrimPrefix(get("userland"), "native"),
	}
	fill(t, at)
	return t
}

// tunnelOrder is that of rows; what is not listed comes last.
var tunnelOrder = []string{"none", "wireguard", "wireguard-go", "openvpn", "openvpn-dco", "ipsec"}

func orderTunnel(a, b Row) int {
	if a.Tunnel == nil || b.Tunnel == nil {
		return 0
	}
	return cmp.Or(strings.Compare(a.Procedure, b.Procedure), cmp.Compare(index(tunnelOrder, a.Tunnel.Tunnel), index(tunnelOrder, b.Tunnel.Tunnel)),
		strings.Compare(b.Tunnel.Protocol, a.Tunnel.Protocol), strings.Compare(a.Tunnel.Offloads, b.Tunnel.Offloads), strings.Compare(a.Tunnel.Cipher, b.Tunnel.Cipher))
}

// name is the row's, in words.
func (t *Tunnel) name(procedure, frames string) []string {
	words := []string{procedure}
	if procedure == vpnProcedure {
		words = append(words, t.Tunnel)
		if t.Cipher != "" {
			words = append(words, t.Cipher)
		}
		if frames != "" {
			words = append(words, phrase.FrameSize(frames))
		}
	} else {
		words = append(words, t.Protocol)
	}
	words = append(words, "offloads "+t.Offloads)
	if t.Connections != "" && t.Connections != "1" {
		words = append(words, t.Connections+" at once")
	}
	if t.Userland != "" {
		words = append(words, "userland "+t.Userland)
	}
	return words
}

// summary is the row in a sentence's second half; "" where no stream was measured.
func (t *Tunnel) summary() string {
	if t.Goodput == nil {
		return ""
	}
	s := t.Goodput.si("bit/s") + " by " + strings.ToUpper(t.Protocol)
	if t.Share != nil {
		s += ", " + t.Share.share() + " of what the cable carries without the tunnel"
	}
	return s
}

// publishTunnels lays the published comparison of WireGuard with OpenVPN beside the rows
// of a run that has both, with the same ratio as it was measured here.
func publishTunnels(rows []Row) {
	best := func(prefix string) (goodput float64) {
		for _, r := range rows {
			if t := r.Tunnel; t != nil && strings.HasPrefix(t.Tunnel, prefix) && t.Goodput != nil {
				goodput = max(goodput, t.Goodput.Value)
			}
		}
		return goodput
	}
	wireguard, openvpn := best("wireguard"), best("openvpn")
	for _, f := range reference.Figures() {
		if f.Experiment != "vpn" || f.Metric != "wireguard_over_openvpn" {
			continue
		}
		where := f.Source
		if s, ok := reference.SourceOf(f.Source); ok {
			where = s.Where
		}
		text := fmt.Sprintf("published on a %s: WireGuard is %g times as fast as OpenVPN (%s: %s)", f.Subject, f.Value, where, f.Said())
		if wireguard > 0 && openvpn > 0 {
			text += fmt.Sprintf("; here the fastest of each are %.1f to 1", wireguard/openvpn)
		}
		for i := range rows {
			if t := rows[i].Tunnel; t != nil && t.Goodput != nil && (strings.HasPrefix(t.Tunnel, "wireguard") || strings.HasPrefix(t.Tunnel, "openvpn")) {
				t.Published = text
			}
		}
	}
}
