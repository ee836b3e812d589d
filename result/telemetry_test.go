// SPDX-License-Identifier: Apache-2.0

package result

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"boxdyno/unit"
)

func headLine(t interface{ Fatal(...any) }, n int) []byte {
	h := TelemetryHead{Schema: Schema, Rate: 10}
	for i := range n {
		h.Series = append(h.Series, Series{Name: fmt.Sprint("s", i), Unit: "1", Help: "h"})
	}
	data, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	return append(data, '\n')
}

// sampled makes a bundle with n members of two batches each, and returns its file.
func sampled(t *testing.T, n int) (dir, name string) {
	t.Helper()
	dir = t.TempDir()
	b, err := Create(dir, Run{Schema: Schema})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	sample(t, b, 0, n)
	return dir, filepath.Join(dir, TelemetryFile)
}

// sample writes a head and members with instants from first on.
func sample(t *testing.T, b *Bundle, first, n int) {
	t.Helper()
	lines := headLine(t, 3)
	for i := first; i < first+n; i++ {
		for k := range 2 {
			lines = AppendBatch(lines, Batch{At: unit.Instant(2*i + k), First: k, Values: []float64{float64(i), math.NaN()}})
		}
		if err := b.Sample(lines); err != nil {
			t.Fatal(err)
		}
		lines = nil
	}
}

func instants(t *testing.T, dir string) (at []unit.Instant, cut bool, err error) {
	t.Helper()
	r, err := OpenTelemetry(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for {
		b, err := r.Next()
		if err == io.EOF {
			return at, r.Cut, nil
		}
		if err != nil {
			return at, r.Cut, err
		}
		if len(r.Head.Series) != 3 || len(b.Values) != 2 || !math.IsNaN(b.Values[1]) {
			t.Errorf("the batch %+v, %d series", b, len(r.Head.Series))
		}
		at = append(at, b.At)
	}
}

func TestBatchLine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := Batch{At: unit.Instant(rapid.Int64().Draw(t, "at")), First: rapid.IntRange(0, 1<<30).Draw(t, "first"),
			Values: rapid.SliceOf(rapid.OneOf(rapid.Float64(), rapid.Just(math.NaN()), rapid.Map(rapid.Int64(), func(n int64) float64 { return float64(n) }))).Draw(t, "values")}
		line := AppendBatch(nil, want)
		var plain struct {
			At     int64      `json:"at_ns"`
			First  int        `json:"first"`
			Values []*float64 `json:"values"`
		}
		if err := json.Unmarshal(line, &plain); err != nil || plain.At != int64(want.At) || plain.First != want.First || len(plain.Values) != len(want.Values) {
			t.Fatalf("%s is read as %+v (%v)", line, plain, err)
		}
		got, ok := parseBatch(line)
		if !ok || got.At != want.At || got.First != want.First || len(got.Values) != len(want.Values) {
			t.Fatalf("%s is parsed as %+v", line, got)
		}
		for i, v := range want.Values {
			if got.Values[i] != v && !(math.IsNaN(got.Values[i]) && (math.IsNaN(v) || math.IsInf(v, 0))) || (plain.Values[i] == nil) != math.IsNaN(got.Values[i]) {
				t.Fatalf("value %d of %s is %v, want %v", i, line, got.Values[i], v)
			}
		}
	})
}

func TestDigestInFiles(t *testing.T) {
	for text, d := range map[string]Digest{
		`{"series":3,"n":2,"mean":0}`:                               {Series: 3, N: 2},
		`{"series":3,"n":2,"mean":45.5}`:                            {Series: 3, N: 2, Min: 45.5, Mean: 45.5, Max: 45.5},
		`{"series":0,"n":9,"min":0,"mean":1,"max":2,"growth":1000}`: {N: 9, Mean: 1, Max: 2, Growth: 1000},
	} {
		data, err := json.Marshal(d)
		var back Digest
		if err == nil {
			err = json.Unmarshal(data, &back)
		}
		if err != nil || string(data) != text || back != d {
			t.Errorf("%+v is %s, want %s, and reads back as %+v (%v)", d, data, text, back, err)
		}
	}
}

// Wherever SIGKILL or a power cut ends the file, the reader gives what was whole
// before, and a resumed run goes on behind it.
func TestTelemetryCutAnywhere(t *testing.T) {
	const members = 4
	_, name := sampled(t, members)
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var ends []int // of members
	for at := 0; at < len(whole); {
		in := bytes.NewReader(whole[at:])
		z, err := gzip.NewReader(in)
		if err != nil {
			t.Fatal(err)
		}
		z.Multistream(false)
		if _, err := io.Copy(io.Discard, z); err != nil {
			t.Fatal(err)
		}
		at = len(whole) - in.Len()
		ends = append(ends, at)
	}
	if len(ends) != members {
		t.Fatalf("%d members, want %d", len(ends), members)
	}
	for cut := 0; cut <= len(whole); cut++ {
		kept := 0
		for _, e := range ends {
			if e <= cut {
				kept++
			}
		}
		dir := t.TempDir()
		b, err := Create(dir, Run{Schema: Schema})
		if err != nil {
			t.Fatal(err)
		}
		b.Close()
		if err := os.WriteFile(filepath.Join(dir, TelemetryFile), whole[:cut], 0o644); err != nil {
			t.Fatal(err)
		}
		at, wasCut, err := instants(t, dir)
		atEnd := cut == 0 || kept > 0 && ends[kept-1] == cut
		if err != nil || len(at) < 2*kept || len(at) > 2*kept+2 || wasCut == atEnd {
			t.Fatalf("cut after %d octets: %d batches of %d whole members, cut %v (%v)", cut, len(at), kept, wasCut, err)
		}
		b, _, _, err = Resume(nil, dir)
		if err != nil {
			t.Fatal(err)
		}
		sample(t, b, kept, members-kept+1)
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		at, wasCut, err = instants(t, dir)
		if err != nil || wasCut || len(at) != 2*(members+1) {
			t.Fatalf("cut after %d octets and resumed: %d batches, cut %v (%v)", cut, len(at), wasCut, err)
		}
		for i, a := range at {
			if a != unit.Instant(i) {
				t.Fatalf("cut after %d octets and resumed: batch %d is of instant %d", cut, i, a)
			}
		}
	}
}

func TestTelemetryGarbage(t *testing.T) {
	for text, says := range map[string]string{
		"garbage\n":                             "line 2 is not telemetry",
		`{"at_ns":5,"first":2,"values":[1,2]}`:  "line 2 holds values of series 2 to 3, and the head before it has 3",
		`{"at_ns":5,"first":-1,"values":[1,2]}`: "line 2 is neither",
		`{"at_ns":5,"first":0,"values":[x]}`:    "line 2 is not telemetry",
		`{"schema":9,"series":[]}`:              "line 2 has schema 9",
		`{}`:                                    "line 2 is neither a batch nor a head",
		`{"at_ns":5,"first":9223372036854775807,"values":[1,2]}`: "line 2",
		`{"at_ns":9223372036854775807,"first":0,"values":[1]}`:   "line 2 is not telemetry: at_ns of 9223372036854775807",
		`{"schema":1,"rate_hz":1e-9,"series":[]}`:                "line 2 is not a head of telemetry: rate_hz of 1e-09",
		strings.Repeat("x", maxLine+2):                           "after line 1",
	} {
		dir := t.TempDir()
		b, err := Create(dir, Run{Schema: Schema})
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Sample(append(headLine(t, 3), text...)); err != nil {
			t.Fatal(err)
		}
		b.Close()
		_, _, err = instants(t, dir)
		if err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), TelemetryFile) {
			t.Errorf("%.50s: %v, want %q", text, err, says)
		}
	}
	if _, err := OpenTelemetry(t.TempDir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a run without telemetry: %v", err)
	}
}

// A FIFO that nobody writes to or reads is no file of telemetry; nothing waits for it.
func TestTelemetryThatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	b := create(t, dir)
	defer b.Close()
	if err := unix.Mkfifo(filepath.Join(dir, TelemetryFile), 0o600); err != nil {
		t.Fatal(err)
	}
	head := headLine(t, 1)
	for what, use := range map[string]func() error{
		"read":    func() error { _, err := OpenTelemetry(dir); return err },
		"written": func() error { return b.Sample(head) },
	} {
		done := make(chan error, 1)
		go func() { done <- use() }()
		select {
		case err := <-done:
			if err == nil || !strings.Contains(err.Error(), TelemetryFile) || !strings.Contains(err.Error(), "not a regular file") || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s: %v", what, err)
			}
		case <-time.After(time.Minute):
			t.Fatalf("%s: it waits", what)
		}
	}
}

func FuzzTelemetry(f *testing.F) {
	f.Add([]byte("\x1f\x8b"))
	f.Add(AppendBatch(nil, Batch{Values: []float64{1}}))
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := t.TempDir()
		var packed bytes.Buffer
		z := gzip.NewWriter(&packed)
		z.Write(headLine(t, 3))
		z.Write(data)
		z.Close()
		for _, text := range [][]byte{packed.Bytes(), data, append(packed.Bytes(), data...)} {
			if err := os.WriteFile(filepath.Join(dir, TelemetryFile), text, 0o644); err != nil {
				t.Fatal(err)
			}
			r, err := OpenTelemetry(dir)
			if err != nil {
				t.Fatal(err)
			}
			for err == nil {
				_, err = r.Next()
			}
			r.Close()
		}
	})
}

func TestGrown(t *testing.T) {
	for _, c := range [][3]float64{{5, 7, 2}, {7, 7, 0}, {100, 3, 3}, {100, 0, 0}, {100, 99.99, 0}, {100, 51, 0}} {
		if got := Grown(c[0], c[1]); got != c[2] {
			t.Errorf("from %v to %v it grew by %v, want %v", c[0], c[1], got, c[2])
		}
	}
}
