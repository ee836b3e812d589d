// SPDX-License-Identifier: Apache-2.0

package tune

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"boxdyno/host"
	"boxdyno/internal/files"
	"boxdyno/result"
)

// Revert says what becomes of a knob that somebody else has turned since. By default
// it stays as it is, and its old value stays in the journal.
type Revert struct {
	Force bool // put the old value back all the same
	Keep  bool // leave theirs, and forget the old value
}

// ErrChanged is the error of knobs that somebody else has turned since.
var ErrChanged = errors.New("somebody else has changed it since")

// Revert puts back what Apply changed, last first; it goes on after errors and when ctx
// is over. Notes say what else there is to say. What could not be put back stays in the
// journal, for Recover.
func (a *Applied) Revert(ctx context.Context, how Revert) (notes []string, err error) {
	if a.j == nil {
		return nil, nil
	}
	notes, err = a.t.undo(context.WithoutCancel(ctx), a.j, how)
	if !a.j.open() {
		a.j = nil
	}
	return notes, err
}

// undo puts a journal's old values back and takes the journal away.
func (t *Tuner) undo(ctx context.Context, j *journal, how Revert) (notes []string, all error) {
	kept, theirs := false, false // of the knob that the entries before it stand beside
	for i := range slices.Backward(j.entries) {
		e := &j.entries[i]
		if e.Beside && kept || e.undone {
			continue
		}
		var note string
		var err error
		if !e.Beside || !theirs {
			note, theirs, err = t.restore(ctx, *e, how)
		}
		if !e.Beside {
			kept = err != nil
		}
		if err != nil {
			all = errors.Join(all, fmt.Errorf("put %s back: %w", e.name(), err))
			continue
		}
		if note != "" && !e.Beside {
			notes = append(notes, e.name()+": "+note)
		}
		if err := j.undone(i); err != nil {
			all = errors.Join(all, err)
		}
	}
	for _, b := range j.broken {
		all = errors.Join(all, fmt.Errorf("%s, and what it says was not put back", b))
	}
	if how.Keep {
		j.broken = nil
	}
	return notes, errors.Join(all, j.finish())
}

// name is what an entry is of.
func (e entry) name() string {
	if e.Port == "" {
		return e.Knob
	}
	return e.Knob + " of " + e.Port
}

// place finds an entry's site again. A goneError: it is not there any more.
func (t *Tuner) place(e entry) (spec Spec, site Site, err error) {
	if spec, err = t.find(e.Knob); err != nil {
		return spec, site, err
	}
	path := ""
	if e.Space != "" {
		if path, err = t.world.locate(e.Netns, e.Space); err != nil {
			return spec, site, err
		}
	}
	site = t.site(spec, path, e.Port)
	if spec.Scope == PerPort {
		index, err := t.world.index(site)
		if err == nil && index != e.Index {
			err = goneError("port " + e.Port + " is another one now")
		}
		if err != nil {
			return spec, site, err
		}
	}
	return spec, site, nil
}

// restore puts one old value back, or leaves theirs.
func (t *Tuner) restore(ctx context.Context, e entry, how Revert) (note string, theirs bool, err error) {
	spec, site, err := t.place(e)
	now := ""
	if err == nil {
		now, err = spec.Read(ctx, site)
	}
	others := !e.Beside && e.got != nil && now != *e.got && !mixed(now, e.Old, *e.got)
	switch {
	case gone(err):
		return "dropped, for " + err.Error(), false, nil
	case err != nil && e.Beside && errors.Is(err, host.ErrNotSupported):
		return "dropped, for there is none any more", false, nil
	case err != nil:
		return "", false, err
	case now == e.Old:
		return "", false, nil
	case others && how.Keep:
		return fmt.Sprintf("left at %s, as somebody else has set it; it had been %s", now, e.Old), true, nil
	case others && !how.Force:
		return "", false, fmt.Errorf("%w from %s to %s, and it stays so; it had been %s (tune revert --force puts that back, --keep leaves it)", ErrChanged, *e.got, now, e.Old)
	case others:
		note = fmt.Sprintf("put back to %s, though somebody else had set it to %s", e.Old, now)
	}
	if err := spec.Write(ctx, site, e.Old); err != nil {
		return "", false, err
	}
	after, err := spec.Read(ctx, site)
	if err == nil && after != e.Old {
		err = fmt.Errorf("it had been %s, and the driver makes %s of that", e.Old, after)
	}
	return note, false, err
}

// Dirs is where journals lie: where the next one is begun first. It is
// $XDG_STATE_HOME/boxdyno/tune; without that variable /var/lib/boxdyno/tune for
// root, and below ~/.local/state for others. Root's is always looked into.
func Dirs() (dirs []string) {
	const root = "/var/lib/boxdyno/tune"
	home, err := os.UserHomeDir()
	switch state := os.Getenv("XDG_STATE_HOME"); {
	case state != "":
		dirs = append(dirs, filepath.Join(state, "boxdyno", "tune"))
	case os.Geteuid() != 0 && err == nil:
		dirs = append(dirs, filepath.Join(home, ".local", "state", "boxdyno", "tune"))
	}
	return append(dirs, root)
}

// journals are all that can be read, oldest first; what cannot be is said in errors.
func (t *Tuner) journals() (js []*journal, notes []string, err error) {
	for _, dir := range t.dirs {
		names, err := t.disk.List(dir)
		if errors.Is(err, fs.ErrPermission) {
			continue // root's
		}
		if errors.Is(err, files.ErrLink) {
			notes = append(notes, err.Error()) // it must not keep other folders' journals from being found
			continue
		}
		if err != nil {
			return nil, nil, fmt.Errorf("look for tuning journals: %w", err)
		}
		for _, name := range names {
			j, err := openJournal(t.disk, name)
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
				continue // reverted just now; root's
			}
			if err != nil {
				notes = append(notes, err.Error())
				continue
			}
			js = append(js, j)
		}
	}
	return js, notes, nil
}

// Recover puts back what processes that died left changed. Every command that may
// change or measure this machine calls it first. Journals of living processes and
// what was applied by hand stay. lock is called once there is something to do, and
// waits for others who measure; nil: nobody else can. Notes say what was done.
func (t *Tuner) Recover(ctx context.Context, lock func(context.Context) (unlock func(), err error)) (notes []string, all error) {
	dead, notes, err := t.dead()
	if err != nil || len(dead) == 0 {
		return notes, err
	}
	if lock != nil {
		unlock, err := lock(ctx)
		if err != nil {
			return notes, err
		}
		defer unlock()
		if dead, notes, err = t.dead(); err != nil { // another may have done it meanwhile
			return notes, err
		}
	}
	me, err := t.world.self()
	if err != nil {
		return notes, err
	}
	for _, j := range slices.Backward(dead) {
		what := fmt.Sprintf("recipe %s, which a process that died had applied (pid %d)", j.head.Recipe, j.head.PID)
		if j.head.Boot != me.Boot && j.head.Boot != "" {
			if len(j.entries) > 0 {
				notes = append(notes, fmt.Sprintf("recipe %s went when the machine was started anew: nothing is to be put back", j.head.Recipe))
			}
			all = errors.Join(all, j.disk.Remove(j.name))
			continue
		}
		if len(j.entries) > 0 {
			notes = append(notes, "put back: "+what)
		}
		more, err := t.undo(ctx, j, Revert{})
		notes = append(notes, more...)
		if err != nil {
			all = errors.Join(all, fmt.Errorf("put back %s: %w", what, err))
		}
	}
	return notes, all
}

// dead are journals whose process is gone, and those held over a reboot.
func (t *Tuner) dead() (out []*journal, notes []string, err error) {
	js, notes, err := t.journals()
	if err != nil || len(js) == 0 {
		return nil, notes, err
	}
	me, err := t.world.self()
	if err != nil {
		return nil, notes, err
	}
	for _, j := range js {
		sameBoot := j.head.Boot == me.Boot || j.head.Boot == ""
		if sameBoot && (j.held || t.world.alive(j.head.owner)) {
			continue
		}
		out = append(out, j)
	}
	return out, notes, nil
}

// Held puts back what was applied by hand, the last first, and says how many journals
// there were. Recover comes before it.
func (t *Tuner) Held(ctx context.Context, how Revert) (n int, notes []string, all error) {
	js, notes, err := t.journals()
	if err != nil {
		return 0, notes, err
	}
	for _, j := range slices.Backward(js) {
		if !j.held && t.world.alive(j.head.owner) {
			continue
		}
		n++
		more, err := t.undo(ctx, j, how)
		notes, all = append(notes, more...), errors.Join(all, err)
	}
	return n, notes, all
}

// Status lists every setting that a journal has yet to put back, oldest first. One that
// the driver refused, and that still is as it was, is none.
func (t *Tuner) Status(ctx context.Context) (out []Standing, notes []string, err error) {
	js, notes, err := t.journals()
	if err != nil {
		return nil, notes, err
	}
	for _, j := range js {
		state := "left"
		switch {
		case j.held:
			state = "held"
		case t.world.alive(j.head.owner):
			state = "running"
		}
		for _, e := range j.entries {
			if e.undone || e.Beside {
				continue
			}
			s := Standing{
				Recipe: j.head.Recipe, By: j.head.By, State: state, Since: j.head.Begun, Journal: j.name,
				Setting: result.Setting{Knob: e.Knob, Target: e.Port, Asked: e.New, Before: e.Old},
			}
			spec, site, err := t.place(e)
			if err == nil {
				s.Now, err = spec.Read(ctx, site)
			}
			if err == nil && e.got != nil && *e.got == e.Old && s.Now == e.Old {
				continue
			}
			if e.Port == "" {
				s.Target = string(spec.Scope)
			}
			if e.got != nil {
				s.Got = *e.got
			}
			switch {
			case err != nil:
				s.Problem = err.Error()
			case e.got != nil && s.Now != *e.got && s.Now != e.Old:
				s.Problem = ErrChanged.Error()
			}
			out = append(out, s)
		}
		notes = append(notes, j.broken...)
	}
	return out, notes, nil
}
