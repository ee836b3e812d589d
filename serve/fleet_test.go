// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"strings"
	"testing"
)

// The boards of a hub are shown to readers, and counted by state; without a hub there are
// none.
func TestFleet(t *testing.T) {
	o := opts(t.TempDir())
	o.Fleet = func() Fleet {
		return Fleet{Boards: []string{"b1", "b2"}, Strangers: []string{}, States: []FleetState{{"ready", 2}, {"cut off", 0}}}
	}
	h := listening(t, o, "")
	for path, want := range map[string]string{
		"/api/fleet": `200 {"boards":["b1","b2"],"strangers":[],"now":`, "/api/fleet?x=1": "400 only these", "/api/about": `200 "fleet":true`,
		"/metrics": `200 boxdyno_fleet_boards{state="ready"} 2` + "\n" + `boxdyno_fleet_boards{state="cut off"} 0` + "\n",
	} {
		code, text := ask(t, "GET", h.url(path), "")
		status, words, _ := strings.Cut(want, " ")
		if status != map[int]string{200: "200", 400: "400"}[code] || !strings.Contains(text, words) {
			t.Errorf("%s: %d %s, want %s", path, code, text, want)
		}
	}
	if code, _ := ask(t, "POST", h.url("/api/fleet"), "{}"); code != 404 && code != 405 {
		t.Errorf("a fleet is changed: %d", code)
	}
	h = listening(t, opts(t.TempDir()), "")
	if code, text := ask(t, "GET", h.url("/api/fleet"), ""); code != 404 || !strings.Contains(text, "--hub") {
		t.Errorf("without a hub: %d %s", code, text)
	}
	if _, text := ask(t, "GET", h.url("/metrics"), ""); strings.Contains(text, "fleet") {
		t.Error(text)
	}
}
