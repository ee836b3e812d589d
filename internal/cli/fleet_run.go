// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"boxdyno/agent"
	"boxdyno/fleet/hub"
	"boxdyno/host"
	"boxdyno/internal/guard"
	"boxdyno/lab"
	"boxdyno/link"
	"boxdyno/procedure"
	"boxdyno/procedure/far"
	"boxdyno/procedure/many"
	"boxdyno/result"
	"boxdyno/runner"
)

// A shelf is boards that were selected, and the sessions with them.
type shelf struct {
	fleet *hub.Fleet
	names []string

	mu    sync.Mutex
	all   []hub.Entry
	asked time.Time
	conns map[string]*link.Conn
}

// newShelf selects boards by words (hub.Select).
func newShelf(ctx context.Context, fl *hub.Fleet, words []string) (*shelf, error) {
	all, _, err := fl.List(ctx)
	if err != nil {
		return nil, err
	}
	chosen, err := hub.Select(all, words)
	if err != nil {
		return nil, &runner.PlanError{Err: err}
	}
	s := &shelf{fleet: fl, all: all, asked: time.Now(), conns: map[string]*link.Conn{}}
	for _, e := range chosen {
		s.names = append(s.names, e.Name)
	}
	return s, nil
}

// Names implements many.Shelf.
func (s *shelf) Names() []string { return s.names }

// Heat implements many.Shelf.
func (s *shelf) Heat(c *link.Conn) (float64, int64) { return s.fleet.Heat(c) }

// answerFor is how long a board may take for an answer that costs it no work.
const answerFor = 20 * time.Second

// listFor is how long what the hub said of boards counts.
const listFor = time.Second

func (s *shelf) entry(ctx context.Context, name string) (hub.Entry, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.asked) > listFor {
		all, _, err := s.fleet.List(ctx)
		if err != nil {
			return hub.Entry{}, err
		}
		s.all, s.asked = all, time.Now()
	}
	i := slices.IndexFunc(s.all, func(e hub.Entry) bool { return e.Name == name })
	if i < 0 {
		return hub.Entry{}, &host.Missing{What: "board " + name, Hint: "see boxdyno fleet ls"}
	}
	return s.all[i], nil
}

// reach begins a session with a board of any version.
func (s *shelf) reach(ctx context.Context, name string) (*link.Conn, error) {
	e, err := s.entry(ctx, name)
	if err != nil {
		return nil, err
	}
	return s.fleet.Dial(ctx, e)
}

// Dial implements many.Shelf. The board is then held for this run.
func (s *shelf) Dial(ctx context.Context, name string) (*link.Conn, error) {
	s.mu.Lock()
	c := s.conns[name]
	s.mu.Unlock()
	if c != nil && c.Err() == nil {
		return c, nil
	}
	if c != nil {
		_ = c.Close() // why it ended was said
	}
	c, err := s.reach(ctx, name)
	if err != nil {
		return nil, err
	}
	if c.Hello.Version != Version() {
		err = &host.Missing{What: fmt.Sprintf("the same version on %s: it has %s, and this machine %s", name, c.Hello.Version, Version()), Hint: "install this version there"}
	} else {
		_, err = agent.Hold.Within(ctx, c, agent.HoldArgs{Boot: (&host.Local{}).Identify().BootID}, answerFor)
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns[name] = c
	return c, nil
}

// each calls f for every board, several side by side.
func (s *shelf) each(f func(i int, name string)) {
	var all guard.Group
	turn := make(chan struct{}, 32)
	for i, name := range s.names {
		all.Go(func() {
			turn <- struct{}{}
			defer func() { <-turn }()
			f(i, name)
		})
	}
	all.Wait()
}

// machines are the boards that answer.
func (s *shelf) machines(ctx context.Context) []result.Machine {
	found := make([]*result.Machine, len(s.names))
	s.each(func(i int, name string) {
		c, err := s.Dial(ctx, name)
		if err != nil {
			return // the points that need it say so
		}
		if id, err := agent.Identify.Within(ctx, c, agent.IdentifyArgs{}, answerFor); err == nil {
			id.Machine.Name = name
			found[i] = &id.Machine
		}
	})
	var all []result.Machine
	for _, m := range found {
		if m != nil {
			all = append(all, *m)
		}
	}
	return all
}

func (a *app) fleetRun() *cobra.Command {
	var fl fleetFlag
	var f measureFlags
	var boxes, shared []string
	var nodes, metered, resume string
	cmd := &cobra.Command{
		Use:   "run PLAN|PROCEDURE",
		Short: "Run procedures on 1 to N boards at once",
		Long: `Run has boards carry out procedures together: all begin each trial at one instant of
this machine's clock. Figures of rates are the sum of the boards', with the range of the
trials; the record keeps each board's own. Which boards serve for N is decided by the
seed; repeats take others. A board that is missing, hot, throttled or late makes the points
invalid that need it, by its name, and the rest goes on.

One meter of all boards, by --meter or --plug, sees those that idle, too: their share is
left out by its power before the run. Several meters say what each sees: b1=URL is one board's,
b1+b2=URL that of a shelf, all+switch=URL that of the wall, switch=URL that of a shared part.
Each has its own figures, and no board is counted twice. --shared names what the boards share. With meter=WORD
its power is that of the meter whose name, or what it covers, has the word: "command" is
--meter, "wall" is --plug. With inside the meter of the boards sees it.

Procedures: ` + farNames() + `.`,
		Example: `  boxdyno fleet run crypto --boxes group=rack1 --nodes 1..4
  boxdyno fleet run hpl-mpi --nodes 1,2,4
  boxdyno fleet run capture --nodes 4 --set rate=10k,100k
  boxdyno fleet run forward --nodes 4 --set pairs=disjoint
  boxdyno fleet run crypto --nodes 1,2,4 --plug http://10.0.0.9 --shared 'switch=60USD,6..8W,inside'
  boxdyno fleet run crypto --nodes 1,2 --plug all+switch=http://10.0.0.9 --plug pi1=http://10.0.0.11
  boxdyno fleet run cpu --boxes pi1,pi2 --nodes 1,2 --repeat 3 --set parallel=all
  boxdyno fleet run --resume ~/.local/state/boxdyno/runs/20260101-120000-crypto`,
		Args: cobra.MaximumNArgs(1),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return strings.Split(farNames(), ", "), cobra.ShellCompDirectiveDefault
		},
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if resume == "" && len(args) == 0 {
			return errors.New("run needs a plan or a procedure: " + farNames())
		}
		if resume != "" && (len(args) > 0 || cmd.Flags().Changed("boxes") || cmd.Flags().Changed("nodes")) {
			return fmt.Errorf("--resume takes plan and boards from the run in %s: leave out everything else", resume)
		}
		return do(func(ctx context.Context, args []string) error {
			return fl.with(func(fleet *hub.Fleet) error {
				if resume != "" {
					return a.fleetResume(ctx, fleet, resume, f)
				}
				return a.fleetBegin(ctx, fleet, args[0], fleetWords{boxes, shared, nodes, metered}, f)
			})
		})(cmd, args)
	}
	fl.add(cmd)
	fs := cmd.Flags()
	fs.StringSliceVar(&boxes, "boxes", []string{"all"}, "`BOARDS` to choose from: names and group=NAME with commas between them")
	fs.StringVar(&nodes, "nodes", "", "`N` boards at once: numbers and ranges, such as 1..4 and 1,2,4,8 (default: all of them)")
	fs.StringArrayVar(&f.set, "set", nil, "`key=value[,value...]`: a parameter of the procedure; several values are an axis")
	fs.BoolVar(&f.quick, "quick", false, "short trials (the default)")
	fs.BoolVar(&f.standard, "standard", false, "long trials")
	exclusive(cmd, "quick", "standard")
	fs.StringVar(&f.repeat, "repeat", "", "measure every point `N` times, each time with other boards")
	fs.StringVar(&f.seed, "seed", "", "`number` that decides the order of points, and which boards serve")
	fs.StringVar(&f.budget, "budget", "", "`time` that the run may take")
	fs.StringArrayVar(&f.ask.meters, "meter", nil, "`command` that prints the watts of all boards, one value a line for as long as it runs, or once; b1=COMMAND: of what is named; may be repeated")
	fs.StringArrayVar(&f.ask.plugs, "plug", nil, "`URL` of a smart plug that meters them; b1=URL: what is named, such as b1+b2, all+switch, switch; may be repeated")
	fs.StringVar(&metered, "metered", "", "`N` boards that the meter sees, or serving: those that serve alone (default: all of --boxes)")
	fs.StringArrayVar(&shared, "shared", nil, "`NAME=60USD,8W` that the boards share; 6..8W is idle and loaded; may be repeated; none: nothing (default: what the file of boxes declares)")
	fs.StringVar(&f.out, "out", "", "`folder` for the run (default $XDG_STATE_HOME/boxdyno/runs/<time>-<what>)")
	f.addAllow(fs)
	fs.BoolVar(&f.dryRun, "dry-run", false, "print the points to come and how long they take; measure nothing")
	fs.BoolVar(&f.json, "json", false, "print one JSON document instead of text")
	fs.StringVar(&resume, "resume", "", "go on with the run in `folder`; finished trials are not measured again")
	_ = cmd.RegisterFlagCompletionFunc("boxes", fl.boardNames)
	return cmd
}

// boardSpecs are the procedures that boards carry out.
func boardSpecs() []procedure.Spec { return slices.Concat(far.Specs, far.Joint) }

func farNames() string {
	var names []string
	for _, s := range boardSpecs() {
		names = append(names, s.Name)
	}
	for _, s := range far.Paired {
		names = append(names, s.Name)
	}
	return strings.Join(append(names, many.StreamName), ", ")
}

// notCarried says why boards do not carry a procedure out.
func notCarried(name string) error {
	return fmt.Errorf("boards do not carry out %s: %s are possible", name, farNames())
}

// together is a with the procedures that boards of s carry out together.
func (a *app) together(s *shelf) *app {
	with := *a
	with.plugins.Procedures, with.plugins.Labs = []procedure.Spec{many.StreamSpec(s)}, []lab.Spec{many.Topology(s, s.machines)}
	for _, inner := range far.Paired {
		with.plugins.Procedures = append(with.plugins.Procedures, many.PairsSpec(inner, s))
	}
	for _, inner := range boardSpecs() {
		with.plugins.Procedures = append(with.plugins.Procedures, many.Spec(inner, s))
	}
	return &with
}

// fleetWords are what fleet run was told of boards.
type fleetWords struct {
	boxes, shared  []string
	nodes, metered string
}

// meters tells the plan what the boards share and which of them one meter sees. A plan's own
// words count where no flag was given.
func (w fleetWords) meters(p *runner.Plan, names []string) error {
	boards, meter := len(names), p.Telemetry.Meter != "" || p.Telemetry.Plug != ""
	put := func(key, text, at string) {
		p.Lab.Set = slices.DeleteFunc(p.Lab.Set, func(s runner.Setting) bool { return s.Key == key })
		p.Lab.Set = append(p.Lab.Set, runner.Setting{Key: key, Values: []runner.Word{{Text: text, At: at}}})
	}
	parts, at, err := w.parts(p)
	if err != nil {
		return &runner.PlanError{At: at, Err: err}
	}
	if w.shared != nil || len(parts) > 0 {
		put("shared", cmp.Or(result.PartsText(parts), "none"), at)
	}
	for _, m := range p.Telemetry.Places {
		for name := range strings.SplitSeq(m.Of, "+") {
			part := slices.ContainsFunc(parts, func(q result.Part) bool { return q.Name == name })
			if name != "all" && !part && !slices.Contains(names, name) {
				return &runner.PlanError{At: "--meter, --plug", Err: fmt.Errorf("a meter sees %s: that is none of the boards %s, none of what they share, and not all", name, some(names))}
			}
		}
	}
	n, err := strconv.Atoi(cmp.Or(w.metered, strconv.Itoa(boards)))
	switch {
	case !meter && w.metered != "":
		return &runner.PlanError{At: "--metered", Err: errors.New("it needs --meter or --plug, without names in front: it is of one meter of all boards")}
	case !meter:
		return nil
	case w.metered == "" && p.Lab.Get("metered") != nil:
		return nil
	case w.metered == "serving":
		n = 0
	case err != nil || n < boards:
		return &runner.PlanError{At: "--metered", Err: fmt.Errorf("%q: want a number of boards, %d or more as so many were selected, or serving", w.metered, boards)}
	}
	put("metered", strconv.Itoa(n), "--metered")
	return nil
}

// some are names, the first of many.
func some(names []string) string {
	const most = 8
	if len(names) > most {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", len(names)-most)
	}
	return strings.Join(names, ", ")
}

// parts are what the boards share: by flags, else by the plan, else as the file of boxes
// declares it; at says where that stands.
func (w fleetWords) parts(p *runner.Plan) (parts []result.Part, at string, err error) {
	s := p.Lab.Get("shared")
	switch {
	case w.shared != nil:
		parts, err = sharedFlag(w.shared)
		return parts, "--shared", err
	case s != nil:
		parts, err = result.ParseParts(s.Values[0].Text)
		return parts, s.Values[0].At, err
	}
	parts, err = declaredParts()
	return parts, "the file of boxes", err
}

// sharedFlag is the values of a flag --shared; "none" alone is nothing.
func sharedFlag(texts []string) (parts []result.Part, err error) {
	return result.ParseParts(strings.Join(texts, ";"))
}

// declaredParts are what the file of boxes says that boxes share.
func declaredParts() ([]result.Part, error) {
	path, err := ownBoxes()
	if err != nil {
		return nil, err
	}
	return lab.Shared(path)
}

func (a *app) fleetBegin(ctx context.Context, fl *hub.Fleet, arg string, w fleetWords, f measureFlags) error {
	boxes := w.boxes
	s, err := newShelf(ctx, fl, boxes)
	if err != nil {
		return err
	}
	numbers, err := parseNodes(w.nodes, len(s.names))
	if err != nil {
		return &runner.PlanError{At: "--nodes", Err: err}
	}
	known := *a
	known.plugins.Procedures = slices.Concat(a.plugins.Procedures, far.Joint)
	p, what, err := known.plan(arg)
	if err != nil {
		return err
	}
	if what != arg {
		f.source = arg
	}
	for i, e := range p.Procedures {
		if !slices.Contains(strings.Split(farNames(), ", "), e.Use) {
			return &runner.PlanError{Err: notCarried(e.Use)}
		}
		p.Procedures[i].Use = many.Prefix + e.Use
	}
	p.SetLab(many.Lab, "--boxes")
	with := a.together(s)
	for _, set := range []string{"boxes=" + strings.Join(boxes, "+"), "nodes=" + numbers} {
		if err := p.Set(with.plugins, set); err != nil {
			return err
		}
	}
	if f.telemetry = "off"; f.ask.meters != nil || f.ask.plugs != nil { // each board's state is in its record
		f.telemetry = "on"
	}
	for key, texts := range map[string][]string{"meter": f.ask.meters, "plug": f.ask.plugs} {
		if err := p.Telemetry.Meters(key, texts); err != nil {
			return &runner.PlanError{At: "--" + key, Err: err}
		}
	}
	if err := w.meters(&p, s.names); err != nil {
		return err
	}
	return with.begin(ctx, p, many.Prefix+what, f, result.Run{})
}

func (a *app) fleetResume(ctx context.Context, fl *hub.Fleet, dir string, f measureFlags) error {
	found, err := findRun(dir)
	if err != nil {
		return &runner.PlanError{At: "--resume", Err: err}
	}
	run, _, err := result.Open(found)
	if err != nil {
		return fmt.Errorf("resume: %w", err)
	}
	p, err := runner.Parse(dir, run.Plan)
	if err != nil {
		return err
	}
	set := p.Lab.Get("boxes")
	if p.Lab.Use != many.Lab || set == nil {
		return &runner.PlanError{At: "--resume", Err: fmt.Errorf("%s is no run of a fleet: use boxdyno run --resume", dir)}
	}
	s, err := newShelf(ctx, fl, strings.Split(set.Values[0].Text, "+"))
	if err != nil {
		return err
	}
	return a.together(s).resume(ctx, dir, f)
}

// parseNodes is the values of nodes, with commas between them: numbers and ranges A..B.
func parseNodes(text string, boards int) (string, error) {
	if text == "" {
		return strconv.Itoa(boards), nil
	}
	var out []string
	for part := range strings.SplitSeq(text, ",") {
		from, to, isRange := strings.Cut(part, "..")
		if !isRange {
			to = from
		}
		lo, err := strconv.Atoi(from)
		hi, herr := strconv.Atoi(to)
		if err != nil || herr != nil || lo < 1 || hi < lo {
			return "", fmt.Errorf("%q: want numbers and ranges, such as 1..4 and 1,2,4,8", part)
		}
		if hi > boards {
			return "", fmt.Errorf("%q: %d boards were selected", part, boards)
		}
		for n := lo; n <= hi; n++ {
			out = append(out, strconv.Itoa(n))
		}
	}
	return strings.Join(out, ","), nil
}
