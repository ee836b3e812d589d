// SPDX-License-Identifier: Apache-2.0

// Package replay has the procedure that sends a capture through a box and tells its frames
// apart behind it.
//
//	replay.go    parameters, and what a point does: one trial, or fill -> search
//	rate.go      at which times frames leave
//	   |
//	traffic.go   the capture as the box is sent it: rewritten, sifted, called by a roll
//	trial.go     one trial, the tester alone, and what became of every frame
package replay

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"time"

	"boxdyno/frame"
	"boxdyno/lab"
	"boxdyno/procedure"
	"boxdyno/procedure/internal/param"
	"boxdyno/procedure/internal/trial"
	"boxdyno/result"
)

// Spec is the row of replay.
var Spec = procedure.Spec{
	Name: "replay", Needs: lab.Ports,
	Doc:   "a capture through a box or into it: its frames are told apart there, so that each is received, altered or lost",
	Names: []string{"file", "rate", "service"}, Metrics: metricsOfReplay, Joules: trial.ForwardJoules, New: newReplay,
}

// Replay sends a capture through a box, or into it: at its own times, faster, at a rate, flat
// out, or at the highest rate that the box carries without loss.
type Replay struct {
	file      string
	rate      replayRate
	loops     param.Count
	service   param.Choice
	direction param.Choice
	compare   param.Choice
	addresses param.Choice
	sums      param.Choice
	limit     param.Count
	preset    param.Choice
	target    param.Choice // throughBox, toBox
	senders   param.Count
	vlan      param.Count // 0: no tag

	read *facts // of file, as these parameters have it; nil: not yet
}

const (
	// generated is the value of file that has the traffic made.
	generated = "appmix"

	byService  = "auto"
	asRouted   = "route"
	translated = "nat"
	asBridged  = "bridge"
	throughBox = "through"
	toBox      = "box"
	mapped     = "map"
	kept       = "keep"
	fixed      = "fix"
)

func newReplay() procedure.Procedure {
	return &Replay{
		file: generated, rate: replayRate{text: ownTimes, speed: 1}, loops: param.NewCount(1, 1, 1_000_000),
		service:   param.NewChoice("route", []string{"route", "nat"}),
		direction: param.NewChoice(trial.LanToWAN, []string{trial.LanToWAN, trial.WanToLAN}),
		compare:   param.NewChoice(byService, []string{byService, asBridged, asRouted, translated}),
		addresses: param.NewChoice(mapped, []string{mapped, kept}),
		sums:      param.NewChoice(fixed, []string{fixed, kept}),
		limit:     param.NewCount(0, 0, 1_000_000_000),
		preset:    param.NewPreset(),
		target:    param.NewChoice(throughBox, []string{throughBox, toBox}),
		senders:   trial.NewSenders(),
		vlan:      param.NewCount(0, 0, frame.MaxVLAN),
	}
}

func (p *Replay) Flags(fs *flag.FlagSet) {
	fs.StringVar(&p.file, "file", p.file, "a capture (pcap or pcapng, also gzip or zstd) as a path, or appmix: 2 s of generated conversations")
	fs.Var(&p.rate, "rate", "when frames leave: capture (at its own times), x10 (so many times as fast), 200k (frame/s), 500Mbps (layer 2, FCS included), flat-out, or search")
	fs.Var(&p.loops, "loops", "`passes` over the capture in a trial; a search chooses them")
	fs.Var(&p.target, "target", "through: frames are told apart at the second port, behind the box; box: at the box's own port, by the box, where they end")
	fs.Var(&p.senders, "senders", "CPUs of the tester that send `together`, as far as it has so many: each has its part of the capture's flows")
	fs.Var(&p.vlan, "vlan", "`number` of the VLAN whose tag (802.1Q) every frame has; 0: as captured")
	fs.Var(&p.service, "service", "what the box does to frames: forward them (route) or translate their addresses, too (nat)")
	fs.Var(&p.direction, "direction", "which way the whole capture goes")
	fs.Var(&p.compare, "compare", "what a frame must have kept to be the same: all (bridge), all but MAC addresses, VLAN tags, time to live and header checksum (route), or all but addresses, ports and checksums, too (nat); auto: by the service and the box")
	fs.Var(&p.addresses, "addresses", "map: sources become hosts behind the sending port, destinations hosts behind the other; keep: as captured")
	fs.Var(&p.sums, "checksums", "fix: computed anew where they are wrong, as in captures of a sending host; keep: as captured")
	fs.Var(&p.limit, "packets_of_file", "`packets` of the capture that are taken; 0: all")
	fs.Var(&p.preset, "preset", "quick or standard: how long the trials of a search are")
}

// Needs implements Needing.
func (p *Replay) Needs() (lab.Capability, string) {
	if p.toBox() {
		return lab.Calling, ""
	}
	return 0, p.service.Value
}

// toBox says whether the capture ends in the box.
func (p *Replay) toBox() bool { return p.target.Value == toBox }

func (p *Replay) Check(bed *lab.Testbed) error {
	switch {
	case p.file == "":
		return errors.New("file is empty: give a capture, such as --set file=web.pcap, or appmix")
	case p.toBox() && (p.service.Value != asRouted || p.direction.Value != trial.LanToWAN):
		return errors.New("target box: nothing is forwarded: leave service and direction as they are")
	case p.rate.speed > 0 && p.loops.Value > 1 && p.senders.Value > 1:
		return fmt.Errorf("senders %d: at the capture's own times each would repeat its part by that part's own length, and they would drift apart: leave loops at 1, or give a rate or flat-out", p.senders.Value)
	case p.service.Value == translated && p.direction.Value != trial.LanToWAN:
		return errors.New("direction wan-to-lan: with service nat only answers get through, and a capture has none to this box's flows")
	case p.service.Value == translated && p.compare.Value != byService && p.compare.Value != translated:
		return fmt.Errorf("compare %s: service nat translates addresses, so no frame would be the same: use auto or nat", p.compare.Value)
	case p.rate.searched && p.loops.Value != 1:
		return fmt.Errorf("loops %d: a search chooses the passes of its trials", p.loops.Value)
	}
	if bed == nil {
		return nil
	}
	switch {
	case len(bed.Ports) == 0:
		return fmt.Errorf("topology %s has no port", bed.Topology)
	case p.toBox():
	case len(bed.Ports) < 2:
		return fmt.Errorf("topology %s has one port, and frames are told apart at a second: use one with two cables, or have the box tell them apart (--set target=box)", bed.Topology)
	default:
		if err := trial.Tags(bed, p.vlan.Value); err != nil {
			return err
		}
	}
	f, err := p.facts(context.Background(), bed)
	if err != nil {
		return err
	}
	if d := f.pass(p.rate); time.Duration(p.loops.Value)*d > longestReplay || d > longestReplay {
		return fmt.Errorf("%d passes over %s take %v at rate %v, and %v is the most: give fewer, a higher rate, or a part of the file (packets_of_file)", p.loops.Value, p.name(), (time.Duration(p.loops.Value) * d).Round(time.Second), p.rate.text, longestReplay)
	}
	return nil
}

// longestReplay bounds a trial.
const longestReplay = time.Hour

// sameness is what the box leaves as it is.
func (p *Replay) sameness(bed *lab.Testbed) frame.Sameness {
	compare := p.compare.Value
	switch {
	case compare != byService:
	case p.toBox() && p.vlan.Value > 0: // a card may take the tag off before anybody counts
		compare = asRouted
	case p.toBox():
		compare = asBridged
	default:
		if compare = p.service.Value; trial.Bridges(bed) {
			compare = asBridged
		}
	}
	return map[string]frame.Sameness{asBridged: frame.SameBridged, asRouted: frame.SameRouted, translated: frame.SameTranslated}[compare]
}

func (p *Replay) Estimate() (int, time.Duration) {
	const around = 400 * time.Millisecond // the meter's program, the table, settling
	settle := trial.EffortOf(p.preset.Value).Settle
	if p.rate.searched {
		s := p.searching()
		trials, d := s.Estimate()
		trials += 4
		return trials, d + 3*s.Overload + 2*s.Rest + time.Duration(trials)*(around+settle)
	}
	d := time.Second
	if p.read != nil {
		d = time.Duration(p.loops.Value) * p.read.pass(p.rate)
	}
	return 1, d + around + settle
}

func (p *Replay) Run(ctx context.Context, env *procedure.Env) (_ procedure.Outcome, err error) {
	m := &point{Replay: p, env: env, effort: trial.EffortOf(p.preset.Value), out: procedure.Outcome{Status: result.Passed}}
	if m.facts, err = p.facts(ctx, env.Bed); err != nil {
		return procedure.Outcome{}, err
	}
	defer func() { err = errors.Join(err, m.close()) }()
	m.out.Warnings = append(m.out.Warnings, m.facts.notes...)
	if few := trial.FewSenders(env.Bed, p.senders.Value); few != "" {
		m.warn("%s", few)
	}
	if err := env.Bed.Serve(ctx, p.asked()); err != nil { // the tester alone may have to send into the box
		return procedure.Outcome{}, err
	}
	if invalid, err := m.selfTest(ctx); err != nil || invalid != "" {
		return procedure.Outcome{Status: result.Invalid, Reason: invalid}, err
	}
	if _, alone := trial.SelfTestPorts(env.Bed); alone && p.service.Value == translated { // the self-test's connections are in the box's table
		if err := env.Bed.Serve(ctx, p.asked()); err != nil {
			return procedure.Outcome{}, err
		}
	}
	if p.rate.searched {
		err = m.search(ctx)
	} else {
		err = m.once(ctx)
	}
	return m.out, err
}

// asked is what the DUT is to do: it routes networks behind both ports, or counts at its own.
func (p *Replay) asked() lab.Service {
	if p.toBox() {
		return lab.Service{Kind: lab.Listening, Flows: 1}
	}
	return lab.Service{Kind: p.service.Value, Flows: 1, Networks: frame.MaxNetworks}
}
