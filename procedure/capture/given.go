// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"time"

	"boxdyno/engine"
	"boxdyno/frame"
	"boxdyno/host"
	"boxdyno/lab"
	"boxdyno/procedure"
	"boxdyno/procedure/internal/param"
	"boxdyno/procedure/internal/trial"
	"boxdyno/subject"
	"boxdyno/subject/catalog"
)

// GivenSpec is capture at a rate that is given, by the engine: what a board can carry out that
// sends to another one. It makes no self-test, and nothing of a search is in its code.
var GivenSpec = procedure.Spec{
	Name: "capture", Needs: lab.Listener, Deviation: "captured frames have nobody's MAC address, as behind a mirror port, and end in the box after the subject's copy",
	Quick:   "capture offers a rate for 1 s, not for 10 s",
	Doc:     "software that captures frames: what it counts at a rate, and its cost",
	Names:   []string{"subject", "payload_size", "frame_size", "rate"},
	Metrics: Metrics, Joules: captureJoules, New: newGiven,
}

// givenRate is few frames for any box.
const givenRate = "10k"

// newGivenOf is all parameters of capture, as far as they are those of a rate that is given.
func newGivenOf(specs subject.Specs) *Capture {
	p := &Capture{
		subject: param.NewWord("tcpdump", "+_."),
		payload: param.NewCount(0, 0, mostPayload),
		packets: param.NewCount(0, 0, mostPackets), burst: param.NewCount(0, 0, mostBurst), buffer: param.NewCount(0, 0, 1<<30),
		method: param.NewChoice(methodOurs, []string{methodOurs, methodPublished}), sender: param.NewChoice(generatorEngine, []string{generatorEngine}),
		senders: trial.NewSenders(), vlan: param.NewCount(0, 0, frame.MaxVLAN), preset: param.NewPreset(),
		specs: specs, service: lab.Listening, readiness: readyPatience,
		standing: 2 * time.Second /* libpcap hands over a block once a second */, patience: 10 * time.Second,
	}
	_ = p.rate.Set(givenRate) // it is a rate
	p.opens = func(ctx context.Context, bed *lab.Testbed, cpus []int) (engine.Transmitter, error) {
		s, ok := bed.Means.(lab.Sender)
		if !ok {
			return nil, fmt.Errorf("topology %s: %w: it has no sender of its own", bed.Topology, host.ErrNotSupported)
		}
		return s.OpenSender(ctx, cpus[0])
	}
	return p
}

// A given is capture at a rate that is given. It holds functions, not a *Capture: the linker
// would keep all methods of that.
type given struct {
	flags    func(*flag.FlagSet)
	check    func(*lab.Testbed) error
	estimate func() (int, time.Duration)
	run      func(context.Context, *procedure.Env) (procedure.Outcome, error)
	software func() (subject.Named, error)
	shortest func() time.Duration
}

func newGiven() procedure.Procedure {
	p := newGivenOf(catalog.Captures)
	return &given{
		flags: func(fs *flag.FlagSet) {
			p.given(fs)
			fs.Var(&p.rate, "rate", "`load` in frame/s (200k), in layer-2 bit/s (2Mbps; method published: of UDP payload), payload:2Mbps of UDP payload, line:1Gbps with preamble and gap")
		},
		check: func(bed *lab.Testbed) error {
			if p.rate.Searched() {
				return fmt.Errorf("rate %s: boards send at a rate that is given, such as %s", &p.rate, givenRate)
			}
			return p.Check(bed)
		},
		estimate: func() (int, time.Duration) { return 1, p.lasting() },
		run:      p.atGiven,
		software: p.software,
		shortest: func() time.Duration { return lasts(p.loadOf(p.framesPerSecond())) },
	}
}

// Flags implements Procedure.
func (p *given) Flags(fs *flag.FlagSet) { p.flags(fs) }

// Check implements Procedure.
func (p *given) Check(bed *lab.Testbed) error { return p.check(bed) }

// Estimate implements Procedure.
func (p *given) Estimate() (int, time.Duration) { return p.estimate() }

// Run implements Procedure.
func (p *given) Run(ctx context.Context, env *procedure.Env) (procedure.Outcome, error) {
	return p.run(ctx, env)
}

// Software is what listens on the other board.
func (p *given) Software() (subject.Named, error) { return p.software() }

// Shortest is how long its trial is asked to offer frames.
func (p *given) Shortest() time.Duration { return p.shortest() }

// atGiven carries out a trial at the rate that is given.
func (p *Capture) atGiven(ctx context.Context, env *procedure.Env) (_ procedure.Outcome, err error) {
	m, o, err := p.enter(ctx, env)
	if m == nil {
		return o, err
	}
	if err := m.open(ctx); err != nil {
		return procedure.Outcome{}, err
	}
	defer func() { err = errors.Join(err, m.close()) }()
	err = m.at(ctx, "rate", p.loadOf(p.framesPerSecond()))
	return m.out, err
}
