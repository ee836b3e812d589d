// SPDX-License-Identifier: Apache-2.0

package tune

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"boxdyno/host"
	"boxdyno/result"
)

// A Tuner turns knobs of this machine. One goroutine uses it at a time, and
// whoever turns knobs holds host.Lock.
type Tuner struct {
	dirs  []string // journals are begun in the first, and looked for in all
	find  func(knob string) (Spec, error)
	disk  disk
	world world
	root  string // of recorded trees in tests
}

// A world is what a journal asks of the machine beside its knobs.
type world struct {
	self     func() (owner, error)
	alive    func(owner) bool
	identity func(path string) (string, error)
	locate   func(path, id string) (string, error)
	index    func(Site) (int, error)
	now      func() time.Time
}

// New is the Tuner of this machine, with its journals where Dirs says.
func New() *Tuner {
	return &Tuner{dirs: Dirs(), find: findAny, disk: real{}, world: world{self, alive, identity, locate, portIndex, time.Now}}
}

// Options of Apply.
type Options struct {
	By     string // who it is for, for the journal
	Strict bool   // all or nothing
	Hold   bool   // it outlives this process, until it is reverted by hand
}

// A StrictError is what kept a recipe from being applied as a whole. Nothing of it
// stands.
type StrictError struct{ Problems []string }

func (e *StrictError) Error() string {
	return "nothing was changed: " + strings.Join(e.Problems, "; ")
}

// An Applied is a recipe that is in force.
type Applied struct {
	t *Tuner
	j *journal // nil: nothing had to be changed
}

// Apply turns a recipe's knobs in their order and returns what became of each. What the
// machine lacks, refuses or rounds is a Problem of its Setting; with Strict it is a
// *StrictError. On every error all is put back. Call it again for the same ports only
// once the Applied was reverted. It needs CAP_NET_ADMIN, CAP_SYS_ADMIN for sysfs of a
// namespace, and write access to root's files.
func (t *Tuner) Apply(ctx context.Context, r Recipe, on On, o Options) (*Applied, []result.Setting, error) {
	turns, err := t.turns(r, on)
	if err != nil {
		return nil, nil, err
	}
	if o.Hold {
		if err := t.free(); err != nil {
			return nil, nil, err
		}
	}
	if o.Strict {
		if err := t.foresee(ctx, turns); err != nil {
			return nil, nil, err
		}
	}
	p := &applying{t: t, o: o, recipe: r.Name, a: &Applied{t: t}}
	var settings []result.Setting
	err = ctx.Err()
	for _, tn := range turns {
		if err = ctx.Err(); err != nil {
			break
		}
		var s result.Setting
		if s, err = p.turn(ctx, tn); err == nil && o.Strict && s.Problem != "" {
			err = &StrictError{[]string{describe(s)}}
		}
		settings = append(settings, s)
		if err != nil {
			break
		}
	}
	if err == nil && o.Hold && p.a.j != nil {
		err = p.a.j.hold()
	}
	if err != nil {
		notes, rerr := p.a.Revert(ctx, Revert{})
		if rerr != nil {
			rerr = fmt.Errorf("and not all could be put back: %s: %w", strings.Join(notes, "; "), rerr)
		}
		return nil, settings, errors.Join(err, rerr)
	}
	if o.Hold && p.a.j != nil {
		err = p.a.j.close()
	}
	return p.a, settings, err
}

// describe is a setting's problem with what it is of.
func describe(s result.Setting) string {
	return fmt.Sprintf("%s of %s: %s", s.Knob, s.Target, s.Problem)
}

// free refuses where something was applied by hand already: two that overlap could
// not be taken back one by one.
func (t *Tuner) free() error {
	js, _, err := t.journals()
	if err != nil {
		return err
	}
	for _, j := range js {
		if j.held && j.open() {
			return fmt.Errorf("recipe %s is applied since %s: take it back first, with boxdyno tune revert", j.head.Recipe, j.head.Begun.Local().Format("2006-01-02 15:04"))
		}
	}
	return nil
}

// foresee is a StrictError for what can be known without turning anything.
func (t *Tuner) foresee(ctx context.Context, turns []turn) error {
	var e StrictError
	for _, tn := range turns {
		if s, _ := t.look(ctx, tn); s.Problem != "" {
			e.Problems = append(e.Problems, describe(s))
		}
	}
	if e.Problems != nil {
		return &e
	}
	return nil
}

// look reads a knob and says what it would be set to.
func (t *Tuner) look(ctx context.Context, tn turn) (s result.Setting, want string) {
	s = result.Setting{Knob: tn.step.Knob, Target: tn.target(), Asked: tn.step.Value}
	now, err := tn.spec.Read(ctx, tn.site)
	if err != nil {
		s.Problem = err.Error()
		return s, ""
	}
	s.Before, s.Got, want = now, now, tn.step.Value
	if tn.spec.Resolve != nil {
		if want, err = tn.spec.Resolve(ctx, tn.site, tn.step.Value, now); err != nil {
			s.Problem = err.Error()
		}
	}
	return s, want
}

// A Change is one step as Show foresees it.
type Change struct {
	result.Setting        // Got is what it would be; Problem what would keep it from it
	Why            string `json:"why,omitempty"`
	Source         string `json:"source,omitempty"`
}

// Show says what Apply would change, and changes nothing.
func (t *Tuner) Show(ctx context.Context, r Recipe, on On) (out []Change, err error) {
	turns, err := t.turns(r, on)
	if err != nil {
		return nil, err
	}
	for _, tn := range turns {
		s, want := t.look(ctx, tn)
		if s.Problem == "" {
			s.Got = want
		}
		out = append(out, Change{s, tn.step.Why, tn.step.Source})
	}
	return out, ctx.Err()
}

// An applying is an Apply under way.
type applying struct {
	t      *Tuner
	o      Options
	recipe string
	a      *Applied
}

// turn sets one knob; its error is the journal's, or a want of privilege.
func (p *applying) turn(ctx context.Context, tn turn) (s result.Setting, err error) {
	s, want := p.t.look(ctx, tn)
	if s.Problem != "" || want == s.Before {
		return s, nil
	}
	first, err := p.begin(ctx, tn, s.Before, want)
	if err != nil {
		return s, err
	}
	j := p.a.j
	main := len(j.entries) - 1
	werr := tn.spec.Write(ctx, tn.site, want)
	if missing := (*host.Missing)(nil); errors.As(werr, &missing) {
		return s, fmt.Errorf("set %s of %s: %w", s.Knob, s.Target, missing)
	}
	now, rerr := tn.spec.Read(ctx, tn.site)
	switch {
	case rerr != nil:
		s.Got, s.Problem = "", fmt.Sprintf("it cannot be read any more: %v", errors.Join(werr, rerr))
		return s, nil
	case werr != nil && now == s.Before:
		s.Problem = werr.Error()
	case werr != nil:
		s.Problem = fmt.Sprintf("it is %s now, and was not set as asked: %v", now, werr)
	case now == s.Before:
		s.Problem = fmt.Sprintf("the driver took %s and stayed at %s", want, now)
	case now != want:
		s.Problem = fmt.Sprintf("the driver made %s of %s", now, want)
	}
	s.Got = now
	for i := first; i < main; i++ { // what was disturbed, as it is now
		e := j.entries[i]
		spec, err := p.t.find(e.Knob)
		if err != nil {
			return s, err
		}
		v, err := spec.Read(ctx, p.t.site(spec, tn.site.Netns, e.Port))
		if err != nil {
			continue // a queue that has gone with the change
		}
		if err := j.got(i, v); err != nil {
			return s, err
		}
	}
	return s, j.got(main, now)
}

// begin writes everything into the journal that turning the knob may change, itself
// last, and returns the first of these entries.
func (p *applying) begin(ctx context.Context, tn turn, old, want string) (first int, err error) {
	space, index, err := p.t.whereabouts(tn.spec, tn.site)
	if err != nil {
		return 0, err
	}
	if p.a.j == nil {
		me, err := p.t.world.self()
		if err != nil {
			return 0, err
		}
		h := head{Schema: 1, Recipe: p.recipe, By: p.o.By, Begun: p.t.world.now(), owner: me}
		if p.a.j, err = createJournal(p.t.disk, p.t.dirs[0], h); err != nil {
			return 0, err
		}
	}
	first = len(p.a.j.entries)
	if tn.spec.Disturbs != nil {
		refs, err := tn.spec.Disturbs(ctx, tn.site)
		if err != nil {
			return 0, fmt.Errorf("find what %s changes on the side: %w", tn.spec.Name, err)
		}
		for _, ref := range refs {
			spec, err := p.t.find(ref.Knob)
			if err != nil {
				return 0, err
			}
			site := p.t.site(spec, tn.site.Netns, ref.Port)
			v, err := spec.Read(ctx, site)
			if errors.Is(err, host.ErrNotSupported) {
				continue
			}
			if err != nil {
				return 0, fmt.Errorf("read %s, which %s changes on the side: %w", ref.Knob, tn.spec.Name, err)
			}
			s, i, err := p.t.whereabouts(spec, site)
			if err != nil {
				return 0, err
			}
			if _, err := p.a.j.set(entry{Knob: ref.Knob, Port: ref.Port, Netns: site.Netns, Space: s, Index: i, Old: v, Beside: true}); err != nil {
				return 0, err
			}
		}
	}
	_, err = p.a.j.set(entry{Knob: tn.ref.Knob, Port: tn.ref.Port, Netns: tn.site.Netns, Space: space, Index: index, Old: old, New: want})
	return first, err
}

// whereabouts is how a site is found again, also by another process.
func (t *Tuner) whereabouts(spec Spec, site Site) (space string, index int, err error) {
	if spec.Scope != PerMachine {
		if space, err = t.world.identity(site.Netns); err != nil {
			return "", 0, fmt.Errorf("identify the network namespace: %w", err)
		}
	}
	if spec.Scope == PerPort {
		index, err = t.world.index(site)
	}
	return space, index, err
}
