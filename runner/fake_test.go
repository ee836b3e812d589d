// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"boxdyno/host"
	"boxdyno/lab"
	"boxdyno/procedure"
	"boxdyno/result"
	"boxdyno/unit"
)

// A fake is a catalogue whose procedure and topology do what a test says.
type fake struct {
	// trial is called for every trial that is really carried out; nil: passes.
	trial func(id string) (procedure.Outcome, error)
	// first is called by a procedure before its trials.
	first func(p *probe) error
	build error
	kind  string      // of the testbed; "": memory
	dut   *host.Local // its DUT; nil: none on this machine
	// shared is whether procedures build upon a trial of procedure base.
	shared bool
	// akin is whether a procedure's first rate depends on what its other points have done.
	akin bool
	// left is whether a procedure's rates depend on what is left of the budget.
	left bool
	// extra is whether a pause of kind b only leaves a criterion open.
	extra bool
	// stubborn procedures go on after a trial's error.
	stubborn bool
	traffic  bool     // somebody wants to be told of a procedure's traffic
	ran      []string // IDs of carried-out trials
	builds   int
	closed   atomic.Int32
}

func (f *fake) catalogue() Catalogue {
	return Catalogue{
		Procedures: []procedure.Spec{{
			Name: "probe", Doc: "a search of four steps", Needs: lab.Ports, Names: []string{"kind"},
			Metrics: []result.Metric{{Name: "steps", Unit: "1", Help: "steps"}},
			New:     func() procedure.Procedure { return &probe{fake: f, kind: "a", preset: "quick"} },
		}, {
			Name: "base", Doc: "what others build upon", Names: []string{"kind"},
			Metrics: []result.Metric{{Name: "steps", Unit: "1", Help: "steps"}},
			New:     func() procedure.Procedure { return &base{probe{fake: f, kind: "a", preset: "quick"}} },
		}},
		Labs: []lab.Spec{
			{Name: "sandbox", Doc: "a bench", Offers: lab.Ports, New: func() lab.Topology { return &bench{fake: f, kind: cmp.Or(f.kind, "memory")} }},
			{Name: "other", Doc: "another bench", Offers: lab.Ports, New: func() lab.Topology { return &bench{fake: f, kind: cmp.Or(f.kind, "memory")} }},
		},
	}
}

type bench struct {
	fake *fake
	kind string
	mtu  int
}

func (b *bench) Flags(fs *flag.FlagSet) {
	fs.IntVar(&b.mtu, "mtu", 1500, "octets")
	fs.Func("link_rate", "a rate", func(s string) error { _, err := unit.ParseBitRate(s); return err })
}

func (b *bench) Sketch() (lab.Facts, error) {
	return lab.Facts{Topology: "sandbox", Kind: b.kind, Ports: make([]lab.Port, 2)}, nil
}

func (b *bench) Build(context.Context) (*lab.Testbed, error) {
	b.fake.builds++
	if b.fake.build != nil {
		return nil, b.fake.build
	}
	facts, err := b.Sketch()
	return &lab.Testbed{
		Facts: facts, Settings: []result.Pair{{Key: "mtu", Value: strconv.Itoa(b.mtu)}}, DUT: b.fake.dut,
		Means: closing(func() { b.fake.closed.Add(1) }),
	}, err
}

// closing is called when a testbed is taken down.
type closing func()

func (f closing) Close() error { f(); return nil }

type probe struct {
	fake         *fake
	kind, preset string
	level        int
}

func (p *probe) Flags(fs *flag.FlagSet) {
	fs.Func("kind", "a or b", nil)
	fs.Lookup("kind").Value = &kind{&p.kind}
	fs.Lookup("kind").DefValue = p.kind
	fs.IntVar(&p.level, "level", 5, "0 to 9999")
	fs.StringVar(&p.preset, "preset", "quick", "quick or standard")
}

type kind struct{ p *string }

func (k *kind) String() string   { return *k.p }
func (k *kind) Values() []string { return []string{"a", "b", "c"} }
func (k *kind) Set(s string) error {
	if !slices.Contains(k.Values(), s) {
		return fmt.Errorf("%q is not one of a, b, c", s)
	}
	*k.p = s
	return nil
}

func (p *probe) Check(bed *lab.Testbed) error {
	if p.kind == "c" && p.level > 100 {
		return errors.New("level over 100: kind c has none")
	}
	return nil
}

func (p *probe) Estimate() (int, time.Duration) { return 5, 2 * time.Second }

// Upon makes procedures depend on base, with which they share its one trial.
func (p *probe) Upon() string {
	if p.fake.shared {
		return "base"
	}
	return ""
}

func (p *probe) upon(ctx context.Context, env *procedure.Env) (result.Record, error) {
	return env.Shared(ctx, "base", []result.Pair{{Key: "n", Value: "0"}}, func(context.Context) (procedure.Outcome, error) {
		p.fake.ran = append(p.fake.ran, fmt.Sprintf("base/%s/%d", p.kind, p.level))
		return procedure.Outcome{Status: result.Passed}, nil
	})
}

type base struct{ probe }

func (p *base) Estimate() (int, time.Duration) { return 1, time.Second }

func (p *base) Run(ctx context.Context, env *procedure.Env) (procedure.Outcome, error) {
	r, err := p.upon(ctx, env)
	return procedure.Outcome{Status: r.Status}, err
}

// Run is a search: what it tries next depends on what it saw. Kind b pauses after
// its first and its third trial.
func (p *probe) Run(ctx context.Context, env *procedure.Env) (procedure.Outcome, error) {
	p.fake.traffic = env.Traffic != nil
	if p.fake.first != nil {
		if err := p.fake.first(p); err != nil {
			return procedure.Outcome{}, err
		}
	}
	do := func(id string) (procedure.Outcome, error) {
		p.fake.ran = append(p.fake.ran, id)
		if p.fake.trial != nil {
			return p.fake.trial(id)
		}
		return procedure.Outcome{Status: result.Passed}, nil
	}
	once, err := env.Once(ctx, "self-test/"+p.kind, nil, func(context.Context) (procedure.Outcome, error) { return do("self-test/" + p.kind) })
	if err != nil {
		return procedure.Outcome{}, err
	}
	if p.fake.shared {
		if _, err := p.upon(ctx, env); err != nil {
			return procedure.Outcome{}, err
		}
	}
	rate := 1000.0
	if p.fake.akin {
		rate += float64(len(env.Akin("level")))
	}
	for n := range 4 {
		if p.fake.left {
			rate = env.Left().Seconds()
		}
		cfg := []result.Pair{{Key: "rate", Value: fmt.Sprint(rate)}}
		rec, err := env.Trial(ctx, cfg, func(context.Context) (procedure.Outcome, error) {
			o, err := do(fmt.Sprintf("%s/%d/%d/%v", p.kind, p.level, n, rate))
			if now := unit.Now(); o.Status == result.Passed && o.Phases == nil {
				o.Values = []result.Value{{Metric: "steps", Unit: "1", Value: float64(int(rate) % 7)}}
				o.Load, o.Account = &result.Load{Backend: "fake", Offered: 1}, &result.Account{Accepted: 1, Received: 1}
				o.Phases = []result.Phase{{Name: "traffic", Begin: now, End: now + 10}}
			}
			return o, err
		})
		if err != nil && p.fake.stubborn {
			continue
		}
		if err != nil {
			return procedure.Outcome{}, err
		}
		rate += 100 * (rec.Value("steps").Value - 2)
		if p.kind == "b" && n%2 == 0 {
			var o procedure.Outcome
			if p.fake.left {
				env.Left()
			}
			if low, high := 0.0, 10.0; p.fake.extra {
				o.Extra, o.Status = true, result.Passed
				o.Values = []result.Value{{Metric: "steps", Unit: "1", Value: 5, Lo: &low, Hi: &high, N: 3}}
			}
			if !env.Pause(o) {
				return o, nil
			}
		}
	}
	return procedure.Outcome{Values: []result.Value{{Metric: "steps", Unit: "1", Value: rate}}, Load: once.Load}, nil
}

var errMissing = &host.Missing{What: "the program nft", Remedy: [][]string{{"apt-get", "install", "-y", "nftables"}}}

// A memory keeps what a run writes; after full appends it fails like a full disk.
type memory struct {
	run      result.Run
	appended []result.Record
	full     int // 0: never
	writes   int
	refused  int

	mu    sync.Mutex
	lines []byte // of telemetry
}

func (m *memory) WriteRun(r result.Run) error { m.run = r; m.writes++; return nil }

func (m *memory) Append(r result.Record) error {
	if m.full > 0 && len(m.appended) >= m.full {
		m.refused++
		return errors.New("no space left on device")
	}
	m.appended = append(m.appended, r)
	return nil
}

func (m *memory) Sample(lines []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lines = append(m.lines, lines...)
	return nil
}

// last is what Open would read: the last of each ID, in order.
func last(appended []result.Record) (recs []result.Record) {
	at := map[string]int{}
	for _, r := range appended {
		if i, ok := at[r.ID]; ok {
			recs[i] = r
			continue
		}
		at[r.ID] = len(recs)
		recs = append(recs, r)
	}
	return recs
}
