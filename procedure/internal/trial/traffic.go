// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"context"
	"flag"
	"fmt"
	"strconv"
	"time"

	"boxdyno/engine"
	"boxdyno/frame"
	"boxdyno/host"
	"boxdyno/lab"
	"boxdyno/procedure"
	"boxdyno/procedure/internal/param"
	"boxdyno/result"
	"boxdyno/search"
	"boxdyno/unit"
)

// A Traffic is what frames are offered and what the DUT does to them: the
// parameters that procedures of a box with two ports share.
type Traffic struct {
	Service   param.Choice
	Direction param.Choice
	Mix       param.FrameMix // of frame sizes, with FCS
	Rules     param.Count
	Flows     param.Count
	networks  param.Choice
	IP        param.Choice
	Preset    param.Choice // quick or standard
	Search    param.Choice // a search's name, or asPreset
	dutCPUs   param.Choice
	vlan      param.Count // 0: no tag
	senders   param.Count
	ramp      time.Duration
}

const (
	LanToWAN = "lan-to-wan"
	WanToLAN = "wan-to-lan"
	BothWays = "both" // a value of direction
)

// NewTraffic returns the traffic by default, with a choice of the services.
func NewTraffic(services []string) Traffic {
	return Traffic{
		Service:   param.NewChoice("route", services),
		Direction: param.NewChoice(LanToWAN, []string{LanToWAN, WanToLAN, BothWays}),
		Mix:       param.FrameMix{Mix: frame.Mix{Name: "64", Sizes: []unit.FrameSize{64}}},
		Rules:     param.NewCount(0, 0, 100_000),
		Flows:     param.NewCount(1, 1, frame.MaxFlows),
		networks:  param.NewChoice("1", []string{"1", strconv.Itoa(frame.MaxNetworks)}),
		IP:        param.NewChoice("4", IPVersions),
		Preset:    param.NewPreset(),
		vlan:      param.NewCount(0, 0, frame.MaxVLAN),
		senders:   NewSenders(),
		dutCPUs:   NewDUTCPUs(),
		Search:    param.NewChoice(AsPreset, append([]string{AsPreset}, search.Names()...)),
	}
}

// maxNATFlows is what one public address can map with ports to spare.
const maxNATFlows = 10_000

func (p *Traffic) Flags(fs *flag.FlagSet) {
	fs.Var(&p.Service, "service", "what the box does to frames: forward them (route, filter, nat) or throw them away (drop-*)")
	fs.Var(&p.Direction, "direction", "which way frames go; both: each way at once")
	fs.Var(&p.Mix, "frame_size", param.FrameMixUsage)
	fs.Var(&p.Rules, "rules", "filter: `rules` before the one that matches")
	fs.Var(&p.Flows, "flows", "UDP `flows` that frames belong to in turn; nat: at most 10000")
	fs.Var(&p.networks, "networks", "destination `networks`, in turn, each with its own route in the box (RFC 2544 section 12)")
	fs.Var(&p.dutCPUs, "dut_cpus", DUTCPUsUsage)
	fs.Var(&p.vlan, "vlan", "`number` of the VLAN whose tag (802.1Q) every frame has; 0: no tag")
	fs.Var(&p.senders, "senders", SendersUsage)
	fs.Var(&p.IP, "ip", "IP version")
	fs.Var(&p.Preset, "preset", "quick or standard: how long, how often")
	fs.Var(&p.Search, "search", "how the highest load without loss is found; preset: the search of the preset's name")
	fs.DurationVar(&p.ramp, "ramp", p.ramp, "how `long` the load grows before each trial of the search; the load after a standing start is measured too; 0s: only that")
}

// IPv6 says whether frames are of IPv6.
func (p *Traffic) IPv6() bool { return p.IP.Value == "6" }

// toNetworks is how many networks frames go to.
func (p *Traffic) toNetworks() int {
	if p.networks.Value == "1" {
		return 1
	}
	return frame.MaxNetworks
}

// Between is the point's frames from one port to another.
func (p *Traffic) Between(from, to lab.Port) frame.Spec {
	s := Between(from, to, p.Mix.Mix, p.Flows.Value, p.IPv6())
	s.Networks, s.VLAN = p.toNetworks(), uint16(p.vlan.Value)
	return s
}

// Asked is what the DUT is to do.
func (p *Traffic) Asked() lab.Service {
	return lab.Service{Kind: p.Service.Value, Rules: p.Rules.Value, Flows: p.Flows.Value, Networks: p.toNetworks(), AllCPUs: p.dutCPUs.Value == AllCPUs, Senders: max(p.senders.Value-1, 0)}
}

// DropPlaces is where each drop service is meant to end every frame.
var DropPlaces = map[string]result.Place{"drop-xdp": result.XDP, "drop-tc": result.TC, "drop-nft": result.NFT}

// Needs implements Needing.
func (p *Traffic) Needs() (lab.Capability, string) { return 0, p.Service.Value }

func (p *Traffic) Check(bed *lab.Testbed) error {
	if err := p.Mix.SignedIn(uint16(p.vlan.Value), p.IPv6()); err != nil {
		return err
	}
	switch {
	case p.ramp != 0 && (p.ramp < leastRamp || p.ramp > mostRamp):
		return fmt.Errorf("ramp %v: want 0s, or %v to %v", p.ramp, leastRamp, mostRamp)
	case p.ramp > 0 && DropPlaces[p.Service.Value] != "":
		return fmt.Errorf("ramp %v: service %s throws every frame away: use route, filter or nat", p.ramp, p.Service.Value)
	case p.ramp > 0 && p.Search.Value == procedure.NoSearch:
		return fmt.Errorf("ramp %v: it is of the search's trials, and search=none asks for none", p.ramp)
	}
	if p.Rules.Value != 0 && p.Service.Value != "filter" {
		return fmt.Errorf("rules %d: only service filter has rules, and this is %s", p.Rules.Value, p.Service.Value)
	}
	if p.senders.Value > 1 && p.toNetworks() > 1 {
		return fmt.Errorf("senders %d: each would send to all %s networks, so that flows would come from several: use networks=1", p.senders.Value, p.networks.Value)
	}
	if p.Service.Value == "nat" {
		if p.IPv6() {
			return fmt.Errorf("service nat: masquerade is measured over IPv4 only")
		}
		if p.Flows.Value > maxNATFlows {
			return fmt.Errorf("flows %d: service nat takes 1 to %d", p.Flows.Value, maxNATFlows)
		}
		if p.toNetworks() > 1 {
			return fmt.Errorf("networks %s: with service nat frames from wan go to the one address that it masquerades with: use route or filter", p.networks.Value)
		}
	}
	if DropPlaces[p.Service.Value] != "" && p.Direction.Value == BothWays {
		return fmt.Errorf("direction both: service %s is measured one way at a time", p.Service.Value)
	}
	if bed == nil {
		return nil
	}
	if err := Tags(bed, p.vlan.Value); err != nil {
		return err
	}
	if err := Spreads(bed, p.dutCPUs.Value); err != nil {
		return err
	}
	if p.toNetworks() > 1 {
		if err := apart(bed, p.IPv6()); err != nil {
			return fmt.Errorf("networks %s: %w", p.networks.Value, err)
		}
	}
	return FitsIn(p.Mix.Mix, uint16(p.vlan.Value), p.IPv6(), bed.Ports)
}

// Tags says why frames with the tag of a VLAN do not go through the box of bed; 0: they have
// none.
func Tags(bed *lab.Testbed, vlan int) error {
	if vlan > 0 && bed.Kind != result.KindMemory && !Bridges(bed) {
		return fmt.Errorf("vlan %d: topology %s has no VLAN interfaces, and answers no ARP within one: frames with a tag go through a box that bridges (wire2 with box=bridge)", vlan, bed.Topology)
	}
	return nil
}

// Bridges says whether the box between the ports is no gateway: the far port is the next hop.
func Bridges(bed *lab.Testbed) bool {
	if len(bed.Ports) < 2 {
		return false
	}
	a, b := bed.Ports[0], bed.Ports[1]
	return bed.Bridge || a.GatewayMAC != [6]byte{} && a.GatewayMAC == b.MAC
}

// apart wants the networks of one side to be none of the other's.
func apart(bed *lab.Testbed, ipv6 bool) error {
	lan, wan := bed.Ports[0].Addr4, bed.Ports[1].Addr4
	if ipv6 {
		lan, wan = bed.Ports[0].Addr6, bed.Ports[1].Addr6
	}
	if lan.IsValid() && wan.IsValid() && frame.Network(lan, 0).Masked() == frame.Network(wan, 0).Masked() {
		return fmt.Errorf("the tester's addresses %v and %v are among the same networks: give one of them another second octet (IPv6: another sixth or eighth)", lan, wan)
	}
	return nil
}

// unrouted says, where the box cannot be told its routes, that it must have them; ""
// where nothing is to be said.
func (p *Traffic) unrouted(bed *lab.Testbed) string {
	if _, serves := bed.Means.(lab.Server); serves || p.toNetworks() == 1 {
		return ""
	}
	return fmt.Sprintf("topology %s sets no routes: the box must route the %s networks of each side to the tester by itself, or their frames are lost", bed.Topology, p.networks.Value)
}

// Open lays out the streams of the direction and opens the rig.
func (p *Traffic) Open(ctx context.Context, env *procedure.Env, settle time.Duration) (*Rig, error) {
	bed := env.Bed
	lan, wan := bed.Ports[0], bed.Ports[1]
	forth := Way{0, 1, p.Between(lan, wan)}
	back := Way{1, 0, p.Between(wan, lan)}
	if p.Service.Value == "nat" {
		// From the wan, only answers to flows get through: they go to the DUT's
		// own address, at the port that masquerade kept.
		back.Frames.Dst, back.Frames.Answer = wan.Gateway4, true
		back.Frames.SrcPort, back.Frames.DstPort = frame.Port, frame.FirstPort
	}
	ways := map[string][]Way{LanToWAN: {forth}, WanToLAN: {back}, BothWays: {forth, back}}[p.Direction.Value]
	return NewRig(ctx, env, RigSpec{
		Ports: bed.Ports, Mix: p.Mix.Mix, Ways: ways, Settle: settle,
		Drops: DropPlaces[p.Service.Value] != "", Senders: p.senders.Value,
	})
}

// OpenFlows sends a frame of every flow from lan until all of them have come out
// of the DUT at wan, for answers to a flow that is not open would be refused, and
// block its port. The DUT keeps flows for longer than a trial lasts.
func (p *Traffic) OpenFlows(ctx context.Context, bed *lab.Testbed, r *Rig) error {
	const id, rate, tries = 0xffff, 20_000, 10
	out := r.meterAt(1)
	if out == nil {
		m, err := r.signed(ctx, bed.Ports[1].Port)
		if err != nil {
			return err
		}
		defer m.Close()
		out = m
	}
	smallest := frame.Mix{Sizes: []unit.FrameSize{frame.Smallest(false)}}
	opening := engine.Stream{ID: id, Frames: Between(bed.Ports[0], bed.Ports[1], smallest, p.Flows.Value, false)}
	flows := uint64(p.Flows.Value)
	var arrived uint64
	for range tries {
		if err := out.Arm(ctx, false, id); err != nil {
			return err
		}
		if _, err := r.TX.Transmit(ctx, engine.Load{Rate: rate, Count: flows}, opening); err != nil {
			return fmt.Errorf("open %d flows: %w", flows, err)
		}
		if err := host.Pause(ctx, 50*time.Millisecond); err != nil {
			return err
		}
		seen, err := out.Read(ctx)
		if err != nil {
			return err
		}
		if arrived = seen.Streams[0].Frames; arrived == flows {
			return nil
		}
	}
	return fmt.Errorf("open %d flows: the DUT let %d of their first frames through", flows, arrived)
}

// BurstsDeviation is the Deviation of procedures that search the throughput.
const BurstsDeviation = "frames from 50 kframe/s on leave in bursts of what falls due within 40 µs, at most 32, not one by one; what a stall of the tester delayed is made up at 9/8 of the rate"
