// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/rogpeppe/go-internal/txtar"

	"boxdyno/result"
)

// A recorded is a machine of testdata: one file with many sections, for some names
// of sysfs are none that every disk takes. A section "a -> b" is a symbolic link;
// one that begins with @2/ replaces the file in step 2.
type recorded struct {
	t     testing.TB
	root  fstest.MapFS
	files map[string]string
	mu    sync.Mutex // of the files' data
}

func record(t testing.TB, name string) *recorded {
	t.Helper()
	a, err := txtar.ParseFile("testdata/" + name + ".txtar")
	if err != nil {
		t.Fatal(err)
	}
	r := &recorded{t: t, root: fstest.MapFS{}, files: map[string]string{}}
	for _, f := range a.Files {
		if r.files[f.Name] != "" {
			t.Fatalf("%s has %s twice", name, f.Name)
		}
		r.files[f.Name] = string(f.Data)
		if link, to, ok := strings.Cut(f.Name, " -> "); ok {
			r.root[link] = &fstest.MapFile{Data: []byte(to), Mode: fs.ModeSymlink | 0o777}
		} else if !strings.HasPrefix(f.Name, "@") {
			r.root[f.Name] = &fstest.MapFile{Data: f.Data}
		}
	}
	if len(a.Comment) == 0 {
		t.Errorf("%s does not say where it is from", name)
	}
	return r
}

// step makes the changes of a step; the collectors have the files open.
func (r *recorded) step(n int) {
	r.t.Helper()
	prefix, changed := fmt.Sprintf("@%d/", n), 0
	for name, data := range r.files {
		if after, ok := strings.CutPrefix(name, prefix); ok {
			r.set(after, data)
			changed++
		}
	}
	if changed == 0 {
		r.t.Fatalf("there is no step %d", n)
	}
}

func (r *recorded) set(name, data string) {
	r.t.Helper()
	f := r.root[name]
	if f == nil {
		r.t.Fatalf("%s is not in the machine", name)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	f.Data = []byte(data)
}

func (r *recorded) machine() *Machine { return &Machine{Root: shared{r.root, &r.mu}} }

// shared is a tree whose files change while they are read.
type shared struct {
	fstest.MapFS
	mu *sync.Mutex
}

func (s shared) Open(name string) (fs.File, error) {
	f, err := s.MapFS.Open(name)
	if at, ok := f.(io.ReaderAt); ok {
		return sharedFile{f, at, s.mu}, nil
	}
	return f, err
}

type sharedFile struct {
	fs.File
	at io.ReaderAt
	mu *sync.Mutex
}

func (f sharedFile) ReadAt(p []byte, off int64) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.at.ReadAt(p, off)
}

// firmware is the mailbox of a Raspberry Pi with the answers in vcio/.
type firmware struct {
	*recorded
	old    bool // knows no commands
	closed bool
}

func (f *firmware) property(m []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	get, put := binary.NativeEndian.Uint32, binary.NativeEndian.PutUint32
	if int(get(m)) != len(m) || get(m[4:]) != 0 || int(get(m[12:]))+24 != len(m) || get(m[len(m)-4:]) != 0 {
		return fmt.Errorf("a message of %d octets that a firmware would not take: % x", len(m), m[:24])
	}
	put(m[4:], 0x80000000)
	value := m[20 : len(m)-4]
	switch get(m[8:]) {
	case 0x00030046:
		bits, err := ParseThrottled(string(f.root["vcio/get_throttled"].Data))
		if err != nil {
			return err
		}
		if get(value) != 0 {
			return errors.New("the question would clear flags")
		}
		put(value, bits)
	case 0x00030080:
		if f.old {
			return nil // an unknown tag is left as it is
		}
		name, _, _ := strings.Cut(string(value[4:]), "\x00")
		answer := f.root["vcio/"+name]
		if answer == nil {
			return fmt.Errorf("no answer to %q is recorded", name)
		}
		clear(value)
		copy(value[4:], strings.TrimSuffix(string(answer.Data), "\n"))
	default:
		return nil
	}
	put(m[16:], 0x80000000|uint32(len(value)))
	return nil
}

func (f *firmware) Close() error { f.closed = true; return nil }

// values are a collector's, by name and labels as Prometheus writes them.
func values(t testing.TB, c Collector) map[string]float64 {
	t.Helper()
	got, err := read(c)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func read(c Collector) (map[string]float64, error) {
	series := c.Series()
	dst := make([]float64, len(series))
	err := c.Read(dst)
	got := map[string]float64{}
	for i, s := range series {
		got[prom(s)] = dst[i]
	}
	if len(got) != len(series) {
		return nil, fmt.Errorf("%d series have %d names", len(series), len(got))
	}
	return got, err
}

func prom(s result.Series) string {
	var labels []string
	for _, l := range s.Labels {
		labels = append(labels, fmt.Sprintf("%s=%q", l.Key, l.Value))
	}
	if len(labels) == 0 {
		return s.Name
	}
	return s.Name + "{" + strings.Join(labels, ",") + "}"
}

// equal compares with want all values that a collector has.
func equal(t testing.TB, when string, got, want map[string]float64) {
	t.Helper()
	for _, k := range slices.Sorted(maps.Keys(want)) {
		g, ok := got[k]
		if w := want[k]; !ok || !near(g, w) {
			t.Errorf("%s: %s is %v (%v), want %v", when, k, g, ok, w)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(got)) {
		if _, ok := want[k]; !ok {
			t.Errorf("%s: %s is %v, and was not expected", when, k, got[k])
		}
	}
}

func near(a, b float64) bool {
	return math.IsNaN(a) && math.IsNaN(b) || math.Abs(a-b) <= 1e-9*max(math.Abs(a), math.Abs(b), 1)
}

func closed(t testing.TB, c Collector) {
	t.Helper()
	if err := c.(io.Closer).Close(); err != nil {
		t.Error(err)
	}
}

// A board without sensors has none: no series, no zero.
func TestSensorsOfNoSensors(t *testing.T) {
	m := record(t, "none").machine()
	for _, s := range All() {
		switch s.Name {
		case "cpufreq", "residency", "throttles", "thermal", "hwmon", "iio", "rapl", "rpi", "pmic", "plug", "meter", "reading":
			if c, err := s.New(t.Context(), m); !errors.Is(err, ErrAbsent) {
				t.Errorf("%s is %v (%v), want %v", s.Name, c, err, ErrAbsent)
			}
		}
	}
}
