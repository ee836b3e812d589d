// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"boxdyno/runner"
)

const groupPrefix = "group="

// groupOf is the group that a word of --box selects: group=NAME, or tag=NAME, for a tag is
// a group by another name.
func groupOf(word string) (group string, ok bool) {
	if group, ok = strings.CutPrefix(word, groupPrefix); !ok {
		group, ok = strings.CutPrefix(word, "tag=")
	}
	return group, ok
}

// selected are the names of boxes that a word of --box selects; "": none. One that is no
// group is a name, whether such a box was added or not.
func selected(word string) ([]string, error) {
	group, several := groupOf(word)
	switch {
	case several:
		return grouped(group)
	case word == "":
		return nil, nil
	}
	return []string{word}, nil
}

// grouped are the names of the boxes in a group.
func grouped(group string) (names []string, err error) {
	all, err := boxes()
	if err != nil {
		return nil, err
	}
	for _, b := range all {
		if slices.Contains(b.Groups, group) {
			names = append(names, b.Name)
		}
	}
	if names == nil {
		return nil, &runner.PlanError{Err: fmt.Errorf("no box is in group %q: boxdyno box ls lists them, and boxdyno box add --group adds one", group)}
	}
	return names, nil
}

// eachBox calls f for the box of --box, or for those of group=NAME, one after another. A
// box that fails does not keep the others from it; the worst exit code is returned. Of a
// group there is no one document of JSON.
func (a *app) eachBox(ctx context.Context, box string, json bool, f func(box string) error) error {
	group, several := groupOf(box)
	if !several {
		return f(box)
	}
	if json {
		return &runner.PlanError{At: "--box", Err: errors.New("a group has a document for each box: leave out --json, or name one box")}
	}
	names, err := grouped(group)
	if err != nil {
		return err
	}
	exit := exitOK
	for i, name := range names {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if _, err := fmt.Fprintf(a.out, "%s%s:\n", map[bool]string{true: "\n"}[i > 0], name); err != nil {
			return err
		}
		err := f(name)
		var said *failure
		switch {
		case err == nil:
		case errors.As(err, &said):
			exit = worst(exit, said.code)
			if said.err != nil {
				a.note("%s: %s", name, sentence(said.err))
			}
		default:
			exit = worst(exit, code(ctx, err))
			a.note("%s: %s", name, sentence(err))
		}
	}
	if exit != exitOK {
		return &failure{exit, nil}
	}
	return nil
}

// onBoxes carries out what run and qualify do for each box of --box: a run of its own.
func (a *app) onBoxes(ctx context.Context, f measureFlags, do func(f measureFlags) error) error {
	if _, several := groupOf(f.box); several {
		for _, other := range []struct {
			flag  string
			given bool
		}{{"--out", f.out != ""}, {"--report", f.report != ""}} {
			if other.given {
				return &runner.PlanError{At: "--box", Err: fmt.Errorf("a group is one run for each box: leave out %s, or name one box", other.flag)}
			}
		}
	}
	return a.eachBox(ctx, f.box, f.json, func(box string) error {
		f.box = box
		return do(f)
	})
}
