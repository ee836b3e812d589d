// SPDX-License-Identifier: Apache-2.0

package many

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"boxdyno/agent"
	"boxdyno/internal/guard"
	"boxdyno/lab"
	"boxdyno/procedure"
	"boxdyno/procedure/far"
	"boxdyno/procedure/internal/metrics"
	"boxdyno/procedure/internal/param"
	"boxdyno/result"
	"boxdyno/subject"
	"boxdyno/subject/mpi"
)

// PairsSpec is a procedure that pairs of boards of the shelf carry out; inner is one that
// sends to software that listens. Pairs without a board in common work at once:
//
//	board A: sender ---cable, switch, cable--- board B: software       at one instant,
//	board C: sender ---cable, switch, cable--- board D: software       round after round
//
// Where inner has the box forward, B is the box. With one cable each it has one arm: it routes
// frames back to A, which counts them. So one clock has their delay, B does a router's work, and
// both ways of each cable are seen. Counting on B would be capture.
//
//	board A: sender, meter ===cable, switch, cable=== board B: routes
//
// A pair's search goes its own way; pairs begin the first trial at one instant. Once all searches have
// ended, all pairs offer at one time what each carries:
//
//	pair 1: trial .. search ........ wait | at once
//	pair 2: trial .. search .. wait ..... | at once        carried together
func PairsSpec(inner procedure.Spec, shelf Shelf) procedure.Spec {
	own, doc, each := pairMetrics, "each board of several sends to software on another one, pairs at once: ", []string{"uncounted_ratio", "counting_rate_fps"}
	if far.Arms(inner) {
		own, doc, each = forwardMetrics, "each board of several has another one send frames back to it, pairs at once: ", []string{"throughput_fps", "forwarding_rate_fps", "latency_p50_s"}
	}
	s := procedure.Spec{
		Name: Prefix + inner.Name, Lab: Lab, Alone: true, Quick: inner.Quick, Deviation: inner.Deviation, Standard: inner.Standard,
		Doc:     doc + inner.Doc,
		Names:   append([]string{"nodes"}, inner.Names...),
		Metrics: slices.Concat(own, metrics.List(declared).Pick("start_skew_p50_s", "start_skew_p99_s", "start_skew_max_s", "clock_error_s")),
		Trials:  &result.Trials{Axis: "from", Across: "to", Title: "from each board (row) to each other one (column)", Metrics: metrics.List(inner.Metrics).Pick(each...)},
	}
	if far.Arms(inner) {
		s.Trials.Metrics = append(s.Trials.Metrics, atOnceMetrics.Pick("at_once_fps", "at_once_lost")...)
	}
	s.Metrics[len(own)].Group = "How late pairs began to send"
	s.New = func() procedure.Procedure {
		p := &pairs{carried: newCarried(inner, newChosen(shelf, 2, 64)), which: param.NewChoice(everyPair, []string{everyPair, onePair})}
		if far.Arms(inner) {
			p.skew.v = armSkew
		}
		return p
	}
	return s
}

var pairMetrics = metrics.List{
	{Name: "pairs_sum_fps", Label: "together frame/s", Group: "Pairs of boards that send and count at once", Heads: true, Unit: "frame/s", Better: 1, Help: "frames that all pairs of a round counted a second: median of the rounds, from the least to the greatest"},
	{Name: "pairs_worst_fps", Label: "slowest pair", Unit: "frame/s", Better: 1, Help: "frames that the slowest pair counted a second"},
	{Name: "pairs_median_fps", Label: "median", Unit: "frame/s", Better: 1, Help: "the same of half of the pairs at least"},
	{Name: "pairs_rate_spread", Label: "spread", Unit: "1", Share: true, Better: -1, Help: "the fastest pair over the slowest one, less 1"},
	{Name: "pairs_lost_worst", Label: "worst pair lost", Heads: true, Unit: "1", Share: true, Better: -1, Help: "share of its frames that the pair lost which lost most"},
	{Name: "pairs_lost_median", Label: "median lost", Unit: "1", Share: true, Better: -1, Help: "the same of half of the pairs at least"},
}

const (
	// armSkew is most_skew where the trial that all begin at once is in no figure, and may last 0.1 s.
	armSkew = 0.1

	everyPair = "all"
	onePair   = "disjoint"

	// around is what a pair takes beside its trial: testbed and ledgers.
	around = 3 * time.Second
	// overdue is more than a pair may take beside that for all waits that have limits of their
	// own, 240 s together: until software is ready (90 s) and counts (10 s), until others are
	// ready (laggard) and all begin (mostLead), until all is counted (30 s), counters stand still
	// (30 s) and it has ended (procedure.StopPatience).
	overdue = 5 * time.Minute
	// ending is more than the trial of all pairs at one time, and what follows, may wait of these:
	// until others are ready and all begin, until all is counted, counters stand still and it has ended.
	ending = 150 * time.Second
)

// findings are what the pairs of a point have found.
type findings interface {
	add(round [][2]int, recs []result.Record)
	outcome(o *procedure.Outcome, names []string)
}

// A listening procedure has software on the other board, with the parameters that it has.
type listening interface {
	Software() (subject.Named, error)
}

// A lasting procedure has trials that are at least so long.
type lasting interface{ Shortest() time.Duration }

// A forwarding procedure has the other board do a service.
type forwarding interface {
	Asked() lab.Service
	// AtOnce is how long the last trial is (procedure.AtOnce); 0: there is none.
	AtOnce() time.Duration
}

type pairs struct {
	carried
	which   param.Choice
	network mpi.Network
}

// Flags implements Procedure.
func (p *pairs) Flags(fs *flag.FlagSet) {
	p.flags(fs, "`boards` of which pairs are made")
	fs.Var(&p.which, "pairs", "all: each board sends to each other one; disjoint: each board is in one pair, and all pairs work at once")
	fs.Var(&p.network, "network", "`PREFIX` of IPv4 that the frames go by, such as 10.0.1.0/24; auto: the first private one that all are in, beside that of the hub")
}

// Check implements Procedure.
func (p *pairs) Check(*lab.Testbed) error {
	if p.which.Value == onePair && p.nodes.Value%2 != 0 {
		return fmt.Errorf("nodes %d with pairs %s: want an even number of boards", p.nodes.Value, onePair)
	}
	if p.network.IsValid() && far.Arms(p.spec) {
		if err := lab.ArmPrefix(p.network.Prefix); err != nil {
			return err
		}
	}
	return p.check()
}

// Estimate implements Procedure.
func (p *pairs) Estimate() (int, time.Duration) {
	_, d := p.inner.Estimate()
	trials := 0
	all := pairings(p.nodes.Value, p.which.Value == everyPair)
	for _, round := range all {
		trials += len(round)
	}
	return trials, time.Duration(len(all)) * (d + around)
}

// limit is how long a pair may take for its part of a round.
func (p *pairs) limit() time.Duration {
	_, d := p.inner.Estimate()
	return d + around + overdue
}

// pairings are who sends to whom in each round, of n boards: every board to every other
// one, or each in one pair. No board is in two pairs of a round.
func pairings(n int, all bool) (rounds [][][2]int) {
	if !all {
		var once [][2]int
		for i := 0; i+1 < n; i += 2 {
			once = append(once, [2]int{i, i + 1})
		}
		return [][][2]int{once}
	}
	seats := n + n%2 // the last one is nobody's where n is odd
	for r := range seats - 1 {
		var there, back [][2]int
		for i := range seats / 2 {
			a, b := (r+i)%(seats-1), (r-i+seats-1)%(seats-1)
			if i == 0 {
				b = seats - 1
			}
			if a < n && b < n {
				there, back = append(there, [2]int{a, b}), append(back, [2]int{b, a})
			}
		}
		rounds = append(rounds, there, back)
	}
	return rounds
}

// Run implements Procedure.
func (p *pairs) Run(ctx context.Context, env *procedure.Env) (o procedure.Outcome, err error) {
	names := p.names(env)
	members, unfit, err := p.gather(ctx, names)
	if members == nil {
		return unfit, err
	}
	at, why := p.cables(ctx, members)
	if err := ctx.Err(); err != nil {
		return o, err
	}
	if why != "" {
		return procedure.Outcome{Status: result.Invalid, Reason: why}, nil
	}
	r := &paired{p: p, members: members, at: at, limit: p.limit(), waits: p.limit(), run: far.Run, ceilings: map[string]result.Record{}, arms: far.Arms(p.spec)}
	if s, ok := p.inner.(listening); ok {
		software, err := s.Software()
		if err != nil {
			return o, err
		}
		r.software.Name = software.Name
		r.software.Options, _ = agent.Options(software)
	}
	if s, ok := p.inner.(forwarding); ok {
		r.service, r.lasts = s.Asked(), s.AtOnce()
		r.waits -= r.lasts + ending
	}
	if l, ok := p.inner.(lasting); ok {
		r.least = l.Shortest()
	}
	var f findings = &found{}
	if r.arms {
		f = &forwarded{}
	}
	for n, round := range pairings(len(members), p.which.Value == everyPair) {
		var cfgs [][]result.Pair
		for _, pair := range round {
			cfgs = append(cfgs, []result.Pair{{Key: "from", Value: names[pair[0]]}, {Key: "to", Value: names[pair[1]]}, {Key: "round", Value: strconv.Itoa(n + 1)}, {Key: "pairs_at_once", Value: strconv.Itoa(len(round))}, {Key: "over", Value: at[0].Prefix.String()}})
		}
		recs, err := env.Trials(ctx, cfgs, func(ctx context.Context) ([]procedure.Outcome, error) { return r.round(ctx, round), ctx.Err() })
		if err != nil {
			return o, err
		}
		f.add(round, recs)
	}
	f.outcome(&o, names)
	return o, nil
}

// cables are where the boards are in one network, beside that of their hub, or why they are
// in none.
func (p *pairs) cables(ctx context.Context, members []*member) ([]mpi.Net, string) {
	nets, whys := networks(ctx, members)
	for i, m := range members {
		for _, n := range nets[i] {
			if n.Control && n.Prefix == p.network.Prefix {
				whys[i] = fmt.Sprintf("board %s reaches its hub by %s: test frames need another cable", m.name, n.Prefix)
			}
		}
		nets[i] = slices.DeleteFunc(nets[i], func(n mpi.Net) bool { return n.Control })
		if whys[i] == "" && len(nets[i]) == 0 {
			whys[i] = fmt.Sprintf("board %s has no private IPv4 network but that of its hub: test frames need another cable, and an address there", m.name)
		}
	}
	if why := several(whys); why != "" {
		return nil, why
	}
	at, err := mpi.Shared(nets, p.network.Prefix)
	for _, n := range at {
		if err == nil && far.Arms(p.spec) {
			err = lab.ArmPrefix(n.Prefix)
		}
	}
	if err != nil {
		return nil, procedure.Sentence(err)
	}
	return at, ""
}

// networks are the IPv4 networks that each board is in, or why they are not known. Each is
// asked more beside, whose error says why, too.
func networks(ctx context.Context, members []*member, more ...agent.Ask[agent.None, agent.None]) ([][]mpi.Net, []string) {
	nets, whys := make([][]mpi.Net, len(members)), make([]string, len(members))
	atOneInstant(len(members), func(i int) {
		m := members[i]
		all, err := agent.NetworkNets.Within(ctx, m.conn, agent.None{}, answering)
		for _, ask := range more {
			if err == nil {
				_, err = ask.Within(ctx, m.conn, agent.None{}, answering)
			}
		}
		if err != nil {
			whys[i] = blame(m.name, err)
			return
		}
		nets[i] = slices.DeleteFunc(all, func(n mpi.Net) bool { return !n.Address.Is4() || !n.Prefix.IsValid() })
	})
	return nets, whys
}

// answering is how long a board may take for an answer that costs it no work.
var answering = 20 * time.Second

// blame says that a board's error is its own.
func blame(name string, err error) string {
	text := procedure.Sentence(err)
	if strings.HasPrefix(text, name+" ") {
		return "board " + text
	}
	return "board " + name + ": " + strings.TrimPrefix(text, name+": ")
}

// atOneInstant carries f out for each of n pairs side by side.
func atOneInstant(n int, f func(i int)) {
	var all guard.Group
	for i := range n {
		all.Go(func() { f(i) })
	}
	all.Wait()
}
