// SPDX-License-Identifier: Apache-2.0

// Package procedure is what a procedure is, what it is given, and what it finds. A procedure
// is one file of a room below this package, and a line of the table in catalog:
//
//	catalog                                    the table
//	   |
//	rfc2544  connections  security  flood  replay   rooms that offer frames to a box
//	capture <- infer                           to software that listens
//	tunnel                                     between two gateways
//	compute  soak  storage                     rooms that use this machine alone
//	   |
//	internal/trial                             one trial of frames, and its account
//	   |
//	procedure                                  Procedure, Env, Spec, Outcome; Beside
//
// Rooms share internal/param (kinds of parameters), internal/metrics (values of declared
// metrics), and in tests internal/roomtest. Flood has a sensor of capture's.
package procedure

import (
	"context"
	"flag"
	"slices"
	"strings"
	"time"

	"boxdyno/lab"
	"boxdyno/result"
	"boxdyno/unit"
)

// A Procedure is its scalar parameters. A list given for a scalar is an axis:
// runner expands it, so no procedure has a matrix loop.
type Procedure interface {
	// Flags declares the parameters with their defaults, ranges and meaning; its
	// Set reports a bad value.
	Flags(fs *flag.FlagSet)
	// Check refuses parameters that do not fit together or to the testbed, before
	// anything is measured. bed may be the sketch of one (lab.Topology), or nil. What
	// Spec.Needs and Needing ask for, it has.
	Check(bed *lab.Testbed) error
	// Estimate is about how many trials Run takes, and how long.
	Estimate() (trials int, d time.Duration)
	Run(ctx context.Context, env *Env) (Outcome, error)
}

// A Dependent procedure builds upon trials of another one at its own parameters
// (Env.Shared), which it carries out itself where no point of the run has.
type Dependent interface {
	Procedure
	// Upon is the other's name; "" where it is not needed.
	Upon() string
}

// A Sharing procedure measures something once a run (Env.Once) for all points that want
// the same.
type Sharing interface {
	Procedure
	// Once is what that costs, beside Estimate; points with the same key share it.
	Once() (key string, trials int, d time.Duration)
}

// A Paused procedure lets the run's other points have their turn meanwhile (Env.Pause).
type Paused interface {
	Procedure
	// Visits is about how often, the first visit included.
	Visits() int
}

// A Needing procedure needs more of the testbed with some parameters than its Spec says.
type Needing interface {
	Procedure
	// Needs is what these parameters need beside Spec.Needs, and the DUT's service; "" if
	// none is asked for.
	Needs() (need lab.Capability, service string)
}

// An Outcome is what a trial or a procedure found; runner makes it a record.
type Outcome struct {
	Status   result.Status
	Reason   string
	Values   []result.Value
	Load     *result.Load
	Account  *result.Account
	CPUs     []result.CPU
	DUT      *result.DUTWork
	Phases   []result.Phase
	KPIs     []result.KPI // with Phases and Samples, instants are unit.Now's
	Samples  []result.KPI
	Usage    []result.Usage
	Copies   []result.Copy
	Alerts   []result.Alert
	Warnings []string
	Ceiling  unit.FrameRate // a trial's: the self-test's at this frame size, for verdict.Validity; 0: none was made
	Boards   []result.Board // of machines that carried a trial or a point out together
	Began    Began          // when work began that waited for other machines; zero: it did not wait

	// Extra, of what Env.Pause is told: nothing is left to do but to decide a criterion. The
	// procedure goes on only as long as the run has a budget to spend on that.
	Extra bool
	// Next, of what Env.Pause is told, is about how long it takes until the next pause; 0:
	// as long as the longest visit so far.
	Next time.Duration
}

// Began is when a machine began work together with others.
type Began struct {
	At    unit.Instant  // 0: it did not
	Error time.Duration // at most so far off is At, where another machine's clock said so
	Heard time.Duration // so long before the common instant it heard of it; below zero: after it
}

// Sentence is what err says, for an Outcome's Reason: one line.
func Sentence(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

// StopPatience is how long what a procedure started may take to stop.
const StopPatience = 30 * time.Second

// An Env is where a procedure runs.
type Env struct {
	Bed *lab.Testbed

	// Traffic is told right before a trial's traffic and right after it; nil: nobody wants
	// to know.
	Traffic func(begins bool)

	// Criteria are those of the run that this point decides. A procedure that searches a
	// limit tries the load that they ask for first.
	Criteria []result.Criterion

	// Pause lets every other point of the run have its turn: a machine has slow phases of
	// many seconds, and repeats that stand close together agree with each other and with no
	// other run. found is what was found so far, and the outcome if the run does not come
	// back: then Pause returns false, and the procedure measures no more. The rig is closed
	// meanwhile.
	Pause func(found Outcome) (more bool)

	// Spent says that the run's budget has no time for a trial whose configuration begins with
	// trial=kind, and that lasts as long as the latest of them: a visit that has something to
	// tell does not begin it, and ends. A resumed run ends where it did before; nil: there is no
	// budget.
	Spent func(kind string) bool

	// Left is how much of the run's budget is left for this point's trials: an equal share where
	// other points, too, have no load yet that is known to be carried. Before a trial that a
	// resumed run has, it answers as it did then; nil: there is no budget.
	Left func() time.Duration

	// Trial carries out f as one trial (RFC 2544: one load, one duration),
	// judges its validity and appends its record; in a resumed run it returns
	// the finished record without calling f. cfg identifies the trial within
	// the procedure's point.
	Trial func(ctx context.Context, cfg []result.Pair, f func(context.Context) (Outcome, error)) (result.Record, error)

	// Trials is Trial of several that f carries out at one time: it returns the outcome of
	// each of cfgs. In a resumed run it calls f where one of them is not finished; records
	// that are finished stay as they are.
	Trials func(ctx context.Context, cfgs [][]result.Pair, f func(context.Context) ([]Outcome, error)) ([]result.Record, error)

	// Together is of a machine that carries out trials together with others: it returns the
	// instant at which all begin their work, once all are ready; nil: it is alone. Procedures
	// call Await.
	Together func(ctx context.Context) (unit.Instant, error)

	// Gather is of a machine that does one work together with others: it returns what all of
	// them give, in one order, and which of it is this machine's, once each has given its own.
	// nil: it is alone. Procedures call Gathered.
	Gather func(ctx context.Context, mine []byte) (all [][]byte, here int, err error)

	// Repeat is the point's, from 1; Seed is the plan's.
	Repeat int
	Seed   uint64

	// Shared carries out f as a trial of procedure's point at this point's
	// parameters and repeat, whichever point of the run asks for it first: what
	// several procedures build upon. cfg tells such trials of one point apart.
	Shared func(ctx context.Context, procedure string, cfg []result.Pair, f func(context.Context) (Outcome, error)) (result.Record, error)

	// Unfinished is the record of the trial that Trial would carry out next with cfg,
	// if it was begun in an earlier part of a resumed run and has no end: boxdyno was
	// killed in it, or the machine went down. nil: it was not.
	Unfinished func(cfg []result.Pair) *result.Record

	// Akin are the finished trials of other points of this procedure that the run had
	// before this point began, oldest first: those of its repeat, in its testbed, whose
	// parameters are this point's, but for the ones named. nil: there are none.
	Akin func(but ...string) []result.Record

	// Once carries out f as one trial of the whole run, whichever procedure asks
	// first, under the name key: the self-test.
	Once func(ctx context.Context, key string, cfg []result.Pair, f func(context.Context) (Outcome, error)) (result.Record, error)
}

// Await returns when a trial's work shall begin: at once, or at one instant on all machines
// that carry it out together. A procedure calls it in a trial, right before its work.
func (e *Env) Await(ctx context.Context) error {
	if e.Together == nil {
		return nil
	}
	at, err := e.Together(ctx)
	if err != nil {
		return err
	}
	late := time.NewTimer(time.Duration(at - unit.Now()))
	defer late.Stop()
	select {
	case <-late.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Gathered returns what all machines that do one work together give, and which of it is this
// machine's. One at a time may ask.
func (e *Env) Gathered(ctx context.Context, mine []byte) (all [][]byte, here int, err error) {
	if e.Gather == nil {
		return [][]byte{mine}, 0, nil
	}
	return e.Gather(ctx, mine)
}

// NoSearch is the value of forward's parameter search that leaves a point with the rate
// under overload, at one visit: the quickest figure that repeats.
const NoSearch = "none"

// AtOnce is the kind (trial=) of the trial in which machines that were measured beside each
// other offer at one time what each has carried by itself.
const AtOnce = "at-once"

// A Spec is a row of catalog.All.
type Spec struct {
	Name, Doc string
	Standard  string         // what it follows, "RFC 2544"
	Deviation string         // what it does otherwise whatever the preset, in a sentence; ""
	Quick     string         // what preset quick does otherwise beside, in a sentence; ""
	Names     []string       // parameters whose values name a point in its record's ID, in this order
	Needs     lab.Capability // of the testbed, whatever the parameters; a Needing procedure may need more
	Lab       string         // topology where the plan names none; "": the first of lab.All
	Alone     bool           // nothing may run beside its trials (Beside)
	Joint     bool           // boards of a fleet do one work together, of which the first has the figures (Env.Gather); no table of procedures has it
	Metrics   []result.Metric
	Trials    *result.Trials // nil: no table has the trials
	Joules    []Joule        // what joules are spent on; nil: nothing that can be counted
	New       func() Procedure
}

// zeros are words for a parameter's 0 that is no quantity, of all procedures or of one.
var zeros = map[string]string{
	"rules": "none", "ids rules": "", "ids rules_sample": "as rules", "threads": "all", "cpus": "all", "jobs": "all CPUs",
	"payload_size": "-", "packets": "-", "capture frame_size": "-", "fleet-capture frame_size": "-", "burst": "-", "port": "-",
	"buffer": "default", "size": "default", "block": "default", "order": "default", "key_size": "longest",
	"connections rate": "by mode", "packets_of_file": "all", "vlan": "none", "trials": "by preset", "handshakes": "by preset",
}

// Declaration is what the procedure's rows are shown by. Rows always tell the parameters
// that name a point, and others where they are not the default.
func (s Spec) Declaration() result.Procedure {
	p := result.Procedure{Name: s.Name, Metrics: s.Metrics, Trials: s.Trials}
	fs := flag.NewFlagSet("", flag.ContinueOnError)
	s.New().Flags(fs)
	axis := func(f *flag.Flag, usual string) {
		a := result.Axis{Name: f.Name, Default: usual}
		if of, _ := flag.UnquoteUsage(f); of == "octets" {
			a.Unit = "B"
		}
		word, own := zeros[s.Name+" "+f.Name]
		if !own {
			word = zeros[f.Name]
		}
		if word != "" {
			a.Words = []result.Pair{{Key: "0", Value: word}}
		}
		p.Axes = append(p.Axes, a)
	}
	for _, name := range s.Names {
		if f := fs.Lookup(name); f.DefValue == "0" || f.DefValue == "1" {
			axis(f, f.DefValue)
		} else {
			axis(f, "")
		}
	}
	fs.VisitAll(func(f *flag.Flag) {
		if !slices.Contains(s.Names, f.Name) && f.Name != "preset" {
			axis(f, f.DefValue)
		}
	})
	return p
}
