// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"flag"
	"fmt"
	"strings"
	"testing"

	"boxdyno/procedure"
	"boxdyno/result"
)

type spinner struct{ procedure.Procedure }

func (spinner) Flags(fs *flag.FlagSet) { fs.String("spin_load", "idle", "what it turns") }

// A listener keeps what a check says, and is the test's in all else.
type listener struct {
	testing.TB
	said []string
}

func (l *listener) Errorf(format string, a ...any) {
	l.said = append(l.said, fmt.Sprintf(format, a...))
}

// A procedure that is added needs its page: with every metric and unit, and every parameter
// and default, or the command that prints them.
// That it is everywhere else is tested beside the command line.
func TestNewcomer(t *testing.T) {
	spec := procedure.Spec{Name: "spin", New: func() procedure.Procedure { return spinner{} }, Metrics: []result.Metric{{Name: "turns_per_s", Unit: "turn/s"}, {Name: "slip_share", Unit: "1"}, {Name: "ceiling_fps", Unit: "frame/s"}}}
	const text = `# spin

## Parameters

| parameter | default | meaning |
|---|---|---|
| ` + "`spin_load` | `idle`" + ` | what it turns |

## Figures

| figure | unit | meaning |
|---|---|---|
| ` + "`turns_per_s`" + ` | turn/s | turns of the shaft a second |
| ` + "`slip_share`" + ` | 1 | of them, those that slipped |

The others are those of [forward](forward.md#figures).
`
	for _, c := range []struct{ from, to, says string }{
		{"", "", ""},
		{"`idle`", "`full`", `by default "idle", not "full"`},
		{"turn/s", "1/s", "the unit of turns_per_s is turn/s, not 1/s"},
		{"`slip_share`", "`slips`", "slip_share"},
		{"`spin_load`", "`load`", "spin_load"},
		{"The others are those of [forward](forward.md#figures).", "", "ceiling_fps"},
		{"forward](forward", "security](security", "ceiling_fps"},
		{"| parameter | default | meaning |\n|---|---|---|\n| `spin_load` | `idle` | what it turns |", "", "spin_load"},
		{"| parameter | default | meaning |\n|---|---|---|\n| `spin_load` | `idle` | what it turns |", "`boxdyno list procedures spin` prints all.", ""},
		{"| `spin_load`", "`boxdyno list procedures spin` prints all.\n\n| a | b | c |\n|---|---|---|\n| `load`", "load"},
	} {
		l := &listener{TB: t}
		procedurePage(l, parse(t, "docs/spin.md", strings.Replace(text, c.from, c.to, 1)), spec)
		if said := strings.Join(l.said, "; "); c.says == "" && said != "" || !strings.Contains(said, c.says) {
			t.Errorf("%q for %q: the check says %q, not %q", c.to, c.from, said, c.says)
		}
	}
}
