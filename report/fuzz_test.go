// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"boxdyno/report"
	"boxdyno/report/page"
	"boxdyno/report/text"
	"boxdyno/result"
)

// spoils are values that a file from anybody may hold in place of a good one.
var spoils = []string{
	`0`, `-1`, `1`, `9223372036854775807`, `-9223372036854775808`, `1e308`, `-1e308`, `1e-308`, `1e18`, `null`, `""`,
	`"\u001b[2J"`, `"=1+1"`, `"64"`, `"NaN"`, `"a\nb"`, `[]`, `[null]`, `{}`, `true`, `"passed"`, `"forward"`, `"throughput_fps"`,
}

// spoil replaces values of a document: of each four octets of script two say which, and one by what.
func spoil(doc any, script []byte) any {
	for ; len(script) >= 4; script = script[4:] {
		var places []func(any)
		var walk func(v any, set func(any))
		walk = func(v any, set func(any)) {
			places = append(places, set)
			switch v := v.(type) {
			case map[string]any:
				for _, k := range sortedKeys(v) {
					walk(v[k], func(x any) { v[k] = x })
				}
			case []any:
				for i := range v {
					walk(v[i], func(x any) { v[i] = x })
				}
			}
		}
		walk(doc, func(x any) { doc = x })
		var x any
		dec := json.NewDecoder(bytes.NewReader([]byte(spoils[int(script[2])%len(spoils)])))
		dec.UseNumber()
		_ = dec.Decode(&x) // it is JSON
		places[(int(script[0])<<8|int(script[1]))%len(places)](x)
	}
	return doc
}

func sortedKeys(m map[string]any) []string {
	return slices.Sorted(maps.Keys(m))
}

// generic is v as any JSON is read.
func generic(v any) (out any, err error) {
	b, err := json.Marshal(v)
	if err == nil {
		dec := json.NewDecoder(bytes.NewReader(b))
		dec.UseNumber()
		err = dec.Decode(&out)
	}
	return out, err
}

// Whatever a bundle holds, each format is written or refused, and nothing panics.
func FuzzReports(f *testing.F) {
	runs := []func() (result.Run, []result.Record){report.Firewall, report.Hostile}
	f.Add([]byte{0, 0, 0, 0})
	f.Add([]byte{0, 40, 3, 1, 1, 9, 9, 1})
	f.Fuzz(func(t *testing.T, script []byte) {
		if len(script) > 64 || len(script) < 4 {
			return
		}
		run, recs := runs[int(script[3])%len(runs)]()
		if len(recs) > 30 { // of a kind there are many
			recs = append(recs[:15:15], recs[len(recs)-15:]...)
		}
		doc, err := generic(map[string]any{"run": run, "records": recs})
		if err != nil {
			t.Fatal(err)
		}
		m, ok := spoil(doc, script).(map[string]any)
		if !ok {
			return
		}
		dir := t.TempDir()
		var trials bytes.Buffer
		list, _ := m["records"].([]any)
		for _, r := range list {
			line, _ := json.Marshal(r)
			trials.Write(append(line, '\n'))
		}
		head, _ := json.Marshal(m["run"])
		for name, data := range map[string][]byte{result.RunFile: head, result.TrialsFile: trials.Bytes()} {
			if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		run, recs, err = result.Open(dir)
		if err != nil {
			return
		}
		d := report.Summarized(run, recs)
		kept := report.Kept{Document: d, Records: recs}
		_ = text.Terminal(io.Discard, d)
		_ = text.Markdown(io.Discard, d)
		_ = text.CSV(io.Discard, kept)
		_ = text.Bench(io.Discard, kept)
		_ = page.Write(io.Discard, d, recs)
		var b bytes.Buffer
		if err := text.JSON(&b, d); err == nil && !json.Valid(b.Bytes()) {
			t.Errorf("no JSON: %s", b.Bytes())
		}
	})
}
