// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"boxdyno/reference"
	"boxdyno/report/internal/phrase"
)

func tunnelOf(m *measured) Block {
	if m.get("traffic") == "tcp" {
		m.row.FrameSize = ""
	} else if m.row.FrameSize != "" {
		m.row.Direction = "lan-to-wan"
	}
	t := set[Tunnel](m)
	t.Tunnel, t.Protocol = cmp.Or(t.Tunnel, "none"), cmp.Or(t.Protocol, "tcp")
	t.Cipher, t.Userland = strings.TrimPrefix(t.Cipher, "default"), strings.TrimPrefix(t.Userland, "native")
	return t
}

// tunnelOrder is that of rows; what is not listed comes last.
var tunnelOrder = []string{"none", "wireguard", "wireguard-go", "openvpn", "openvpn-dco", "ipsec"}

func (*Tunnel) order(x, y *Row) int {
	a, b := both[*Tunnel](x, y)
	return cmp.Or(strings.Compare(x.Procedure, y.Procedure), cmp.Compare(index(tunnelOrder, a.Tunnel), index(tunnelOrder, b.Tunnel)),
		strings.Compare(b.Protocol, a.Protocol), strings.Compare(a.Offloads, b.Offloads), strings.Compare(a.Cipher, b.Cipher))
}

func (t *Tunnel) name(r *Row, _ []string) []string {
	words := []string{r.Procedure}
	if r.Procedure == vpnProcedure {
		words = append(words, t.Tunnel)
		if t.Cipher != "" {
			words = append(words, t.Cipher)
		}
		if r.FrameSize != "" {
			words = append(words, phrase.FrameSize(r.FrameSize))
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

func (t *Tunnel) through() string { return ", " + t.Tunnel }

func (t *Tunnel) tail(*Row) string { return ", through " + t.Tunnel }

func (t *Tunnel) summary(r *Row) (name, text string, whole bool) {
	rate, share := r.at(goodput), r.at(goodputShare)
	if rate == nil {
		return "", "", false
	}
	text = rate.si("bit/s") + " by " + strings.ToUpper(t.Protocol)
	if share != nil {
		text += ", " + share.share() + " of what the cable carries without the tunnel"
	}
	return r.Name, text, true
}

func (t *Tunnel) remarks(*Row) []string {
	return slices.DeleteFunc([]string{t.Published}, func(s string) bool { return s == "" })
}

// publishTunnels lays the published comparison of WireGuard with OpenVPN beside the rows
// of a run that has both, with the same ratio as it was measured here.
func publishTunnels(rows []Row) {
	best := func(prefix string) (most float64) {
		for r, t := range blocksOf[*Tunnel](rows) {
			if f := r.at(goodput); strings.HasPrefix(t.Tunnel, prefix) && f != nil {
				most = max(most, f.Value)
			}
		}
		return most
	}
	wireguard, openvpn := best("wireguard"), best("openvpn")
	for _, f := range reference.Figures() {
		if f.Experiment != tunnelExperiment || f.Metric != "wireguard_over_openvpn" {
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
		for r, t := range blocksOf[*Tunnel](rows) {
			if r.at(goodput) != nil && (strings.HasPrefix(t.Tunnel, "wireguard") || strings.HasPrefix(t.Tunnel, "openvpn")) {
				t.Published = text
			}
		}
	}
}
