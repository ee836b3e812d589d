// SPDX-License-Identifier: Apache-2.0

package result

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What is out of bounds is refused where it is read, with file and line.
func TestOutOfBounds(t *testing.T) {
	for _, c := range []struct{ run, trials, want string }{
		{`{"schema":%}`, `{"id":"a","values":[{"metric":"m","value":1,"n":9223372036854775807}]}`, `trials.jsonl line 1 is not a record: value "m": n of 9223372036854775807`},
		{`{"schema":%}`, `{"id":"a","values":[{"metric":"m","value":1,"n":-1}]}`, `n of -1`},
		{`{"schema":%}`, `{"id":"a","begin_ns":9223372036854775807}`, "an instant of 9223372036854775807 ns"},
		{`{"schema":%}`, `{"id":"a","load":{"latency":{"upper_s":[],"count":[1]}}}`, "0 upper edges and 1 counts"},
		{`{"schema":%}`, `{"id":"a","verdict":"exploded"}`, `there is no verdict "exploded"`},
		{`{"schema":%,"telemetry":[{"rate_hz":1e300}]}`, ``, "run.json is not a run: telemetry: rate_hz of 1e+300"},
		{`{"schema":%,"telemetry":[{"rate_hz":10,"to_ns":-9223372036854775808}]}`, ``, "telemetry: an instant of -9223372036854775808"},
		{`{"schema":%,"telemetry":[{"rate_hz":10}]}`, `{"id":"a","values":[{"metric":"m","value":1,"n":7}]}`, ""},
	} {
		dir := t.TempDir()
		head := strings.Replace(c.run, "%", "1", 1)
		if Schema != 1 {
			t.Fatal("write the schema here")
		}
		for name, text := range map[string]string{RunFile: head, TrialsFile: c.trials + "\n"} {
			if c.trials == "" && name == TrialsFile {
				text = ""
			}
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		_, _, err := Open(dir)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %s: %v, want %q", c.run, c.trials, err, c.want)
		}
	}
}
