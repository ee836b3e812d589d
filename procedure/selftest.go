// SPDX-License-Identifier: Apache-2.0

package procedure

import (
	"context"
	"flag"
	"time"

	"boxdyno/frame"
	"boxdyno/lab"
	"boxdyno/procedure/internal/param"
	"boxdyno/result"
	"boxdyno/unit"
)

// SelfTestSpec is the row of self-test.
var SelfTestSpec = Spec{
	Name: "self-test", Needs: lab.Ports, Standard: "RFC 2544", Alone: true,
	Doc:     "the tester alone, port to port without the DUT: the ceiling of every figure",
	Names:   []string{"frame_size"},
	Metrics: []result.Metric{ceilingMetric}, New: newSelfTest,
}

// SelfTest is the tester alone, port to port without the DUT: the ceiling that
// every figure is held against (METHOD rule 1).
type SelfTest struct {
	mix    param.FrameMix
	ip     param.Choice
	both   bool
	preset param.Choice
}

func newSelfTest() Procedure {
	return &SelfTest{mix: param.FrameMix{Mix: frame.Mix{Name: "64", Sizes: []unit.FrameSize{64}}}, ip: param.NewChoice("4", ipVersions), preset: param.NewPreset()}
}

func (p *SelfTest) Flags(fs *flag.FlagSet) {
	fs.Var(&p.mix, "frame_size", "`octets` with FCS, imix, or a mix such as 64:7+594:4")
	fs.Var(&p.ip, "ip", "IP version")
	fs.BoolVar(&p.both, "both", p.both, "both directions at once")
	fs.Var(&p.preset, "preset", "quick or standard: how long, how often")
}

func (p *SelfTest) Check(bed *lab.Testbed) error {
	if err := p.mix.Signed(p.ip.Value == "6"); err != nil || bed == nil {
		return err
	}
	ports, _ := selfTestPorts(bed)
	return fits(p.mix.Mix, p.ip.Value == "6", ports)
}

func (p *SelfTest) Estimate() (int, time.Duration) {
	return 1, EffortOf(p.preset.Value).selfTest
}

func (p *SelfTest) Run(ctx context.Context, env *Env) (Outcome, error) {
	rec, err := TesterCeiling(ctx, env, p.mix.Mix, p.ip.Value == "6", p.both, EffortOf(p.preset.Value))
	if err != nil {
		return Outcome{}, err
	}
	return Outcome{
		Status: rec.Status, Reason: rec.Reason, Load: rec.Load, Account: rec.Account,
		Values: []result.Value{rfc2544Figures.Value("ceiling_fps", float64(rec.Ceiling()))},
	}, nil
}
