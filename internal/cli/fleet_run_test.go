// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"strings"
	"testing"

	"boxdyno/runner"
)

// What boards share and which of them a meter sees stand in the plan, by flags or by its own
// words.
func TestFleetMeterWords(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	for _, c := range []struct {
		plan            string
		words           fleetWords
		meter           bool
		shared, metered string
		err             string
		places          []string
	}{
		{"", fleetWords{shared: []string{"switch=8W"}}, false, "switch=0USD,8W", "", "", []string{"b1", "b2+b3", "all+switch", "switch"}},
		{"", fleetWords{shared: []string{"switch=8W"}}, true, "switch=0USD,8W", "4", "", []string{"b1"}},
		{"", fleetWords{}, false, "", "", "a meter sees switch: that is none of the boards b1, b2, b3, b4", []string{"all+switch"}},
		{"", fleetWords{metered: "8"}, false, "", "", "it needs --meter or --plug", []string{"b1"}},
		{"", fleetWords{}, false, "", "", "", nil},
		{"", fleetWords{}, true, "", "4", "", nil},
		{"", fleetWords{metered: "8"}, true, "", "8", "", nil},
		{"", fleetWords{metered: "serving"}, true, "", "0", "", nil},
		{"", fleetWords{metered: "3"}, true, "", "", `"3": want a number of boards, 4 or more`, nil},
		{"", fleetWords{metered: "8"}, false, "", "", "it needs --meter or --plug", nil},
		{"", fleetWords{shared: []string{"switch=8W,60USD", "fans=2W,meter=command"}}, false, "switch=60USD,8W;fans=0USD,2W,meter=command", "", "", nil},
		{"", fleetWords{shared: []string{"switch=8"}}, false, "", "", "want a name with price, power or both", nil},
		{`{use: fleet, shared: "switch=6..8W", metered: 9}`, fleetWords{}, true, "switch=0USD,6..8W", "9", "", nil},
		{`{use: fleet, shared: "switch=6..8W"}`, fleetWords{shared: []string{"fans=1W"}}, false, "fans=0USD,1W", "", "", nil},
		{`{use: fleet, shared: "nonsense"}`, fleetWords{}, false, "", "", `plan:1:`, nil},
	} {
		text := "procedures:\n  - {use: fleet-crypto}\n"
		if c.plan != "" {
			text = "lab: " + c.plan + "\n" + text
		}
		p, err := runner.Parse("plan", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if c.meter {
			p.Telemetry.Plug = "http://10.0.0.9"
		}
		for _, of := range c.places {
			if err := p.Telemetry.Meters("plug", []string{of + "=http://10.0.0.8"}); err != nil {
				t.Fatal(err)
			}
		}
		if err = c.words.meters(&p, []string{"b1", "b2", "b3", "b4"}); c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%+v: %v, want %q", c.words, err, c.err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%+v: %v", c.words, err)
		}
		for key, want := range map[string]string{"shared": c.shared, "metered": c.metered} {
			got := ""
			if s := p.Lab.Get(key); s != nil {
				got = s.Values[0].Text
			}
			if got != want {
				t.Errorf("%+v: %s is %q, want %q", c.words, key, got, want)
			}
		}
	}
}
