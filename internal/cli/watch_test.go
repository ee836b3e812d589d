// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"boxdyno/internal/testutil"
	"boxdyno/result"
	"boxdyno/runner"
	"boxdyno/store"
	"boxdyno/telemetry"
	"boxdyno/unit"
)

func TestViewLine(t *testing.T) {
	pair := func(key, value string) []result.Pair { return []result.Pair{{Key: key, Value: value}} }
	mode := func(m string) result.Series {
		return result.Series{Name: "node_cpu_seconds_total", Labels: pair("mode", m), Counter: true}
	}
	nan := math.NaN()
	for _, c := range []struct {
		series   []result.Series
		was, now []float64
		want     string
	}{
		{nil, nil, nil, ""},
		{[]result.Series{mode("user"), mode("softirq"), mode("idle"), mode("iowait")}, []float64{0, 0, 0, 0}, []float64{0.5, 0.5, 2, 1}, "  cpu  25.0 %  softirq  12.5 %"},
		{[]result.Series{{Name: "node_thermal_zone_temp"}, {Name: "node_hwmon_temp_celsius"}, {Name: "node_hwmon_temp_celsius"}}, []float64{1, 1, 1}, []float64{41, nan, 61.26}, "  61.3 °C"},
		{[]result.Series{{Name: "node_cpu_scaling_frequency_hertz"}, {Name: "node_cpu_scaling_frequency_hertz"}}, []float64{0, 0}, []float64{6e8, 1.8e9}, "  1.80 GHz"},
		{[]result.Series{{Name: "node_rapl_package_joules_total"}, {Name: "node_rapl_package_joules_total"}}, []float64{10, 20}, []float64{14, 23}, "  3.50 W"},
		{[]result.Series{{Name: "node_rapl_package_joules_total"}, {Name: "node_hwmon_power_watt"}, {Name: "boxdyno_power_watts"}}, []float64{10, 1, nan}, []float64{14, 3, 7.25}, "  7.25 W"},
		{[]result.Series{{Name: "node_rapl_package_joules_total"}, {Name: "node_hwmon_power_watt"}, {Name: "boxdyno_power_watts"}}, []float64{10, 1, nan}, []float64{14, 3, nan}, "  3.00 W"},
		{[]result.Series{{Name: "a", Place: result.Softnet}, {Name: "b", Place: result.DUTNIC}, {Name: "c", Place: result.DUTNIC}}, []float64{0, 0, 0}, []float64{4, 10, 20}, "  drops/s: dut nic 15, softnet 2"},
		{[]result.Series{{Name: "a", Place: result.Softnet}, {Name: "b", Place: result.DUTNIC}}, []float64{4, nan}, []float64{4, nan}, "  drops/s: none"},
		{[]result.Series{{Name: "a", Place: result.Softnet}}, []float64{nan}, []float64{nan}, ""},
		{[]result.Series{{Name: "a", Place: result.Softnet}}, []float64{9}, []float64{3}, ""}, // it started anew
	} {
		v := newView(c.series)
		copy(v.was, c.was)
		copy(v.now, c.now)
		v.took = 2
		if got := v.line(); got != c.want {
			t.Errorf("from %v to %v of %v: %q, want %q", c.was, c.now, c.series, got, c.want)
		}
	}
}

// steady is a collector of one counter.
type steadyCollector struct {
	n    float64
	read func(n float64) // nil: nobody is told
}

func (s *steadyCollector) Series() []result.Series {
	return []result.Series{{Name: "x_total", Unit: "1", Counter: true, Place: result.Softnet, Help: "x"}}
}
func (s *steadyCollector) Read(dst []float64) error {
	s.n++
	dst[0] = s.n
	if s.read != nil {
		s.read(s.n)
	}
	return nil
}

// Ctrl-C ends a watch with exit code 0, and what was printed is whole.
func TestWatchEnds(t *testing.T) {
	testutil.NoLeaks(t)
	c := scripted(nil)
	ctx, cancel := context.WithCancel(t.Context())
	steady := &steadyCollector{read: func(n float64) {
		if n == 5 {
			cancel()
		}
	}}
	c.Collectors = []telemetry.Spec{
		{Name: "x", Doc: "x", Default: true, New: func(context.Context, *telemetry.Machine) (telemetry.Collector, error) { return steady, nil }},
		{Name: "broken", Doc: "x", Default: true, New: func(context.Context, *telemetry.Machine) (telemetry.Collector, error) {
			return nil, errors.New("no bus")
		}},
		{Name: "absent", Doc: "x", Default: true, New: func(context.Context, *telemetry.Machine) (telemetry.Collector, error) {
			return nil, telemetry.ErrAbsent
		}},
	}
	code, out, errw := call(ctx, c, "watch", "--json", "--rate", "20")
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	if code != exitOK || len(lines) < 4 || !strings.HasPrefix(lines[0], `{"schema":1,"start":"`) || !strings.Contains(lines[0], `"x_total"`) {
		t.Errorf("exit code %d, %d lines: %.200s", code, len(lines), out)
	}
	for _, l := range lines {
		if !json.Valid([]byte(l)) {
			t.Errorf("%q is no JSON", l)
		}
	}
	if strings.Count(errw, "no bus") != 1 || strings.Contains(errw, "absent") {
		t.Errorf("standard error: %q", errw)
	}
	code, out, _ = call(t.Context(), c, "watch", "--for", "2.3")
	if lines := strings.Count(out, "\n"); code != exitOK || lines < 1 || !strings.Contains(out, "  drops/s: softnet ") {
		t.Errorf("exit code %d, %q", code, out)
	}
	for says, args := range map[string][]string{
		`--rate: rate "99": want a number from 1 to 50 Hz`:                     {"--rate", "99"},
		`--collectors: there is no collector "nope": there are all, x, broken`: {"--collectors", "x,nope"},
		`--for: duration "soon"`:                                               {"--for", "soon"},
	} {
		if code, _, errw := call(t.Context(), c, append([]string{"watch"}, args...)...); code != exitUsage || !strings.Contains(errw, says) {
			t.Errorf("%v: exit code %d, %q", args, code, errw)
		}
	}
}

// On a terminal watch is a view, which follows the terminal's size and ends with q or
// Ctrl-C and exit code 0.
func TestWatchOnTerminal(t *testing.T) {
	for _, key := range []string{"q", "\x03"} {
		x := testutil.NewTerminal(t, 80, 24)
		before := x.State(t)
		cmd := exec.Command("boxdyno", "watch", "--collectors", "cpu,memory")
		cmd.Env = append(os.Environ(), "TERM=xterm-256color", "LC_ALL=C.UTF-8", "NO_COLOR=1")
		cmd.Stdin, cmd.Stdout, cmd.Stderr = x.File, x.File, x.File
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill() }) // it may have ended
		x.Await(t, 0, "Linux ")
		x.Await(t, 0, "available")
		x.Await(t, 0, "costs")
		if !strings.ContainsAny(x.Written(), "▁▂▃▄▅▆▇█") {
			t.Errorf("no curve in %q", x.Written())
		}
		from := len(x.Written())
		x.Resize(t, 120, 40)
		x.Await(t, from, "? help") // the last line, again
		x.Type(t, key)
		if err := cmd.Wait(); err != nil {
			t.Errorf("after %q: %v", key, err)
		}
		if x.State(t) != before {
			t.Errorf("after %q the terminal is not as it was", key)
		}
	}
}

func TestBlockElements(t *testing.T) {
	for _, c := range []struct {
		term, all, ctype, lang string
		want                   bool
	}{
		{"xterm", "", "", "en_US.UTF-8", true},
		{"xterm", "", "C.utf8", "C", true},
		{"xterm", "C", "", "en_US.UTF-8", false},
		{"xterm", "", "", "", false},
		{"linux", "", "", "en_US.UTF-8", false},
	} {
		env := map[string]string{"TERM": c.term, "LC_ALL": c.all, "LC_CTYPE": c.ctype, "LANG": c.lang}
		if got := blockElements(func(k string) string { return env[k] }); got != c.want {
			t.Errorf("%v: %v", env, got)
		}
	}
}

func TestPasswordIsNotKept(t *testing.T) {
	a := &app{argv: []string{"boxdyno", "run", "x", "--plug=http://me:pw@p/", "--plug", "http://me:pw@p/"}}
	if got := strings.Join(a.command(runner.Watching{Plug: "http://me:pw@p/"}), " "); got != "boxdyno run x --plug=http://p/ --plug http://p/" {
		t.Errorf("kept is %q", got)
	}
}

// SIGKILL takes about a second of a run's telemetry, and --resume goes on with the
// file.
func TestKilledRunKeepsTelemetry(t *testing.T) {
	testutil.Privileged(t)
	dir := filepath.Join(t.TempDir(), "run")
	ctx, stop := context.WithTimeout(t.Context(), 3*time.Minute) // somebody else may be measuring
	defer stop()
	args := []string{"run", "throughput", "--set", "frame_size=1518", "--telemetry", "20", "--budget", "5s", "--out", dir, "--quiet"}
	if runtime.NumCPU() < 2 { // nothing is searched: a point has nine trials
		args = append(args, "--repeat", "2")
	}
	cmd := exec.CommandContext(ctx, "boxdyno", args...)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	finished := func() (n int) {
		_, recs, err := result.Open(dir)
		for _, r := range recs {
			if err == nil && r.Parent != "" && r.Finished() {
				n++
			}
		}
		return n
	}
	for finished() < 4 && ctx.Err() == nil {
		time.Sleep(50 * time.Millisecond)
	}
	_ = cmd.Process.Kill() // it may have ended
	if err := cmd.Wait(); err == nil || ctx.Err() != nil {
		t.Fatalf("the run was not killed: %v", err)
	}
	_, recs, err := result.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	var end unit.Instant
	for _, r := range recs {
		end = max(end, r.End)
	}
	last := readTelemetry(t, dir)
	if last == 0 || last < end-5e9 {
		t.Errorf("the telemetry ends at %.1f s, the run at %.1f s", float64(last)/1e9, float64(end)/1e9)
	}

	parquet := filepath.Join(dir, store.ParquetFile)
	if _, err := os.Stat(parquet); err == nil {
		t.Error("a run that was killed is written as if it were finished")
	}
	out, err := exec.CommandContext(ctx, "boxdyno", "report", dir, "-o", filepath.Join(t.TempDir(), "killed.parquet")).CombinedOutput()
	if err != nil {
		t.Errorf("a killed run's samples: %v\n%s", err, out)
	}

	again := exec.CommandContext(ctx, "boxdyno", "run", "--resume", dir, "--quiet")
	out, err = again.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || !slices.Contains([]int{exitFailed, exitInvalid}, exit.ExitCode())) {
		t.Fatalf("resumed: %v\n%s", err, out)
	}
	run, recs, err := result.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(parquet); err != nil || info.Size() < 1000 {
		t.Errorf("a finished run's samples: %v, %v", info, err)
	}
	if len(run.Telemetry) != 2 || run.Telemetry[1].Samples == 0 {
		t.Errorf("the header says of telemetry %+v", run.Telemetry)
	}
	for _, r := range recs {
		if r.Parent != "" && r.Finished() && len(r.Digests) < 5 {
			t.Errorf("%s has %d digests", r.ID, len(r.Digests))
		}
		for _, d := range r.Digests {
			if d.Series >= len(run.Series) {
				t.Fatalf("%s has a digest of series %d of %d", r.ID, d.Series, len(run.Series))
			}
		}
	}
	if now := readTelemetry(t, dir); now <= last {
		t.Errorf("the telemetry ends at %v after %v", now, last)
	}
}

// readTelemetry reads all of a run's telemetry and returns its last instant.
func readTelemetry(t *testing.T, dir string) (last unit.Instant) {
	t.Helper()
	r, err := result.OpenTelemetry(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for {
		b, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil || b.At < last {
			t.Fatalf("a batch at %d after %d: %v", b.At, last, err)
		}
		last = b.At
	}
	run, _, err := result.Open(dir)
	if err != nil || !slices.EqualFunc(run.Series, r.Head.Series, result.Series.Same) {
		t.Errorf("the file has %d series, and the run's header %d (%v)", len(r.Head.Series), len(run.Series), err)
	}
	return last
}
