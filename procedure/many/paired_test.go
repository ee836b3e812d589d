// SPDX-License-Identifier: Apache-2.0

package many

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"math"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"boxdyno/agent"
	"boxdyno/ledger"
	"boxdyno/link"
	"boxdyno/procedure"
	"boxdyno/procedure/capture"
	"boxdyno/procedure/far"
	"boxdyno/procedure/rfc2544"
	"boxdyno/result"
	"boxdyno/subject/mpi"
	"boxdyno/unit"
)

// A nowhere is a way to a board that answers nothing.
type nowhere struct{ pipe }

func (nowhere) Publish(string, string, []byte) error { return nil }

// A send is what a board does in the place of its procedure, once it is let begin a trial.
type send func(ctx context.Context, from string, with *far.With) (procedure.Outcome, error)

// pairsOf are boards b1 to b4, each of which sends by f.
func pairsOf(t *testing.T, f send) *paired {
	b := newBench(t, 4)
	p := PairsSpec(capture.GivenSpec, b).New().(*pairs)
	p.skew.v = 1 // beside other tests
	r := &paired{p: p, limit: time.Minute, waits: time.Minute, ceilings: map[string]result.Record{}}
	for _, name := range []string{"b1", "b2", "b3", "b4"} {
		r.members = append(r.members, &member{name: name, conn: link.Over(name, link.Hello{}, &nowhere{}, func() error { return nil })})
		r.at = append(r.at, mpi.Net{Interface: "eth1", Address: netip.MustParseAddr("10.0.1.1")})
	}
	r.run = func(ctx context.Context, c *link.Conn, _ string, _ []result.Pair, env *procedure.Env, with *far.With) (o procedure.Outcome, err error) {
		_, err = env.Trial(ctx, nil, func(ctx context.Context) (procedure.Outcome, error) { return f(ctx, c.Name, with) })
		return o, err
	}
	return r
}

// sent is a board's trial of ten frames that begins at the common instant.
func sent(ctx context.Context, with *far.With) (procedure.Outcome, error) {
	at, err := with.Begin(ctx)
	end := at + unit.Instant(time.Millisecond)
	time.Sleep(time.Duration(end - unit.Now()))
	counts(with, 0)
	counts(with, 1000)
	return procedure.Outcome{
		Status: result.Passed, Began: procedure.Began{At: at, Heard: time.Second}, Phases: []result.Phase{{Begin: at, End: end}},
		Load: &result.Load{Intended: 10, Offered: 10}, Account: &result.Account{Accepted: 10, Received: 10},
		Values: []result.Value{{Metric: "counting_rate_fps", Value: 1}, {Metric: "uncounted_ratio"}},
	}, err
}

// counts has the tester hear that the other board's port has counted n frames each way.
func counts(with *far.With, n uint64) {
	var r agent.LedgerReading
	for _, counter := range []string{"rx_packets", "tx_packets"} {
		r.Tallies = append(r.Tallies, ledger.Tally{Term: result.Term{Place: result.DUTNIC, From: "eth1 " + counter}, Value: n, Passed: true})
	}
	raw, _ := json.Marshal(r) // it is plain data
	with.Pair.Hear(raw)
}

// A pair that does not end is ended and named, and the other one goes on.
func TestPairThatDoesNotEnd(t *testing.T) {
	r := pairsOf(t, func(ctx context.Context, from string, with *far.With) (procedure.Outcome, error) {
		o, err := sent(ctx, with)
		if from == "b1" {
			<-ctx.Done()
			return o, ctx.Err()
		}
		return o, err
	})
	r.limit = 2 * time.Second // the other one has as long
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	outs := r.round(ctx, [][2]int{{0, 1}, {2, 3}})
	if o := outs[0]; o.Status != result.Invalid || o.Reason != "board b1: what it sends to b2 did not end within 2s" || ctx.Err() != nil {
		t.Errorf("%s %s, %v", o.Status, o.Reason, ctx.Err())
	}
	if o := outs[1]; o.Status != result.Passed {
		t.Errorf("%s %s", o.Status, o.Reason)
	}
}

// Of pairs in which one board forwards, the first trial waits for the other pairs and the others do
// not. Each is judged, and all of them are the pair's work.
func TestPairsThatForward(t *testing.T) {
	b := newBench(t, 4)
	r := pairsOf(t, nil)
	r.p, r.arms = PairsSpec(rfc2544.ArmSpec, b).New().(*pairs), true
	r.p.skew.v = 1
	var mu sync.Mutex
	first := map[string]unit.Instant{}
	r.run = func(ctx context.Context, c *link.Conn, _ string, _ []result.Pair, env *procedure.Env, with *far.With) (o procedure.Outcome, err error) {
		if !with.Pair.Routes {
			t.Error("the other board does not route")
		}
		var began unit.Instant
		for n, want := range []result.Status{result.Failed, result.Invalid, result.Passed} {
			rec, err := env.Trial(ctx, nil, func(ctx context.Context) (procedure.Outcome, error) {
				o, err := sent(ctx, with)
				o.Status, o.Values = "", nil
				o.Load, o.Account = &result.Load{Intended: 100, Offered: 100}, &result.Account{Accepted: 100, Received: 100}
				switch n {
				case 0:
					began = o.Began.At
					o.Account.Received = 90
				case 1:
					o.Load.Offered = 50
				}
				return o, err
			})
			if err != nil || rec.Status != want {
				t.Errorf("trial %d: %s %s, %v", n, rec.Status, rec.Reason, err)
			}
		}
		mu.Lock()
		defer mu.Unlock()
		first[c.Name] = began
		return procedure.Outcome{Status: result.Passed, Load: &result.Load{Intended: 100, Offered: 10}, Account: &result.Account{Accepted: 1}, Values: []result.Value{{Metric: "throughput_fps", Value: 5}}}, nil
	}
	outs := r.round(t.Context(), [][2]int{{0, 1}, {2, 3}})
	if first["b1"] != first["b3"] || first["b1"] == 0 {
		t.Errorf("%v", first)
	}
	for i, o := range outs {
		if o.Status != result.Passed || len(o.Phases) != 1 || o.Phases[0].Seconds() < 0.003 || o.Phases[0].Begin != first["b1"] || len(o.Boards) != 2 || o.Load != nil || o.Account == nil {
			t.Errorf("pair %d: %+v", i, o)
		}
	}
}

// A pair is late by the trial that all begin at one instant, however long its other ones last.
func TestPairIsLateByItsFirstTrial(t *testing.T) {
	r := pairsOf(t, nil)
	r.p, r.arms = PairsSpec(rfc2544.ArmSpec, newBench(t, 4)).New().(*pairs), true
	r.p.skew.v = 0.5
	r.run = func(ctx context.Context, c *link.Conn, _ string, _ []result.Pair, env *procedure.Env, with *far.With) (o procedure.Outcome, err error) {
		late := map[string]time.Duration{"b1": 50 * time.Millisecond}[c.Name]
		for _, lasts := range []time.Duration{time.Millisecond, 200 * time.Millisecond} {
			_, err = env.Trial(ctx, nil, func(ctx context.Context) (procedure.Outcome, error) {
				o, err := sent(ctx, with)
				o.Began.At += unit.Instant(late)
				end := o.Began.At + unit.Instant(lasts)
				time.Sleep(time.Duration(end - unit.Now()))
				o.Phases = []result.Phase{{Begin: o.Began.At, End: end}}
				return o, err
			})
			late = 0
		}
		return procedure.Outcome{Status: result.Passed, Values: []result.Value{{Metric: "throughput_fps", Value: 5}}}, err
	}
	outs := r.round(t.Context(), [][2]int{{0, 1}, {2, 3}})
	if o := outs[0]; o.Status != result.Invalid || o.Reason != "board b1 began up to 50ms from the common instant, more than 50 % of 0.001 s of work" {
		t.Errorf("%s %s", o.Status, o.Reason)
	}
	if o := outs[1]; o.Status != result.Passed {
		t.Errorf("%s %s", o.Status, o.Reason)
	}
}

// Where a board heard of the instant too late, the next round's is twice as far ahead.
func TestPairsLead(t *testing.T) {
	r := pairsOf(t, func(ctx context.Context, _ string, with *far.With) (procedure.Outcome, error) {
		o, err := sent(ctx, with)
		o.Began.Heard = heardLead / 2
		return o, err
	})
	ahead := func() time.Duration {
		r.round(t.Context(), [][2]int{{0, 1}, {2, 3}})
		return r.barrier.lead
	}
	if first, second := ahead(), ahead(); first <= leadLeast || second != 2*first {
		t.Errorf("%v after %v", second, first)
	}
}

// A board that dies in mid-round ends its pair at once and is named, whichever end it is.
func TestPairWhoseBoardDies(t *testing.T) {
	for _, dies := range []int{0, 1} {
		var r *paired
		r = pairsOf(t, func(ctx context.Context, from string, with *far.With) (procedure.Outcome, error) {
			o, err := sent(ctx, with)
			if from == "b1" {
				r.members[dies].conn.Fail(errors.New("nothing is heard from it"))
				select { // as far.Run
				case <-r.members[0].conn.Ended():
					return o, r.members[0].conn.Err()
				case <-ctx.Done():
					return o, ctx.Err()
				}
			}
			return o, err
		})
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		outs := r.round(ctx, [][2]int{{0, 1}, {2, 3}})
		if want := "board " + r.members[dies].name + ": nothing is heard from it"; outs[0].Status != result.Invalid || outs[0].Reason != want || outs[1].Status != result.Passed || ctx.Err() != nil {
			t.Errorf("%s %s, %s; want %s", outs[0].Status, outs[0].Reason, outs[1].Status, want)
		}
	}
}

// A wired board answers by what it is asked for.
type wired struct {
	nowhere
	server *link.Server
}

func (w *wired) Publish(subject, reply string, data []byte) error {
	w.server.Take(context.Background(), subject, reply, data)
	return nil
}

// Boards are asked for their networks side by side, and one that does not answer is named.
func TestBoardsThatAreAskedAtOnce(t *testing.T) {
	was := answering
	defer func() { answering = was }()
	for _, silent := range []bool{false, true} {
		if answering = time.Minute; silent {
			answering = time.Second // the others have as long
		}
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		var asked sync.WaitGroup // each answers once all are asked
		asked.Add(3)
		var members []*member
		for i, name := range []string{"b1", "b2", "b3"} {
			w := &wired{}
			c := link.Over(name, link.Hello{}, w, func() error { return nil })
			w.server = link.NewServer(func(method string) link.Handler {
				return func(ctx context.Context, _ *link.Request) (any, error) {
					if method != string(agent.NetworkNets) {
						return agent.None{}, nil
					}
					if asked.Done(); silent && i == 2 {
						<-ctx.Done()
						return nil, ctx.Err()
					}
					asked.Wait()
					prefix := netip.MustParsePrefix("10.0.1.0/24")
					return []mpi.Net{{Prefix: prefix, Address: netip.AddrFrom4([4]byte{10, 0, 1, byte(i + 1)}), Interface: "eth1"}}, nil
				}
			}, func(subject string, data []byte) error { c.Deliver(subject, data); return nil })
			members = append(members, &member{name: name, conn: c})
		}
		b := newBench(t, 4)
		want := ""
		if silent {
			want = "board b3 has not answered network.nets for 1s"
		}
		if at, why := PairsSpec(capture.GivenSpec, b).New().(*pairs).cables(ctx, members); why != want || !silent && len(at) != 3 {
			t.Errorf("pairs: %v, %q, want %q", at, why, want)
		}
		asked.Add(3)
		if ends, why := StreamSpec(b).New().(*mesh).ends(ctx, members); why != want || !silent && len(ends) != 3 {
			t.Errorf("streams: %v, %q, want %q", ends, why, want)
		}
	}
}

// A pair whose sender tells what cannot be is invalid by its name and has no figures; and it
// speaks of no boards.
func TestPairThatCannotBe(t *testing.T) {
	for want, lie := range map[string]func(o *procedure.Outcome){
		"": func(o *procedure.Outcome) { o.Boards = []result.Board{{Name: "b9"}} },
		"board b1: it says that counting_rate_fps is 1e+300":                       func(o *procedure.Outcome) { o.Values[0].Value = 1e300 },
		"board b1: it says that it worked at an instant outside of the trial":      func(o *procedure.Outcome) { o.Phases[0].End += unit.Instant(time.Hour) },
		"board b1: it did not say when it began":                                   func(o *procedure.Outcome) { o.Began = procedure.Began{} },
		"board b1: it says that it worked at an instant outside of the trial, too": func(o *procedure.Outcome) { o.Began.At -= unit.Instant(time.Hour) },
	} {
		r := pairsOf(t, func(ctx context.Context, from string, with *far.With) (procedure.Outcome, error) {
			o, err := sent(ctx, with)
			o.Load, o.Account = &result.Load{Intended: 10, Offered: 10}, &result.Account{Accepted: 10, Received: 5, Drops: []result.Term{{Place: result.Link, N: 5}}}
			if from == "b1" {
				lie(&o)
			}
			return o, err
		})
		outs := r.round(t.Context(), [][2]int{{0, 1}, {2, 3}})
		o := outs[0]
		if want, _, _ := strings.Cut(want, ", too"); o.Reason != want || (o.Status == result.Invalid) != (want != "") || (len(o.Values) == 0) != (want != "") || outs[1].Status != result.Passed {
			t.Errorf("%s %q, %d figures, and %s; want %q", o.Status, o.Reason, len(o.Values), outs[1].Status, want)
		}
		if share := wayLost(result.Record{Status: o.Status, Account: o.Account, Load: o.Load}); share > 0 {
			t.Errorf("%q: a share of %g was lost on the way", want, share)
		}
		if len(o.Boards) != 2 || o.Boards[0].Name != "b1" || o.Boards[1].Name != "b2" {
			t.Errorf("%q: %+v", want, o.Boards)
		}
	}
}

// Pairs that forward may begin later than others, for their first trial is short and in no figure.
func TestMostSkew(t *testing.T) {
	b := newBench(t, 2)
	for want, s := range map[string]procedure.Spec{"0.02": capture.GivenSpec, "0.1": rfc2544.ArmSpec} {
		fs := flag.NewFlagSet("", flag.ContinueOnError)
		PairsSpec(s, b).New().Flags(fs)
		if got := fs.Lookup("most_skew").DefValue; got != want {
			t.Errorf("%s: %s, want %s", s.Name, got, want)
		}
		for text, can := range map[string]bool{"0": false, "-1": false, "NaN": false, "0.5": true, "1.5": true, "200": true, "201": false} {
			if err := fs.Set("most_skew", text); (err == nil) != can {
				t.Errorf("%s: %v", text, err)
			}
		}
	}
}

// A pair's rate is at most what the slower of its two links carries, whatever its sender says of its own.
func TestPairThatIsTooFast(t *testing.T) {
	for name, c := range map[string]struct {
		from, to  unit.BitRate
		value, hi float64
		want      string
	}{
		"as fast as can be": {1e9, 1e9, 1_488_095, 1_860_000, ""},
		"a lie":             {1e30, 1e9, 2e6, 0, "it says that throughput_fps is 2e+06, and a cable of 1.00 Gbit/s carries no more than 1.49e+06 frames a second"},
		"a slow sender":     {1e8, 1e9, 2e5, 0, "it says that throughput_fps is 200000, and a cable of 100 Mbit/s carries no more than 1.49e+05 frames a second"},
		"not known":         {0, 0, 1e8, 2e8, ""},
		"not known, a lie":  {0, 0, 1e17, 0, "it says that throughput_fps is 1e+17, and a cable of 400 Gbit/s carries no more than 5.95e+08 frames a second"},
		"its bound":         {1e9, 1e9, 1e6, 1e17, "it says that throughput_fps is 1e+17, and a cable of 1.00 Gbit/s carries no more than 1.49e+06 frames a second"},
		"below nothing":     {1e9, 1e9, -1e6, 0, "it says that throughput_fps is -1e+06, and a cable of 1.00 Gbit/s carries no more than 1.49e+06 frames a second"},
	} {
		r := pairsOf(t, nil)
		r.at[0].Speed, r.at[1].Speed = c.from, c.to
		v := result.Value{Metric: "throughput_fps", Value: c.value}
		if c.hi > 0 {
			v.Hi = &c.hi
		}
		o := procedure.Outcome{Status: result.Passed, Began: procedure.Began{At: 150}, Phases: []result.Phase{{Begin: 150, End: 180}}, Values: []result.Value{{Metric: "stalls", Value: 1e12}, v}}
		r.believe(&o, [2]int{0, 1}, math.Inf(1), 150, 100, 200)
		want := c.want
		if want != "" {
			want = "board b1: " + want
		}
		if o.Reason != want || (o.Status == result.Invalid) != (want != "") || (len(o.Values) == 0) != (want != "") {
			t.Errorf("%s: %s %q, %d figures; want %q", name, o.Status, o.Reason, len(o.Values), want)
		}
	}
}

// A sender that passes without a trial is invalid, whether another pair has one or none has.
func TestPairWithoutATrial(t *testing.T) {
	for _, others := range []bool{true, false} {
		r := pairsOf(t, func(ctx context.Context, _ string, with *far.With) (procedure.Outcome, error) { return sent(ctx, with) })
		run := r.run
		r.run = func(ctx context.Context, c *link.Conn, name string, params []result.Pair, env *procedure.Env, with *far.With) (procedure.Outcome, error) {
			if others && c.Name == "b3" {
				return run(ctx, c, name, params, env, with)
			}
			return procedure.Outcome{Status: result.Passed, Values: []result.Value{{Metric: "counting_rate_fps", Value: 5}, {Metric: "uncounted_ratio"}}}, nil
		}
		outs := r.round(t.Context(), [][2]int{{0, 1}, {2, 3}})
		if o := outs[0]; o.Status != result.Invalid || o.Reason != "board b1: it did not say when it began" || len(o.Values) > 0 {
			t.Errorf("%s %q, %d figures", o.Status, o.Reason, len(o.Values))
		}
		if o := outs[1]; (o.Status == result.Passed) != others {
			t.Errorf("the other pair, with a trial %v: %s %q", others, o.Status, o.Reason)
		}
	}
}

// A pair whose two boards tell of the same frames what cannot be true of both is invalid by the names
// of both, and so is one whose figure is more than what came in any of its trials.
func TestPairsThatContradictEachOther(t *testing.T) {
	for want, lie := range map[string]func(o *procedure.Outcome, with *far.With){
		"": func(o *procedure.Outcome, with *far.With) { o.Account.Received, o.Account.Accepted = 1050, 1050 },
		"boards b1 and b2 contradict each other: b1 says that 5000 frames were counted there, and the port of b2 counted 1000 coming in": func(o *procedure.Outcome, with *far.With) {
			o.Account.Accepted, o.Account.Received = 5000, 5000
		},
		"boards b1 and b2 contradict each other: b1 says that 500 frames were counted there, and the port of b2 counted 0 coming in": func(o *procedure.Outcome, with *far.With) {
			with.Pair.Watch()
			counts(with, 7)
			counts(with, 7)
			o.Account.Accepted, o.Account.Received = 500, 500
		},
		"boards b1 says where 10 frames went, and has not asked b2 for its counters": func(_ *procedure.Outcome, with *far.With) { with.Pair.Watch() },
		"board b1: it says that counting_rate_fps is 5e+05, and in none of its trials more than 1e+04 frames a second came": func(o *procedure.Outcome, _ *far.With) {
			o.Values[0].Value = 5e5
		},
		"board b1: it says that counting_rate_fps is 1, and in none of its trials more than 0 frames a second came": func(o *procedure.Outcome, _ *far.With) {
			o.Account, o.Load = nil, nil
		},
		"board b1: it says that counting_rate_fps is 1e+06, and in none of its trials more than 2e+04 frames a second came": func(o *procedure.Outcome, _ *far.With) {
			o.Values[0].Value, o.Phases[0].End = 1e6, o.Phases[0].Begin+unit.Instant(time.Microsecond)
		},
	} {
		r := pairsOf(t, func(ctx context.Context, from string, with *far.With) (procedure.Outcome, error) {
			o, err := sent(ctx, with)
			if from == "b1" {
				lie(&o, with)
			}
			return o, err
		})
		r.least = time.Millisecond
		outs := r.round(t.Context(), [][2]int{{0, 1}, {2, 3}})
		if o := outs[0]; o.Reason != want || (o.Status == result.Invalid) != (want != "") || (len(o.Values) == 0) != (want != "") {
			t.Errorf("%s %q, %d figures; want %q", o.Status, o.Reason, len(o.Values), want)
		}
		if o := outs[1]; o.Status != result.Passed {
			t.Errorf("the other pair: %s %s", o.Status, o.Reason)
		}
	}
}
