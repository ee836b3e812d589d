// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"encoding/json"
	"strings"
	"testing"
)

// Several meters of a fleet each say what they see; a plan keeps them, without passwords.
func TestPlacesOfMeters(t *testing.T) {
	p, err := Parse("plan", []byte("lab: fleet\ntelemetry:\n  plug: [\"http://10.0.0.9\", \"all+switch=http://u:secret@10.0.0.8/?id=1\"]\n  meter: \"b1=/bin/echo 5\"\nprocedures: [forward]\n"))
	if err != nil {
		t.Fatal(err)
	}
	w := p.Telemetry
	if w.Plug != "http://10.0.0.9" || len(w.Places) != 2 || len(w.Plugs()) != 2 {
		t.Fatalf("%+v", w)
	}
	text, err := json.Marshal(w)
	if want := `{"meter":"b1=/bin/echo 5","plug":["http://10.0.0.9","all+switch=http://10.0.0.8/?id=1"]}`; err != nil || string(text) != want {
		t.Errorf("%s, %v, want %s", text, err, want)
	}
	if again, err := Parse("plan", []byte(`{"lab": "fleet", "procedures": ["forward"], "telemetry": `+string(text)+`}`)); err != nil || len(again.Telemetry.Places) != 2 {
		t.Errorf("%+v, %v", again.Telemetry, err)
	}
	a := w.Ask()
	if len(a.Places) != 2 || a.Places[0].Of+a.Places[1].Of != "all+switchb1" && a.Places[0].Of+a.Places[1].Of != "b1all+switch" || a.Check() != nil {
		t.Errorf("%+v, %v", a, a.Check())
	}
	if _, err := w.resolve(nil, "line 1", "sandbox"); err == nil || !strings.Contains(err.Error(), "only boards of a fleet have several meters") {
		t.Error(err)
	}
	if _, err := w.resolve(nil, "line 1", fleetLab); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{`["http://a", "http://b"]`, `["b1=http://a", "b1=http://b"]`} {
		if _, err := Parse("plan", []byte("procedures: [forward]\ntelemetry: {plug: "+bad+"}\n")); err == nil || !strings.Contains(err.Error(), "given twice") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}
