// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sys/unix"

	"boxdyno/result"
)

// day is the nth of the days on which runs of tests begin.
func day(n int) time.Time { return time.Date(2026, 1, 1+n, 12, 0, 0, 123456789, time.UTC) }

// aRun is a run of day n on machine "lab" with kernel 6.1, as a test changes it.
func aRun(n int, change func(*result.Run)) result.Run {
	r := result.Run{
		Schema: result.Schema, Version: "1.0", ID: fmt.Sprintf("run%03d", n), Start: day(n), Seed: uint64(n), Topology: "sandbox", Kind: "sandbox", Preset: "quick",
		Plan:     json.RawMessage(`{"lab":{"use":"sandbox"},"seed":1}`),
		Machines: []result.Machine{{Name: "lab", Board: "Board 1", CPU: "A72", CPUs: 4, Kernel: "6.1", Machine: "aarch64", Userland: "arm64", BootID: fmt.Sprint("boot", n)}},
		Environments: [][]result.Pair{
			{{Key: "governor", Value: "performance"}, {Key: "pid", Value: fmt.Sprint(n)}},
		},
		Metrics: []result.Metric{{Name: "throughput_fps", Unit: "frame/s", Better: 1}, {Name: "latency_s", Unit: "s", Better: -1}, {Name: "load", Unit: "1"}},
	}
	if change != nil {
		change(&r)
	}
	return r
}

// aPoint is a point of forward with a throughput.
func aPoint(size string, repeat int, fps float64) result.Record {
	return result.Record{
		Schema: result.Schema, ID: fmt.Sprintf("forward/%s#%d", size, repeat), Procedure: "forward", Repeat: repeat, Status: result.Passed,
		Config: []result.Pair{{Key: "frame_size", Value: size}, {Key: "preset", Value: "quick"}},
		Values: []result.Value{{Metric: "throughput_fps", Unit: "frame/s", Value: fps}, {Metric: "latency_s", Unit: "s", Value: 1 / (1 + fps)}},
	}
}

// keep writes a bundle into dir.
func keep(t testing.TB, dir string, run result.Run, recs ...result.Record) {
	t.Helper()
	if err := save(dir, run, recs); err != nil {
		t.Fatal(err)
	}
}

func save(dir string, run result.Run, recs []result.Record) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	head, err := json.Marshal(run)
	if err != nil {
		return err
	}
	var lines []byte
	for _, r := range recs {
		line, err := json.Marshal(r)
		if err != nil {
			return err
		}
		lines = append(append(lines, line...), '\n')
	}
	return errors.Join(os.WriteFile(filepath.Join(dir, result.RunFile), head, 0o644), os.WriteFile(filepath.Join(dir, result.TrialsFile), lines, 0o644))
}

// worst is a Judge that is easy to foresee.
func worst(run result.Run, recs []result.Record) (result.Status, string) {
	for _, r := range recs {
		if r.Status != result.Passed {
			return r.Status, "not all passed"
		}
	}
	return result.Passed, "all passed"
}

func update(t *testing.T, x *Index, s Scan) Update {
	t.Helper()
	s.Judge = worst
	u, err := x.Update(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func names(t *testing.T, x *Index, f Filter) (ids []string) {
	t.Helper()
	for _, r := range list(t, x, f) {
		ids = append(ids, r.ID)
	}
	return ids
}

func list(t *testing.T, x *Index, f Filter) []Run {
	t.Helper()
	runs, err := x.Runs(context.Background(), f)
	if err != nil {
		t.Fatal(err)
	}
	return runs
}

// figures are all that the index holds of all runs, in words.
func figures(t *testing.T, x *Index) (out []string) {
	t.Helper()
	rows, err := x.db.Query(`SELECT r.id, s.metric, s.settings, f.value FROM figures f JOIN series s ON s.key = f.series LEFT JOIN runs r ON r.key = f.run`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var id *string
		var metric, settings string
		var v float64
		if err := rows.Scan(&id, &metric, &settings, &v); err != nil {
			t.Fatal(err)
		}
		if id == nil {
			t.Fatalf("a figure of %s belongs to no run", metric)
		}
		out = append(out, fmt.Sprint(*id, " ", metric, " ", settings, " ", v))
	}
	slices.Sort(out)
	return out
}

func same(t *testing.T, what string, got, want any) {
	t.Helper()
	if d := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Run{}), cmpopts.EquateEmpty()); d != "" {
		t.Errorf("%s: -want +got\n%s", what, d)
	}
}

func TestIndex(t *testing.T) {
	each(t, func(t *testing.T, x *Index, where string) {
		runs := t.TempDir()
		at := func(name string) string { return filepath.Join(runs, name) }
		keep(t, at("b"), aRun(1, func(r *result.Run) { r.Role, r.Box = "firewall", "pi5" }), aPoint("64", 1, 1e6), aPoint("1518", 1, 8e4))
		trial := aPoint("64", 1, 0)
		trial.ID, trial.Parent = "trial", "forward/64#1"
		invalid := aPoint("512", 1, 3)
		invalid.Status = result.Invalid
		keep(t, at("a"), aRun(2, nil), aPoint("64", 1, 9e5), trial, invalid)
		u := update(t, x, Scan{Dirs: []string{runs}})
		same(t, "update", u, Update{Bundles: 2, Read: 2})
		got := list(t, x, Filter{})
		same(t, "runs", got, []Run{
			{ID: "run001", Dir: at("b"), Host: x.host, Start: day(1), Version: "1.0", Role: "firewall", Procedures: []string{"forward"}, Preset: "quick", Topology: "sandbox", Box: "pi5", Kind: "sandbox",
				Machine: "lab", Board: "Board 1", Points: 2, Verdict: result.Passed, Sentence: "all passed"},
			{ID: "run002", Dir: at("a"), Host: x.host, Start: day(2), Version: "1.0", Procedures: []string{"forward"}, Preset: "quick", Topology: "sandbox", Box: "lab", Kind: "sandbox",
				Machine: "lab", Board: "Board 1", Points: 2, Invalid: 1, Trials: 1, Verdict: result.Invalid, Sentence: "not all passed"},
		})
		if n := len(figures(t, x)); n != 6 {
			t.Errorf("%d figures, want those of 3 valid points", n)
		}

		// Nothing has changed: nothing is read.
		before := figures(t, x)
		same(t, "again", update(t, x, Scan{Dirs: []string{runs}}), Update{Bundles: 2})
		// All is read anew, and is the same; by another process too.
		same(t, "rebuilt", update(t, open(t, where), Scan{Again: true, Rebuild: true}), Update{Bundles: 2, Read: 2})
		same(t, "runs after a rebuild", list(t, x, Filter{}), got)
		same(t, "figures after a rebuild", figures(t, x), before)

		// A run that goes on is read again, and its tags are.
		keep(t, at("a"), aRun(2, nil), aPoint("64", 1, 9e5), aPoint("1518", 1, 7e4), aPoint("1518", 2, 7e4))
		if err := result.WriteTags(nil, at("b"), []string{"old", "good"}); err != nil {
			t.Fatal(err)
		}
		same(t, "changed", update(t, x, Scan{Again: true}), Update{Bundles: 2, Read: 2})
		if r := list(t, x, Filter{}); r[1].Points != 3 || r[1].Trials != 0 || r[1].Verdict != result.Passed || !slices.Equal(r[0].Tags, []string{"good", "old"}) {
			t.Errorf("%+v", r)
		}
		if n := len(figures(t, x)); n != 10 {
			t.Errorf("%d figures, want those of 5 points", n)
		}

		// What is gone is in no list.
		if err := os.RemoveAll(at("b")); err != nil {
			t.Fatal(err)
		}
		same(t, "gone", update(t, x, Scan{Again: true}), Update{Bundles: 1, Removed: 1})
		same(t, "the rest", names(t, x, Filter{}), []string{"run002"})
		if n := len(figures(t, x)); n != 6 {
			t.Errorf("%d figures, want those of 3 points", n)
		}
		// A disk that is not there takes nothing out of the index.
		if err := os.Rename(runs, runs+"-away"); err != nil {
			t.Fatal(err)
		}
		same(t, "absent", update(t, x, Scan{Again: true}), Update{Absent: []string{runs}})
		same(t, "still", names(t, x, Filter{}), []string{"run002"})
		if err := os.Rename(runs+"-away", runs); err != nil {
			t.Fatal(err)
		}
		// A rebuild of one folder forgets no other one, but those that are not there.
		other := t.TempDir()
		same(t, "rebuilt with another", update(t, x, Scan{Dirs: []string{other}, Rebuild: true}), Update{Bundles: 1, Read: 1})
		same(t, "all", names(t, x, Filter{}), []string{"run002"})
		if err := os.Rename(runs, runs+"-away"); err != nil {
			t.Fatal(err)
		}
		same(t, "rebuilt without", update(t, x, Scan{Dirs: []string{other}, Rebuild: true}), Update{Removed: 1, Absent: []string{runs}})
		same(t, "forgotten", update(t, x, Scan{Again: true}), Update{})
	})
}

func TestFilters(t *testing.T) {
	each(t, func(t *testing.T, x *Index, _ string) {
		runs := t.TempDir()
		for n := range 6 {
			p := aPoint("64", 1, 1e6)
			if n == 4 {
				p.Procedure = "capture"
			}
			dir := filepath.Join(runs, fmt.Sprint(n))
			keep(t, dir, aRun(n, func(r *result.Run) {
				if n%2 == 0 {
					r.Box = "pi5"
				}
				if n < 3 {
					r.Role = "firewall"
				}
			}), p)
			if n == 5 {
				if err := result.WriteTags(nil, dir, []string{"a", "a.b"}); err != nil {
					t.Fatal(err)
				}
			}
		}
		update(t, x, Scan{Dirs: []string{runs}})
		for _, c := range []struct {
			f    Filter
			want string
		}{
			{Filter{}, "0 1 2 3 4 5"}, {Filter{Boxes: []string{"pi5"}}, "0 2 4"}, {Filter{Boxes: []string{"lab"}}, "1 3 5"}, {Filter{Boxes: []string{"lab", "pi5"}, Newest: 3}, "3 4 5"}, {Filter{Boxes: []string{"pi"}}, ""}, {Filter{Role: "firewall"}, "0 1 2"},
			{Filter{Procedure: "capture"}, "4"}, {Filter{Procedure: "cap"}, ""}, {Filter{Tag: "a"}, "5"}, {Filter{Tag: "b"}, ""},
			{Filter{Since: day(2)}, "2 3 4 5"}, {Filter{Since: day(2).Add(1)}, "3 4 5"}, {Filter{Until: day(2)}, "0 1"}, {Filter{Newest: 2}, "4 5"},
			{Filter{Boxes: []string{"pi5"}, Role: "firewall", Since: day(1)}, "2"}, {Filter{Boxes: []string{"' OR 1=1 --"}}, ""},
		} {
			got := strings.ReplaceAll(strings.Join(names(t, x, c.f), " "), "run00", "")
			if got != c.want {
				t.Errorf("%+v: %q, want %q", c.f, got, c.want)
			}
		}
	})
}

// A run with two bundles is one run. The bundle with more records counts, whichever is
// read first.
func TestCopies(t *testing.T) {
	each(t, func(t *testing.T, x *Index, _ string) {
		runs := t.TempDir()
		at := func(name string) string { return filepath.Join(runs, name) }
		keep(t, at("a"), aRun(1, nil), aPoint("64", 1, 1e6))
		keep(t, at("b"), aRun(1, nil), aPoint("64", 1, 1e6), aPoint("128", 1, 9e5))
		keep(t, at("c"), aRun(1, nil), aPoint("64", 1, 1e6))
		same(t, "update", update(t, x, Scan{Dirs: []string{runs}}), Update{Bundles: 3, Read: 3})
		r := list(t, x, Filter{})
		if len(r) != 1 || r[0].Points != 2 || len(figures(t, x)) != 4 {
			t.Errorf("%+v, %d figures", r, len(figures(t, x)))
		}
		if err := os.RemoveAll(at("a")); err != nil {
			t.Fatal(err)
		}
		update(t, x, Scan{Again: true})
		if r := list(t, x, Filter{}); len(r) != 1 || r[0].Dir != at("b") {
			t.Errorf("%+v", r)
		}
		// Without the larger one, a smaller one counts: the larger of those that are left.
		keep(t, at("d"), aRun(1, nil), aPoint("64", 1, 1e6), aPoint("128", 1, 9e5), aPoint("256", 1, 8e5))
		keep(t, at("e"), aRun(1, nil), aPoint("64", 1, 1e6), aPoint("128", 1, 9e5), aPoint("256", 1, 8e5), aPoint("512", 1, 7e5))
		update(t, x, Scan{Again: true})
		if err := os.RemoveAll(at("e")); err != nil {
			t.Fatal(err)
		}
		update(t, x, Scan{Again: true})
		if r := list(t, x, Filter{}); len(r) != 1 || r[0].Points != 3 || len(figures(t, x)) != 6 {
			t.Errorf("%+v, %d figures", r, len(figures(t, x)))
		}
		if u := update(t, x, Scan{Again: true}); u.Read != 0 {
			t.Errorf("nothing changed, and %+v", u)
		}
	})
}

// Bundles of other machines lie in folders of folders. Links and hidden folders are not
// followed.
func TestFind(t *testing.T) {
	root, away := t.TempDir(), t.TempDir()
	at := func(name string) string { return filepath.Join(root, name) }
	keep(t, at("one"), aRun(1, nil))
	keep(t, at("lab/box/2026/two"), aRun(2, nil))
	keep(t, at("a/b/c/d/e/deep"), aRun(3, nil))
	keep(t, at(".trash/x/three"), aRun(4, nil))
	keep(t, at("one/inside"), aRun(5, nil))
	keep(t, filepath.Join(away, "four"), aRun(6, nil))
	if err := os.Symlink(away, at("link")); err != nil {
		t.Fatal(err)
	}
	got, err := find(context.Background(), root)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "found", got, []string{at("lab/box/2026/two"), at("one")})
	if got, err := find(context.Background(), at("one")); err != nil || !slices.Equal(got, []string{at("one")}) {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := find(context.Background(), at("nothing")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// Whatever stands in a folder of runs, the rest is indexed, and the index says what is
// not. It does so each time, and reads nothing twice.
func TestHostileBundles(t *testing.T) {
	each(t, func(t *testing.T, x *Index, _ string) {
		runs := t.TempDir()
		at := func(name string) string { return filepath.Join(runs, name) }
		write := func(name, file, text string) {
			t.Helper()
			if err := os.WriteFile(filepath.Join(at(name), file), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		bad := map[string]string{}
		broken := func(name, cause string) {
			keep(t, at(name), aRun(len(bad), nil), aPoint("64", 1, 1))
			bad[name] = cause
		}
		broken("garbage", "is not a run")
		write("garbage", result.RunFile, "\x00\xff{{{")
		broken("line", "line 1 is not a record")
		write("line", result.TrialsFile, "{\"values\":7}\n")
		broken("schema", "has schema 99")
		write("schema", result.RunFile, `{"schema":99}`)
		broken("year", "in the year 9999")
		keep(t, at("year"), aRun(1, func(r *result.Run) { r.Start = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC) }))
		broken("settings", "octets")
		p := aPoint(strings.Repeat("6", 4000), 1, 1)
		for i := range 20 {
			p.Config = append(p.Config, result.Pair{Key: fmt.Sprint(i), Value: strings.Repeat("x", 4000)})
		}
		keep(t, at("settings"), aRun(1, nil), p)
		broken("fifo", "not a regular file")
		fifo := filepath.Join(at("fifo"), result.TrialsFile)
		broken("zero", "not a regular file")
		zero := filepath.Join(at("zero"), result.RunFile)
		broken("huge", "octets: an index reads up to")
		broken("loop", "too many levels")
		loop := filepath.Join(at("loop"), result.TrialsFile)
		broken("tags", "has no tags")
		write("tags", result.TagsFile, `["a b"]`)
		broken("without", "no such file")
		if err := errors.Join(os.Remove(fifo), unix.Mkfifo(fifo, 0o600), os.Remove(zero), os.Symlink("/dev/zero", zero), os.Truncate(filepath.Join(at("huge"), result.TrialsFile), 1<<40),
			os.Remove(loop), os.Symlink(loop, loop), os.Remove(filepath.Join(at("without"), result.TrialsFile))); err != nil {
			t.Fatal(err)
		}
		// Odd, and no reason to leave it out.
		nasty := "\x1b[2Jname\x00\nof \xff" + strings.Repeat("y", 10000)
		odd := aPoint("64", 1, 1)
		odd.Procedure, odd.Config = nasty, append(odd.Config, result.Pair{Key: "box", Value: nasty})
		keep(t, at("odd"), aRun(50, func(r *result.Run) { r.Box, r.Role, r.Version, r.Kind = nasty, nasty, nasty, nasty }), odd)
		keep(t, at("cut"), aRun(51, nil), aPoint("64", 1, 1))
		if err := os.Truncate(filepath.Join(at("cut"), result.TrialsFile), 40); err != nil {
			t.Fatal(err)
		}
		keep(t, at("good"), aRun(52, nil), aPoint("64", 1, 1))

		for n := range 2 {
			u := update(t, x, Scan{Dirs: []string{runs}})
			if n == 0 && u.Read != len(bad)+3 || n == 1 && u.Read != 0 {
				t.Errorf("pass %d read %d of %d", n, u.Read, u.Bundles)
			}
			got := map[string]string{}
			for _, p := range u.Broken {
				got[filepath.Base(p.Dir)] = p.Cause
			}
			if len(got) != len(bad) {
				t.Errorf("pass %d: broken are %q", n, got)
			}
			for name, cause := range bad {
				if !strings.Contains(got[name], cause) {
					t.Errorf("pass %d: %s: %q, want %q", n, name, got[name], cause)
				}
			}
			if r := list(t, x, Filter{}); len(r) != 3 || !r[1].Unfinished || r[2].ID != "run052" || len(r[0].Box) > 2*longestText {
				t.Errorf("pass %d: %d runs", n, len(r))
			}
		}
		// A bundle that is repaired is whole again.
		keep(t, at("garbage"), aRun(60, nil), aPoint("64", 1, 1))
		if u := update(t, x, Scan{Again: true}); u.Read != 1 || len(u.Broken) != len(bad)-1 {
			t.Errorf("%+v", u)
		}
	})
}

// A judge that panics takes its bundle with it, and nothing else.
func TestFaultyJudge(t *testing.T) {
	x, runs := open(t, filepath.Join(t.TempDir(), "i.db")), t.TempDir()
	for n := range 3 {
		keep(t, filepath.Join(runs, fmt.Sprint(n)), aRun(n, nil), aPoint("64", 1, 1))
	}
	u, err := x.Update(context.Background(), Scan{Dirs: []string{runs}, Judge: func(r result.Run, _ []result.Record) (result.Status, string) {
		if r.Seed == 1 {
			panic("no")
		}
		return result.Passed, ""
	}})
	if err != nil || len(u.Broken) != 1 || u.Read != 3 {
		t.Errorf("%+v, %v", u, err)
	}
}

// A run that was removed after its machine got another hostname leaves with a rebuild.
func TestRenamedMachine(t *testing.T) {
	runs := t.TempDir()
	keep(t, filepath.Join(runs, "a"), aRun(1, nil), aPoint("64", 1, 1e5))
	keep(t, filepath.Join(runs, "b"), aRun(2, nil), aPoint("64", 1, 1e5))
	x := open(t, filepath.Join(t.TempDir(), "index.db"))
	update(t, x, Scan{Dirs: []string{runs}})
	x.host = "renamed"
	if err := os.RemoveAll(filepath.Join(runs, "b")); err != nil {
		t.Fatal(err)
	}
	same(t, "rebuilt", update(t, x, Scan{Dirs: []string{runs}, Rebuild: true}), Update{Bundles: 1, Read: 1})
	same(t, "the rest", names(t, x, Filter{}), []string{"run001"})
}
