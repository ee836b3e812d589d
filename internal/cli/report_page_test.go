// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"boxdyno/report"
	"boxdyno/report/page"
	"boxdyno/result"
	"boxdyno/runner"
	"boxdyno/unit"
)

// A page has what was sampled; of a damaged file it is made all the same, and says so.
func TestPageOfDamagedTelemetry(t *testing.T) {
	dir := t.TempDir()
	head := result.TelemetryHead{Schema: result.Schema, Rate: 10, Series: []result.Series{{Name: "node_thermal_zone_temp", Unit: "°C"}}}
	b, err := result.Create(dir, result.Run{Schema: result.Schema, ID: "x", Series: head.Series, Telemetry: []result.Telemetry{{Rate: 10, To: 59e9}}})
	if err != nil {
		t.Fatal(err)
	}
	lines, err := json.Marshal(head)
	if err != nil {
		t.Fatal(err)
	}
	lines = append(lines, '\n')
	for i := range 600 {
		lines = result.AppendBatch(lines, result.Batch{At: unit.Instant(i) * 1e8, Values: []float64{40 + float64(i)/100}})
		if i%10 == 9 {
			if err := b.Sample(lines); err != nil {
				t.Fatal(err)
			}
			lines = nil
		}
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	name, page := filepath.Join(dir, result.TelemetryFile), filepath.Join(dir, "page.html")
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		file       []byte
		steps      bool
		complaints int
	}{{whole, true, 0}, {whole[:len(whole)/2], true, 1}, {[]byte("garbage"), false, 1}, {nil, false, 1}} {
		if c.file == nil {
			os.Remove(name)
		} else if err := os.WriteFile(name, c.file, 0o644); err != nil {
			t.Fatal(err)
		}
		code, _, stderr := call(t.Context(), runner.Catalogue{}, "report", dir, "-o", page)
		if code != exitOK || strings.Count(stderr, "! drawings over time: ") != c.complaints {
			t.Errorf("exit code %d, and says %q", code, stderr)
		}
		data, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		if has := regexp.MustCompile(`"timeline":\{"from_ns":0,"step_ns":100000000,"steps":\d+`).Match(data); has != c.steps {
			t.Errorf("of %d octets of telemetry there are drawings: %v", len(c.file), has)
		}
		if n := strings.Count(string(data), `"not all that was sampled is drawn: `); n != c.complaints {
			t.Errorf("of %d octets of telemetry the page has %d warnings", len(c.file), n)
		}
	}
}

// A page that is sent on carries the licences of the work of others in it.
func TestPageCarriesNotices(t *testing.T) {
	var b bytes.Buffer
	if err := page.Write(&b, report.Document{}, nil); err != nil {
		t.Fatal(err)
	}
	of := 0
	for part := range strings.SplitSeq(notices, strings.Repeat("=", 80)) {
		names, text, _ := strings.Cut(strings.TrimSpace(part), "\n\n")
		if !strings.Contains(names, "(in the page)") {
			continue
		}
		of++
		if !strings.Contains(b.String(), strings.TrimSpace(text)) {
			t.Errorf("the page has not the licence of %s", names)
		}
	}
	if of == 0 {
		t.Error("nothing is in the page")
	}
}
