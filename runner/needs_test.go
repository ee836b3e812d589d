// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"boxdyno/host"
	"boxdyno/lab"
	"boxdyno/procedure"
	"boxdyno/result"
)

// dry is what a dry run asks, of one procedure at one topology.
func dry(c Catalogue, topology, use string, sets ...string) ([]Point, Plan, error) {
	p := Use(use)
	p.SetLab(topology, "--lab")
	for _, s := range sets {
		if err := p.Set(c, s); err != nil {
			return nil, p, err
		}
	}
	p, err := p.Resolve(c)
	if err != nil {
		return nil, p, err
	}
	points, err := p.Points(c)
	if err == nil {
		_, err = Check(c, points, nil)
	}
	return points, p, err
}

// What a dry run refuses is a wrong value in one sentence, or something that this machine
// lacks.
func TestDryRunRefuses(t *testing.T) {
	c := Plugins()
	for _, x := range []struct {
		lab, use, sets, want string
	}{
		{"mem", "forward", "delay=-1s", "delay -1s: want 0 to 1m"},
		{"mem", "forward", "queue=9223372036854775807", "queue 9223372036854775807"},
		{"mem", "forward", "capacity=1 queue=100000", "holds frames for more than 1h"},
		{"mem", "forward", "reorder_depth=-1", "depth"},
		{"mem", "forward", "mtu=1280 frame_size=1518", "it needs an MTU of 1500, and port lan has 1280"},
		{"mem", "forward", "service=nat", "forward needs service nat, and topology mem has none"},
		{"mem", "capture", "", "capture needs a port of the DUT"},
		{"mem", "connections", "", "connections needs ports of a kernel"},
		{"sandbox", "forward", "mtu=1280 frame_size=1518", "it needs an MTU of 1500"},
		{"sandbox", "ids", "capture=af-xdp", "a veth has none"},
		{"gateways", "vpn", "mtu=1280", "give --set mtu=1500"},
		{"wire2", "forward", "", "port_a is not given"},
		{"wire2", "forward", "port_a=nosuch0 port_b=nosuch1", "there is no port nosuch0"},
		{"wire2", "forward", "port_a=lo port_b=nosuch1", "port lo is not of Ethernet"},
		{"wire2", "forward", "port_a=a port_b=a", "port a is given twice"},
		{"wire2", "forward", "port_a=a port_b=b address_a=8.8.8.8", "public address 8.8.8.8"},
		{"pair", "forward", "port_a=a", "the DUT is not named"},
		{"pair", "forward", "port_a=a ssh=x", "dut_a is not given"},
		{"here", "cpu", "parallel=cpu1000", "CPU 1000 is not one of those"},
		{"here", "stream", "", "use --lab gateways"},
		{"sandbox", "soak", "", "use --lab here"},
		{"sandbox", "crypto", "", "use --lab here"},
		{"here", "infer", "rate=1k", "use --lab sandbox"},
		{"pair", "infer", "", "programs can run on by themselves, and topology pair has none"},
		{"wire2", "infer", "", "programs can run on by themselves, and topology wire2 has none"},
		{"loop", "infer", "rate=1k", "use --lab sandbox"},
		{"here", "vpn", "traffic=tcp", "use --lab gateways"},
		{"sandbox", "storage", "", "use --lab here"},
		{"wire2", "forward", "heat=10m", "loaded or heated, and topology wire2 has none: use --lab sandbox"},
	} {
		_, _, err := dry(c, x.lab, x.use, strings.Fields(x.sets)...)
		var plan *PlanError
		if err == nil || !strings.Contains(err.Error(), x.want) || !errors.As(err, &plan) || errors.As(err, new(*host.Missing)) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s on %s with %s: %v, want %s", x.use, x.lab, x.sets, err, x.want)
		}
	}
	for _, text := range []string{"{plug: 'file:///etc/passwd'}", "{plug: 'http://'}", "{reading: lots}"} {
		p, err := Parse("plan.yaml", []byte("procedures: [forward]\ntelemetry: "+text))
		if err == nil {
			_, err = p.Resolve(c)
		}
		var plan *PlanError
		if err == nil || !errors.As(err, &plan) || errors.As(err, new(*host.Missing)) {
			t.Errorf("telemetry %s: %v", text, err)
		}
	}
}

// values of which some are wrong, whatever the parameter.
var oddValues = []string{"0", "1", "2", "-1", "64", "1280", "1518", "9000", "1000000", "9223372036854775807", "0.5", "1.5", "NaN", "1s", "-1s", "300ms", "100h",
	"1k", "200k", "1Mbps", "1Gbps", "0.001bps", "search", "all", "none", "auto", "imix", "true", "64:7+594:4", "cpu:1@50%", "../x", "random:0.1", "every:2"}

func drawSet(t *rapid.T, d declarer) (sets []string) {
	var names []*flag.Flag
	flags(d).VisitAll(func(f *flag.Flag) { names = append(names, f) })
	if len(names) == 0 {
		return nil
	}
	for range rapid.IntRange(0, 3).Draw(t, "n") {
		f := rapid.SampledFrom(names).Draw(t, "flag")
		values := oddValues
		if v, ok := f.Value.(interface{ Values() []string }); ok && rapid.Bool().Draw(t, "known") {
			values = v.Values()
		}
		sets = append(sets, f.Name+"="+rapid.SampledFrom(values).Draw(t, "value"))
	}
	return sets
}

var errTrial = errors.New("the first trial")

// What a dry run accepts the run's own checks accept, up to the first trial, and what they
// accept the dry run does: of topologies that anybody can build.
func TestDryRunIsTheRun(t *testing.T) {
	c := Plugins()
	both, accepted, refused := 0, map[string]bool{}, 0
	began := time.Now()
	rapid.Check(t, func(t *rapid.T) {
		top := rapid.SampledFrom([]string{"mem", "here"}).Draw(t, "lab")
		var specs []procedure.Spec
		topology := c.Labs[slices.IndexFunc(c.Labs, func(s lab.Spec) bool { return s.Name == top })]
		for _, s := range c.Procedures {
			if s.Needs&^topology.Offers == 0 && s.Name != "soak" { // it asks stress-ng
				specs = append(specs, s)
			}
		}
		spec := rapid.SampledFrom(specs).Draw(t, "procedure")
		sets := append(drawSet(t, spec.New()), drawSet(t, topology.New())...)
		points, p, err := dry(c, top, spec.Name, sets...)
		if points == nil {
			return // no plan
		}
		built, berr := c.topology(p.Lab)
		var bed *lab.Testbed
		if berr == nil {
			bed, berr = built.Build(t.Context())
		}
		if berr == nil {
			defer bed.Close()
			_, berr = Check(c, points, bed)
		}
		if (err == nil) != (berr == nil) {
			t.Fatalf("%s on %s with %v: the dry run says %v, the run %v", spec.Name, top, sets, err, berr)
		}
		if err != nil {
			refused++
			return
		}
		both++
		accepted[spec.Name] = true
		pr, err := points[0].procedure(c)
		if err != nil {
			t.Fatal(err)
		}
		stop := func(context.Context, []result.Pair, func(context.Context) (procedure.Outcome, error)) (result.Record, error) {
			return result.Record{}, errTrial
		}
		named := func(ctx context.Context, _ string, cfg []result.Pair, f func(context.Context) (procedure.Outcome, error)) (result.Record, error) {
			return stop(ctx, cfg, f)
		}
		env := &procedure.Env{Bed: bed, Trial: stop, Shared: named, Once: named, Unfinished: func([]result.Pair) *result.Record { return nil }}
		o, err := pr.Run(t.Context(), env)
		if err != nil && !errors.Is(err, errTrial) && !errors.As(err, new(*host.Missing)) && !errors.Is(err, host.ErrNotSupported) {
			t.Fatalf("%s on %s with %v: the dry run accepts it, and Run says %v (%+v)", spec.Name, top, sets, err, o)
		}
	})
	t.Log(fmt.Sprint(both, " accepted of ", len(accepted), " procedures, ", refused, " refused, in ", time.Since(began)))
}
