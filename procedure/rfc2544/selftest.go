// SPDX-License-Identifier: Apache-2.0

package rfc2544

import (
	"context"
	"flag"
	"time"

	"boxdyno/frame"
	"boxdyno/lab"
	"boxdyno/procedure"
	"boxdyno/procedure/internal/param"
	"boxdyno/procedure/internal/trial"
	"boxdyno/result"
	"boxdyno/unit"
)

// SelfTestSpec is the row of self-test.
var SelfTestSpec = procedure.Spec{
	Name: "self-test", Needs: lab.Ports, Standard: "RFC 2544", Alone: true,
	Doc:     "the tester alone, port to port without the DUT: the ceiling of every figure",
	Names:   []string{"frame_size"},
	Metrics: []result.Metric{trial.Ceiling("The tester alone, port to port")}, New: newSelfTest,
}

// SelfTest is the tester alone, port to port without the DUT: the ceiling that
// every figure is held against (METHOD rule 1).
type SelfTest struct {
	mix     param.FrameMix
	ip      param.Choice
	both    bool
	senders param.Count
	preset  param.Choice
}

func newSelfTest() procedure.Procedure {
	return &SelfTest{mix: param.FrameMix{Mix: frame.Mix{Name: "64", Sizes: []unit.FrameSize{64}}}, ip: param.NewChoice("4", trial.IPVersions), preset: param.NewPreset(), senders: trial.NewSenders()}
}

func (p *SelfTest) Flags(fs *flag.FlagSet) {
	fs.Var(&p.mix, "frame_size", param.FrameMixUsage)
	fs.Var(&p.ip, "ip", "IP version")
	fs.BoolVar(&p.both, "both", p.both, "both directions at once")
	fs.Var(&p.senders, "senders", trial.SendersUsage)
	fs.Var(&p.preset, "preset", "quick or standard: how long, how often")
}

func (p *SelfTest) Check(bed *lab.Testbed) error {
	if err := p.mix.Signed(p.ip.Value == "6"); err != nil || bed == nil {
		return err
	}
	ports, _ := trial.SelfTestPorts(bed)
	return trial.Fits(p.mix.Mix, p.ip.Value == "6", ports)
}

func (p *SelfTest) Estimate() (int, time.Duration) {
	return 1, trial.EffortOf(p.preset.Value).SelfTest
}

func (p *SelfTest) Run(ctx context.Context, env *procedure.Env) (procedure.Outcome, error) {
	rec, err := trial.TesterCeiling(ctx, env, p.mix.Mix, p.ip.Value == "6", p.both, p.senders.Value, trial.EffortOf(p.preset.Value))
	if err != nil {
		return procedure.Outcome{}, err
	}
	return procedure.Outcome{
		Warnings: p.few(env.Bed), Status: rec.Status, Reason: rec.Reason, Load: rec.Load, Account: rec.Account,
		Values: []result.Value{figures.Value("ceiling_fps", float64(rec.Ceiling()))},
	}, nil
}

// few is why fewer CPUs send than were asked for, if so.
func (p *SelfTest) few(bed *lab.Testbed) []string {
	if few := trial.FewSenders(bed, p.senders.Value); few != "" {
		return []string{few}
	}
	return nil
}
