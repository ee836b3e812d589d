// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"

	"boxdyno/host"
	"boxdyno/result"
	"boxdyno/tune"
)

// TuneArgs are a recipe and what it is for.
type TuneArgs struct {
	Recipe tune.Recipe `json:"recipe"`
	Ports  []string    `json:"ports,omitempty"` // that {port} stands for
	By     string      `json:"by,omitempty"`    // who it is for: "hand", "run 2026..."
	Strict bool        `json:"strict,omitempty"`
	Hold   bool        `json:"hold,omitempty"` // it outlives the connection
}

// TuneApplied is what became of a recipe.
type TuneApplied struct {
	ID       int              `json:"id,omitempty"` // for tune.revert; 0: it is held
	Settings []result.Setting `json:"settings"`
	Refused  []string         `json:"refused,omitempty"` // with Strict: why nothing of it stands
}

// TuneRevertArgs say what is put back.
type TuneRevertArgs struct {
	ID  int         `json:"id"` // of TuneApplied; 0: all that is held
	How tune.Revert `json:"how"`
}

// TuneReverted says what was put back.
type TuneReverted struct {
	Journals int      `json:"journals"`
	Notes    []string `json:"notes,omitempty"`
	Changed  string   `json:"changed,omitempty"` // what somebody else has changed since, and stays
}

// TuneStanding is what journals have yet to put back.
type TuneStanding struct {
	Standing []tune.Standing `json:"standing"`
	Notes    []string        `json:"notes,omitempty"`
}

// on is what a recipe from outside is applied to.
func (a TuneArgs) on() (on tune.On, err error) {
	for _, s := range a.Recipe.Steps {
		spec, err := tune.Find(s.Knob)
		if err == nil {
			err = spec.Check(s.Value)
		}
		if err != nil {
			return on, fmt.Errorf("recipe %s: %s: %w", a.Recipe.Name, s.Knob, err)
		}
	}
	on = tune.On{Host: &host.Local{}, Ports: a.Ports}
	return on, on.Check()
}

func (s *Session) showTuning(ctx context.Context, a TuneArgs) ([]tune.Change, error) {
	on, err := a.on()
	if err != nil {
		return nil, err
	}
	return tune.New().Show(ctx, a.Recipe, on)
}

func (s *Session) applyTuning(ctx context.Context, a TuneArgs) (out TuneApplied, err error) {
	on, err := a.on()
	if err != nil {
		return out, err
	}
	applied, settings, err := tune.New().Apply(ctx, a.Recipe, on, tune.Options{By: a.By, Strict: a.Strict, Hold: a.Hold})
	out.Settings = settings
	var strict *tune.StrictError
	if errors.As(err, &strict) {
		out.Refused = strict.Problems
		return out, nil
	}
	if err != nil || a.Hold {
		return out, err
	}
	s.atEnd(func() error { _, err := applied.Revert(context.Background(), tune.Revert{}); return err })
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	out.ID = s.last
	s.tuned[out.ID] = applied
	return out, nil
}

func (s *Session) revertTuning(ctx context.Context, a TuneRevertArgs) (out TuneReverted, err error) {
	if a.ID == 0 {
		out.Journals, out.Notes, err = tune.New().Held(ctx, a.How)
	} else {
		s.mu.Lock()
		applied := s.tuned[a.ID]
		delete(s.tuned, a.ID)
		s.mu.Unlock()
		if applied == nil {
			return out, errors.New("no such recipe is applied")
		}
		out.Journals = 1
		out.Notes, err = applied.Revert(ctx, a.How)
	}
	if errors.Is(err, tune.ErrChanged) {
		out.Changed, err = err.Error(), nil
	}
	return out, err
}

func (s *Session) tuningStatus(ctx context.Context, _ None) (TuneStanding, error) {
	all, notes, err := tune.New().Status(ctx)
	return TuneStanding{all, notes}, err
}
