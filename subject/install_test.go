// SPDX-License-Identifier: Apache-2.0

package subject

import (
	"context"
	"errors"
	"flag"
	"slices"
	"strings"
	"testing"

	"boxdyno/host"
)

// What a subject lacks is installed until it lacks nothing, and what does not help is
// not tried for ever.
func TestInstall(t *testing.T) {
	var ran []string
	have := 0
	run := func(_ context.Context, argv []string) error {
		ran = append(ran, strings.Join(argv, " "))
		have++
		return nil
	}
	spec := Spec{Name: "x", New: func() Subject { return lacking(func() int { return have }) }}
	if err := Install(t.Context(), spec, run); err != nil || !slices.Equal(ran, []string{"get 0", "get 1"}) {
		t.Errorf("%v, %v", ran, err)
	}
	stuck := Spec{Name: "x", New: func() Subject { return lacking(func() int { return 0 }) }}
	if err := Install(t.Context(), stuck, run); err == nil || !strings.Contains(err.Error(), "x is installed, and still not found: missing thing 0") {
		t.Errorf("%v", err)
	}
	broken := errors.New("broken")
	if err := Install(t.Context(), stuck, func(context.Context, []string) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
}

// lacking needs two things.
type lacking func() int

func (l lacking) Flags(*flag.FlagSet) {}

func (l lacking) Start(context.Context, Env) (Running, error) {
	return nil, errors.New("it is a test's")
}

func (l lacking) Check(context.Context, *host.Local) error {
	if n := l(); n < 2 {
		return &host.Missing{What: "thing " + string(rune('0'+n)), Remedy: [][]string{{"get", string(rune('0' + n))}}}
	}
	return nil
}
