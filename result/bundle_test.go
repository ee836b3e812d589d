// SPDX-License-Identifier: Apache-2.0

package result

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"

	"boxdyno/internal/files"
)

// fillDir makes the test binary a process that fills the bundle in this
// directory up to its limit of file size.
const fillDir = "BOXDYNO_TEST_FILL"

func TestMain(m *testing.M) {
	if dir := os.Getenv(fillDir); dir != "" {
		fill(dir)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func header() Run {
	return Run{Schema: Schema, ID: "r1", Start: time.Unix(1e9, 0).UTC(), Plan: json.RawMessage(`{"x":1}`), Kind: "memory"}
}

func record(id string, s Status) Record {
	return Record{Schema: Schema, ID: id, Procedure: "p", Config: []Pair{{"size", "64"}}, Status: s}
}

func create(t testing.TB, dir string, recs ...Record) *Bundle {
	t.Helper()
	b, err := Create(dir, header())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	for _, r := range recs {
		if err := b.Append(r); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

func brief(recs []Record) (s []string) {
	for _, r := range recs {
		s = append(s, r.ID+" "+string(r.Status))
	}
	return s
}

// appendRaw puts text behind the trials, as a crash or an editor would.
func appendRaw(t testing.TB, dir, text string) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(dir, TrialsFile), os.O_WRONLY|os.O_APPEND, 0)
	if err == nil {
		_, err = f.WriteString(text)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

func refused(t testing.TB, what string, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("%s: no error", what)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%s: %q does not name %q", what, err, w)
		}
	}
}

func TestBundle(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "some", "where")
	b := create(t, dir)
	if run, recs, err := Open(dir); err != nil || len(recs) != 0 || run.ID != "r1" {
		t.Fatalf("new: %+v, %v, %v", run, recs, err)
	}
	full := record("a", Running)
	full.Values = []Value{{Metric: "m", Unit: "s", Value: 1.5, Bound: AtMost}}
	full.Account = &Account{Intended: 3, Drops: []Term{{Place: NFT, N: 1}}}
	for _, r := range []Record{full, record("b", Running), record("a", Passed), record("c", Running), record("b", Failed), full} {
		if err := b.Append(r); err != nil {
			t.Fatal(err)
		}
	}
	changed := header()
	changed.Warnings = []string{"hot"}
	if err := b.WriteRun(changed); err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	run, recs, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"a running", "b failed", "c running"}; !slices.Equal(brief(recs), want) {
		t.Errorf("%q, want the last of each ID in the order of the first: %q", brief(recs), want)
	}
	if !reflect.DeepEqual(recs[0], full) {
		t.Errorf("read %+v, wrote %+v", recs[0], full)
	}
	if !slices.Equal(run.Warnings, changed.Warnings) || run.Start != changed.Start {
		t.Errorf("run: %+v", run)
	}
	names, _ := filepath.Glob(filepath.Join(dir, "*"))
	if len(names) != 2 {
		t.Errorf("the folder holds %q", names)
	}
	refused(t, "append after Close", b.Append(full), TrialsFile)
}

func TestCreateRefuses(t *testing.T) {
	dir := t.TempDir()
	create(t, dir)
	_, err := Create(dir, header())
	refused(t, "a second run", err, dir, "--out", "--resume")

	stale := t.TempDir()
	trials := filepath.Join(stale, TrialsFile)
	if err := os.WriteFile(trials, []byte("{}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err = Create(stale, header())
	refused(t, "stale trials", err, trials, RunFile, "--out")
	if data, _ := os.ReadFile(trials); string(data) != "{}\n" {
		t.Errorf("the stale trials are now %q", data)
	}
	if err := os.Truncate(trials, 0); err != nil { // a power cut before run.json leaves this
		t.Fatal(err)
	}
	create(t, stale)

	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	_, err = Create(file, header())
	refused(t, "a file", err, file)
}

var temporary = regexp.MustCompile(`\.run\.json\.\w+$`)

// What Create and WriteRun have named is on the disk, names too, before they
// return.
func TestNamesAreSynced(t *testing.T) {
	var synced []string
	real := files.Sync
	t.Cleanup(func() { files.Sync = real })
	root := t.TempDir()
	dir := filepath.Join(root, "a", "b")
	files.Sync = func(f *os.File) error {
		_, err := os.Stat(filepath.Join(dir, RunFile))
		rel, _ := filepath.Rel(root, f.Name())
		rel = temporary.ReplaceAllString(rel, ".run.json.*")
		synced = append(synced, fmt.Sprintf("%s %v", rel, err == nil))
		return real(f)
	}
	b := create(t, dir)
	if want := []string{". false", "a false", "a/b/.run.json.* false", "a/b true"}; !slices.Equal(synced, want) {
		t.Errorf("synced (whether run.json was there): %q, want %q", synced, want)
	}
	synced = nil
	if err := errors.Join(b.WriteRun(header()), b.Append(record("a", Running))); err != nil {
		t.Fatal(err)
	}
	if want := []string{"a/b/.run.json.* true", "a/b true", "a/b/trials.jsonl true"}; !slices.Equal(synced, want) {
		t.Errorf("synced %q, want %q", synced, want)
	}
	files.Sync = func(*os.File) error { return syscall.EIO }
	refused(t, "a disk that fails", b.Append(record("a", Passed)), TrialsFile)
	refused(t, "a disk that fails", b.WriteRun(header()), RunFile)
}

func TestCutLine(t *testing.T) {
	dir := t.TempDir()
	create(t, dir, record("a", Passed), record("b", Running)).Close()
	appendRaw(t, dir, `{"schema":1,"id":"b","verd`)
	_, recs, err := Open(dir)
	if err != nil || !slices.Equal(brief(recs), []string{"a passed", "b running"}) {
		t.Fatalf("cut: %q, %v", brief(recs), err)
	}
	b, run, recs, err := Resume(nil, dir)
	if err != nil || run.ID != "r1" || len(recs) != 2 {
		t.Fatalf("resume: %v, %v, %v", run, recs, err)
	}
	if err := errors.Join(b.Append(record("b", Passed)), b.Close()); err != nil {
		t.Fatal(err)
	}
	if _, recs, err = Open(dir); err != nil || !slices.Equal(brief(recs), []string{"a passed", "b passed"}) {
		t.Errorf("resumed: %q, %v", brief(recs), err)
	}
}

func TestBrokenLine(t *testing.T) {
	dir := t.TempDir()
	create(t, dir, record("a", Passed)).Close()
	appendRaw(t, dir, "{\"id\":\n{\"id\":\"c\"}\n")
	name := filepath.Join(dir, TrialsFile)
	_, _, err := Open(dir)
	refused(t, "open", err, name+" line 2 ")
	before, _ := os.ReadFile(name)
	_, _, _, err = Resume(nil, dir)
	refused(t, "resume", err, name+" line 2 ")
	if after, _ := os.ReadFile(name); !bytes.Equal(before, after) {
		t.Errorf("resume changed what it could not read: %q", after)
	}
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	_, _, err := Open(dir)
	refused(t, "no run", err, dir, RunFile)
	_, _, _, err = Resume(nil, dir)
	refused(t, "resume no run", err, dir, RunFile)
	if names, _ := os.ReadDir(dir); len(names) != 0 {
		t.Errorf("left behind: %v", names)
	}

	for text, words := range map[string][]string{
		`{"schema":99}`: {"schema 99", fmt.Sprint("reads ", Schema)},
		`{}`:            {"schema 0"},
		`[]`:            {"not a run"},
		``:              {"not a run"},
	} {
		if err := os.WriteFile(filepath.Join(dir, RunFile), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		_, _, err = Open(dir)
		refused(t, text, err, append(words, filepath.Join(dir, RunFile))...)
	}

	lost := t.TempDir()
	create(t, lost)
	if err := os.Remove(filepath.Join(lost, TrialsFile)); err != nil {
		t.Fatal(err)
	}
	_, _, err = Open(lost)
	refused(t, "no trials", err, TrialsFile)
}

// fill appends until the disk says no, prints what it said, and appends once more
// with room again. It is a process of its own, whose files cannot grow beyond
// 4 KiB: the kernel then writes a part of the line, as it does on a full disk.
func fill(dir string) {
	limit := func(n uint64) error {
		return syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: n, Max: 1 << 20})
	}
	b, err := Create(dir, header())
	if err == nil {
		err = limit(4096)
	}
	for i := 0; err == nil; i++ {
		if err = b.Append(record(fmt.Sprint(i), Passed)); err == nil {
			fmt.Println(i)
		}
	}
	fmt.Println(err)
	if err := errors.Join(limit(1<<20), b.Append(record("last", Passed))); err != nil {
		fmt.Println(err)
	}
}

func TestFullDisk(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), fillDir+"="+dir)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	said, whole := lines[len(lines)-1], len(lines)-1
	if !strings.Contains(said, filepath.Join(dir, TrialsFile)) || !strings.Contains(said, syscall.EFBIG.Error()) {
		t.Errorf("it said %q", said)
	}
	_, recs, err := Open(dir)
	if err != nil || len(recs) != whole+1 || whole < 10 || recs[whole].ID != "last" {
		t.Fatalf("%d records are left, want %d: %v", len(recs), whole+1, err)
	}
}

// A run for which the disk has no room leaves no folder, and a folder that was there as it was.
func TestFullDiskAtOnce(t *testing.T) {
	real := files.Sync
	files.Sync = func(f *os.File) error {
		if info, err := f.Stat(); err != nil || info.IsDir() {
			return err
		}
		return syscall.ENOSPC
	}
	defer func() { files.Sync = real }()
	there := t.TempDir()
	for dir, left := range map[string]bool{there: true, filepath.Join(t.TempDir(), "run"): false} {
		_, err := Create(dir, header())
		if !errors.Is(err, syscall.ENOSPC) || strings.Contains(err.Error(), "remove") {
			t.Errorf("%v", err)
		}
		names, err := os.ReadDir(dir)
		if len(names) > 0 || (err == nil) != left {
			t.Errorf("%v, %v", names, err)
		}
	}
}

// Whatever was appended, and wherever the file is cut, the whole lines before the
// cut are read, and a resumed run goes on behind them.
func TestCutAnywhere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "boxdyno-bundle-*")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		real := files.Sync
		files.Sync = func(*os.File) error { return nil } // no power cut here, and hundreds of files
		defer func() { files.Sync = real }()
		b, err := Create(dir, header())
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		name := filepath.Join(dir, TrialsFile)
		var ends []int64 // of each line
		recs := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Record {
			r := record(rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "id"), rapid.SampledFrom([]Status{Running, Passed, Failed}).Draw(t, "status"))
			r.Reason = rapid.String().Draw(t, "reason")
			return r
		}), 0, 8).Draw(t, "records")
		for _, r := range recs {
			if err := b.Append(r); err != nil {
				t.Fatal(err)
			}
			info, err := os.Stat(name)
			if err != nil {
				t.Fatal(err)
			}
			ends = append(ends, info.Size())
		}
		size := int64(0)
		if len(ends) > 0 {
			size = ends[len(ends)-1]
		}
		cut := rapid.Int64Range(0, size).Draw(t, "cut")
		if err := os.Truncate(name, cut); err != nil {
			t.Fatal(err)
		}
		var want []Record // the plain way: search for each
		for i, r := range recs {
			if ends[i] > cut {
				break
			}
			if at := slices.IndexFunc(want, func(w Record) bool { return w.ID == r.ID }); at >= 0 {
				want[at] = r
			} else {
				want = append(want, r)
			}
		}
		if _, got, err := Open(dir); err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("cut at %d of %d: %+v, want %+v: %v", cut, size, got, want, err)
		}
		if _, _, _, err := Resume(nil, dir); !errors.Is(err, ErrInUse) {
			t.Fatalf("resumed while it goes on: %v", err)
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		again, _, got, err := Resume(nil, dir)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("resumed: %+v, want %+v: %v", got, want, err)
		}
		defer again.Close()
		if err := again.Append(record("new", Passed)); err != nil {
			t.Fatal(err)
		}
		if _, got, err := Open(dir); err != nil || !reflect.DeepEqual(got, append(want, record("new", Passed))) {
			t.Fatalf("after resuming: %+v: %v", got, err)
		}
	})
}
