// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"
	"pgregory.net/rapid"

	"boxdyno/engine"
	"boxdyno/frame"
	"boxdyno/host"
	"boxdyno/internal/testutil"
	"boxdyno/result"
	"boxdyno/runner"
	"boxdyno/unit"
)

// parsed is the load that flags ask for.
func parsed(args string, timed bool) (engine.Load, error) {
	var l loadFlags
	var p portFlags
	cmd := &cobra.Command{Use: "x", Args: cobra.NoArgs, SilenceErrors: true, SilenceUsage: true}
	p.add(&app{}, cmd, "send to")
	l.add(cmd, &p)
	cmd.Flags().Float64VarP(&l.multiplier, "multiplier", "x", 0, "")
	cmd.Flags().BoolVar(&l.unique, "unique-ip", false, "")
	var load engine.Load
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		load, err = l.load(cmd.Flags(), &p, timed)
		return err
	}
	cmd.SetArgs(strings.Fields(args))
	err := cmd.Execute()
	return load, err
}

func TestLoads(t *testing.T) {
	for _, c := range []struct {
		args  string
		timed bool
		want  engine.Load
	}{
		{"-t", false, engine.Load{Seed: 1}},
		{"-p 1000", false, engine.Load{Seed: 1, Alone: true, Rate: 1000}},
		{"-M 100", false, engine.Load{Seed: 1, Alone: true, Bits: 100e6}},
		{"--rate 200k --count 10", false, engine.Load{Seed: 1, Alone: true, Rate: 200e3, Count: 10}},
		{"--rate 2Mbps -L 10", false, engine.Load{Seed: 1, Alone: true, Bits: 2e6, Count: 10}},
		{"--rate 2Mbit/s --duration 1.5", false, engine.Load{Seed: 1, Alone: true, Bits: 2e6, Duration: 1500 * time.Millisecond}},
		{"-t --duration 2m --seed 7 --gaps", false, engine.Load{Seed: 7, Duration: 2 * time.Minute, Gaps: true}},
		{"-t --duration 0", false, engine.Load{Seed: 1, Duration: endless}},
		{"--rate 1k --pattern poisson --late shift", false, engine.Load{Seed: 1, Alone: true, Rate: 1000, Pattern: engine.Poisson, Late: engine.Shift}},
		{"--rate 1k --pattern bursts", false, engine.Load{Seed: 1, Alone: true, Rate: 1000, Pattern: engine.Bursts, Burst: 32}},
		{"--rate 1k --pattern bursts:7 --coalesce", false, engine.Load{Seed: 1, Rate: 1000, Pattern: engine.Bursts, Burst: 7}},
		{"", true, engine.Load{Seed: 1, Alone: true, Speed: 1}},
		{"-x 2.5 --unique-ip", true, engine.Load{Seed: 1, Alone: true, Speed: 2.5, Unique: true}},
		{"-t", true, engine.Load{Seed: 1}},
	} {
		got, err := parsed(c.args, c.timed)
		if err != nil || got != c.want {
			t.Errorf("%q: %+v, %v", c.args, got, err)
		}
	}
	for args, want := range map[string]string{
		"":                            "how fast?",
		"-t -p 5":                     "--topspeed and --pps exclude each other",
		"-M x":                        `--mbps "x"`,
		"-M 0":                        `--mbps "0"`,
		"-p -1":                       "--pps",
		"--rate fast":                 `--rate: rate "fast": want frame/s such as 200k`,
		"--rate fastbps":              "--rate: bit rate",
		"-x 2":                        "--multiplier is for frames that have times",
		"-t --count 0":                "--count 0: want 1 or more",
		"-t --count 1 -L 1":           "--count and --limit exclude each other",
		"-t --duration soon":          `--duration: duration "soon"`,
		"-t --duration -1s":           `--duration: duration "-1s"`,
		"-t --pattern poisson":        "--pattern poisson spreads frames about a frame rate",
		"-M 5 --pattern bursts":       "spreads frames about a frame rate",
		"--rate 1k --pattern x":       `--pattern "x"`,
		"--rate 1k --pattern burst":   `--pattern "burst"`,
		"--rate 1 --pattern bursts:0": "--pattern bursts:0",
		"-p 2000M":                    "--pps: want 0.001 to 1e9 frame/s",
		"--rate 2Tbps":                "--rate: want 1 to 1e12 bit/s",
		"-p 5 --late never":           `--late "never"`,
		"-t --late shift":             "--late has no effect with --topspeed",
		"-t --coalesce":               "--coalesce has no effect with --topspeed",
	} {
		if got, err := parsed(args, false); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %+v, %v; want %q", args, got, err, want)
		}
	}
}

func TestNumbers(t *testing.T) {
	for s, want := range map[string][]int{"0": {0}, "0,1": {0, 1}, "0-3": {0, 1, 2, 3}, "5,0-1": {5, 0, 1}} {
		if got, err := parseNumbers(s, 7); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v, %v", s, got, err)
		}
	}
	for _, s := range []string{"", "x", "0,", "1-0", "0,0", "0-2,1", "8", "0-99999999999", "-1"} {
		if got, err := parseNumbers(s, 7); err == nil {
			t.Errorf("%q: %v", s, got)
		}
	}
}

// The parts of a load are the load.
func TestShares(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 16).Draw(rt, "n")
		l := engine.Load{Rate: unit.FrameRate(rapid.Float64Range(1, 1e7).Draw(rt, "rate")), Count: rapid.Uint64Range(16, math.MaxUint64).Draw(rt, "count")}
		var rate unit.FrameRate
		var count uint64
		for i := range n {
			part := share(l, i, n)
			rate += part.Rate
			count += part.Count
			if part.Count == 0 {
				rt.Errorf("part %d has no end", i)
			}
		}
		if count != l.Count || math.Abs(float64(rate-l.Rate)) > 1e-6*float64(l.Rate) {
			rt.Errorf("%d parts are %v and %d of %v and %d", n, rate, count, l.Rate, l.Count)
		}
	})
}

func TestPortCounters(t *testing.T) {
	text, err := os.ReadFile("testdata/port/net-dev.txt")
	if err != nil {
		t.Fatal(err)
	}
	got, err := parseSent(string(text), "eth0")
	if want := (portCounts{frames: 129892, octets: 12373381 + 4*129892, dropped: 3 + 5}); err != nil || got != want {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	if _, err := parseSent(string(text), "eth"); err == nil {
		t.Error("a port that is not there has counters")
	}
	if _, err := parseSent("eth0: 1 2 3\n", "eth0"); err == nil {
		t.Error("a short line has counters")
	}
}

// golden compares with a file in testdata/golden; what differs is written beside it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", "golden", name)
	if os.Getenv("UPDATE_SCRIPTS") != "" {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != got {
		if err := os.WriteFile(path+".got", []byte(got), 0o644); err != nil {
			t.Error(err)
		}
		t.Errorf("%s differs: see %s.got\n%s", name, path, got)
	}
}

// printed is an account as text and as JSON, one after the other.
func printed(t *testing.T, acc interface{ text(io.Writer) error }) string {
	t.Helper()
	var b strings.Builder
	err := acc.text(&b)
	for line := range strings.Lines(b.String()) {
		if n := len([]rune(strings.TrimRight(line, "\n"))); n > textWidth {
			t.Errorf("a line of %d characters: %s", n, line)
		}
	}
	if err := errors.Join(err, encode(&b, acc)); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestSentAccount(t *testing.T) {
	port := &trafficPort{Port: host.Port{Name: "eth1"}, driver: "igc", link: 2.5e9}
	load := engine.Load{Rate: 2e6, Duration: 2 * time.Second, Seed: 1, Gaps: true}
	s := &sender{port: port, flags: &portFlags{}, load: load, cpus: []int{0, 1}, backend: "xdp/native"}
	o := &offer{command: "send", what: "64 octets, UDP over IPv4, 1 flow", notes: []string{"destination MAC 02:bd:00:00:00:02: nobody's"},
		streams: []engine.Stream{{ID: 0}, {ID: 1}}}
	gaps := &result.Histogram{Upper: []float64{1e-6, 2e-6}, Count: []uint64{1999990, 9}}
	reports := []engine.TxReport{
		{Stream: 0, Intended: 2e6, Accepted: 2e6, Octets: 128e6, Offered: 1e6, First: 1e9, Last: 3e9, Gaps: gaps, Batch: 20},
		{Stream: 1, Intended: 2e6, Accepted: 1.9e6, Octets: 1.9e6 * 64, Offered: 0.95e6, Refused: 7, NotSent: 99993, Late: 12, Stalls: 3,
			LongestStall: 210 * time.Microsecond, First: 1e9 + 500, Last: 3e9 + 500, Gaps: &result.Histogram{Upper: []float64{2e-6, 1e-4}, Count: []uint64{1899990, 9}}},
	}
	acc := s.account(o, reports, portCounts{frames: 3900001, octets: 3900001 * 64, dropped: 2}, false)
	if acc.Accepted.FPS != 1.95e6 || acc.Accepted.MeanSize != 64 || math.Abs(acc.Accepted.LineRateShare-1.95e6*84*8/2.5e9) > 1e-9 {
		t.Errorf("accepted: %+v", acc.Accepted)
	}
	if len(acc.Warnings) != 1 || !strings.Contains(acc.Warnings[0], "97.5 %") {
		t.Errorf("warnings: %q", acc.Warnings)
	}
	if n := acc.Gaps.Total(); n != 3899998 {
		t.Errorf("%d gaps", n)
	}
	acc.Version = "test"
	golden(t, "send.txt", printed(t, acc))
}

// A frame alone has no rate, and so none that is too low.
func TestSingleFramesAreNoWarning(t *testing.T) {
	port := &trafficPort{Port: host.Port{Name: "eth1"}, link: 1e9}
	s := &sender{port: port, flags: &portFlags{}, load: engine.Load{Rate: 1000, Count: 2}, cpus: []int{0, 1}, backend: "packet"}
	o := &offer{command: "send", streams: []engine.Stream{{ID: 0}, {ID: 1}}}
	one := engine.TxReport{Intended: 1, Accepted: 1, Octets: 64, First: 1e9, Last: 1e9}
	wire := portCounts{frames: 2, octets: 128}
	if acc := s.account(o, []engine.TxReport{one, one}, wire, false); len(acc.Warnings) > 0 {
		t.Errorf("warnings: %q", acc.Warnings)
	}
	one.Intended = 1000
	if acc := s.account(o, []engine.TxReport{one, one}, wire, false); len(acc.Warnings) != 1 {
		t.Errorf("of 2000 frames 2 were sent, and the warnings are %q", acc.Warnings)
	}
}

// A bit rate of conversations is what was asked, though their frames come at
// their own times.
func TestAskedOfConversations(t *testing.T) {
	s := &sender{port: &trafficPort{Port: host.Port{Name: "eth1"}}, flags: &portFlags{}, load: engine.Load{Speed: 1, Duration: 2 * time.Second}, cpus: []int{-1}, backend: "packet"}
	o := &offer{command: "send", mean: 10e6, streams: []engine.Stream{{}}}
	wire := portCounts{frames: 1000, octets: 1e6}
	acc := s.account(o, []engine.TxReport{{Accepted: 1000, Octets: 1e6, Offered: 500, First: 1, Last: 2e9}}, wire, false)
	if acc.Asked.L2 != 10e6 || !strings.HasPrefix(acc.Asked.Text, "10.0 Mbit/s (layer 2) as a mean") {
		t.Errorf("asked: %+v", acc.Asked)
	}
	if len(acc.Warnings) != 1 || !strings.HasPrefix(acc.Warnings[0], "40.0 % of the load that was asked was offered: flows begin") {
		t.Errorf("4 of 10 Mbit/s: %q", acc.Warnings)
	}
	o.mean = 0
	slow := engine.TxReport{Intended: 2000, Accepted: 1000, Octets: 1e6, NotSent: 1000, Offered: 500, First: 1, Last: 2e9}
	if acc := s.account(o, []engine.TxReport{slow}, wire, false); len(acc.Warnings) != 1 || acc.Warnings[0] != "50.0 % of the load that was asked was offered: the sender could do no more" {
		t.Errorf("half of the frames in time: %q", acc.Warnings)
	}
	if a := s.asked(o); a.Text != "at their own times, for 2.0 s" || a.L2 != 0 {
		t.Errorf("without a rate: %+v", a)
	}
}

// A port that takes nothing is a warning even flat out, where no rate was asked.
func TestAllRefused(t *testing.T) {
	s := &sender{port: &trafficPort{Port: host.Port{Name: "v0"}}, flags: &portFlags{}, load: engine.Load{Count: 3}, cpus: []int{-1}, backend: "xdp/native"}
	acc := s.account(&offer{command: "send", streams: []engine.Stream{{}}}, []engine.TxReport{{Intended: 3, Refused: 3, First: 1e9, Last: 1e9}}, portCounts{}, false)
	if len(acc.Warnings) != 1 || !strings.HasPrefix(acc.Warnings[0], "v0 took none of the 3 frames that backend xdp/native handed to it") {
		t.Errorf("warnings: %q", acc.Warnings)
	}
}

// What an interrupted load was meant to last says nothing about its rate.
func TestInterruptedAccount(t *testing.T) {
	port := &trafficPort{Port: host.Port{Name: "v0"}, driver: "veth"}
	s := &sender{port: port, flags: &portFlags{netns: "lab"}, load: engine.Load{Speed: 1, Duration: endless, Passes: 0, Seed: 1}, cpus: []int{-1}, backend: "packet"}
	o := &offer{command: "replay", what: "a.pcap"}
	o.streams = []engine.Stream{{ID: 0}}
	reports := []engine.TxReport{{Accepted: 1001, Octets: 1001 * 500, Offered: 1e-4, First: 5e9, Last: 6e9, Passes: 3, Starved: 1}}
	acc := s.account(o, reports, portCounts{frames: 990, octets: 990 * 500}, true)
	if acc.Accepted.FPS != 1000 || math.Abs(acc.Accepted.LineRateShare-1000*520*8/1e9) > 1e-9 || !acc.Interrupted {
		t.Errorf("%+v", acc.Accepted)
	}
	if len(acc.Warnings) != 1 || !strings.Contains(acc.Warnings[0], "11 frames less") {
		t.Errorf("warnings: %q", acc.Warnings)
	}
	acc.Version = "test"
	golden(t, "replay.txt", printed(t, acc))
}

func TestReceivedAccount(t *testing.T) {
	port := &trafficPort{Port: host.Port{Name: "eth1"}, driver: "igc", link: 1e9}
	hist := &result.Histogram{Upper: []float64{1e-6, 5e-6, 2e-4}, Count: []uint64{900, 98, 1}}
	rep := engine.MeterReport{
		Foreign: 5, ForeignOctets: 500, Drops: 1, First: 1e9, Last: 2e9, Stamps: "software, XDP program (floor 50 ns)",
		Streams: []engine.RxReport{
			{Stream: 0, Frames: 1000, Octets: 64000, Duplicate: 2, Reordered: 3, Span: 1010, First: 1e9, Last: 2e9, Rate: 999,
				Runs: []engine.RxRun{
					{Frames: 700, Octets: 44800, Duplicate: 2, Span: 700, First: 1e9, Last: 15e8},
					{Frames: 300, Octets: 19200, Reordered: 3, Span: 310, First: 16e8, Last: 2e9},
				},
				Gaps: hist, IPDV: hist, Latency: hist, Bursts: &result.Histogram{Upper: []float64{1, 32}, Count: []uint64{10, 1}}},
			{Stream: 1, Span: 0},
			{Stream: 2, Frames: 50, Octets: 3200, Span: 40, Rate: 50, First: 1e9, Last: 2e9},
		},
	}
	acc := receivedOf(port, &portFlags{}, &meterFlags{}, "xdp/native", rep, 5e8, 2e9)
	if len(acc.Streams) != 2 || acc.Streams[0].Missing != 12 || acc.Streams[0].Latency != nil || acc.Streams[1].Missing != -10 || len(acc.Warnings) != 2 {
		t.Errorf("%+v", acc)
	}
	if acc.Total.Frames != 1055 || acc.Total.Octets != 64000+3200+500 {
		t.Errorf("in all %+v", acc.Total)
	}
	acc.Version = "test"
	golden(t, "meter.txt", printed(t, acc))
	shared := receivedOf(port, &portFlags{gaps: true}, &meterFlags{sharedClock: true}, "xdp/native", rep, 5e8, 2e9)
	if l := shared.Streams[0].Latency; l == nil || l.P99 != 5e-6 || l.Max != 2e-4 || l.Histogram != hist {
		t.Errorf("latency %+v", l)
	}
}

// The lines of --stats add up to the whole, with and without a terminal.
func TestTicker(t *testing.T) {
	for _, asJSON := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) { tick(t, asJSON) })
	}
	k := &ticker{liveLine: liveLine{w: io.Discard}, out: io.Discard, every: time.Millisecond}
	broken := errors.New("gone")
	if err := k.watch(make(chan struct{}), portCounts{}, func() (portCounts, error) { return portCounts{}, broken }, nil); err != broken {
		t.Errorf("a port that is gone: %v", err)
	}
}

func tick(t *testing.T, asJSON bool) {
	var out, errw strings.Builder
	k := &ticker{liveLine: liveLine{w: &errw, width: 60}, out: &out, asJSON: asJSON, every: 60 * time.Millisecond, loss: "dropped"}
	if err := k.begin("header"); err != nil {
		t.Fatal(err)
	}
	reads := uint64(0)
	read := func() (portCounts, error) {
		reads++
		return portCounts{frames: 100 + 10*reads, octets: 640 * reads, dropped: reads}, nil
	}
	done := make(chan struct{})
	time.AfterFunc(150*time.Millisecond, func() { close(done) })
	if err := k.watch(done, portCounts{frames: 100}, read, func(uint64, time.Duration) float64 { return 0.25 }); err != nil {
		t.Fatal(err)
	}
	k.clear()
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	want := map[bool]int{false: 5, true: 3}[asJSON] // header, head, two whole intervals and the rest
	if len(lines) != want {
		t.Errorf("%d lines: %q", len(lines), lines)
	}
	if !strings.Contains(errw.String(), "\r\x1b[K[###.........] 25 %, ") || !strings.HasSuffix(errw.String(), "\r\x1b[K") {
		t.Errorf("drawn: %q", errw.String())
	}
	for l := range strings.SplitSeq(errw.String(), "\r\x1b[K") {
		if len(l) >= 60 {
			t.Errorf("%q is wider than the terminal", l)
		}
	}
	if k.last.frames != 100+10*reads {
		t.Errorf("the lines end at %d frames of %d", k.last.frames, 100+10*reads)
	}
}

// Intervals are as long as asked on a terminal, too, whose live line is drawn more
// often: they are whole numbers of its steps.
func TestTickerSteps(t *testing.T) {
	for _, every := range []time.Duration{50 * time.Millisecond, 200 * time.Millisecond, 300 * time.Millisecond, 500 * time.Millisecond, time.Second, 7 * time.Second} {
		k := &ticker{liveLine: liveLine{width: 80}, every: every}
		if step := k.step(); step > live || every%step > time.Microsecond {
			t.Errorf("a line every %v, drawn every %v", every, step)
		}
		if k.width = 0; k.step() != every {
			t.Errorf("without a terminal: every %v", k.step())
		}
	}
	if k := (&ticker{liveLine: liveLine{width: 80}}); k.step() != live {
		t.Errorf("a live line alone every %v", k.step())
	}
	if k := (&ticker{}); k.step() != time.Second {
		t.Errorf("the port is looked at every %v", k.step())
	}
}

// What is plain goes the fastest way, and nothing else does.
func TestPlain(t *testing.T) {
	e := ends{src: netip.MustParseAddr("198.18.0.2"), dst: netip.MustParseAddr("198.19.0.2")}
	for _, c := range []struct {
		change func(f *sendFlags)
		want   bool
	}{
		{func(*sendFlags) {}, true},
		{func(f *sendFlags) { f.size = "imix"; f.flows = 1000 }, true},
		{func(f *sendFlags) { f.proto = "tcp" }, false},
		{func(f *sendFlags) { f.vlan = "100" }, false},
		{func(f *sendFlags) { f.qinq = "200,100" }, false},
		{func(f *sendFlags) { f.zipf = 1.1 }, false},
		{func(f *sendFlags) { f.fields = []string{"ttl=9"} }, false},
		{func(f *sendFlags) { f.unsigned = true }, false},
		{func(f *sendFlags) { f.size = "random:64-1518" }, false},
		{func(f *sendFlags) { f.size = "9000" }, false},
	} {
		f := sendFlags{size: "64", proto: "udp", ip: "4", flows: 1, srcPort: frame.FirstPort, dstPort: frame.Port}
		c.change(&f)
		s, err := f.synthetic(e, forceFlags{})
		if err != nil {
			t.Fatal(err)
		}
		spec, ok := plain(s)
		if ok != c.want {
			t.Errorf("%+v: %v", f, ok)
		}
		if err := spec.Check(); ok && err != nil {
			t.Errorf("%+v: %v", f, err)
		}
	}
}

// The page on the commands has every field of what they print.
func TestPageHasEveryField(t *testing.T) {
	page, err := os.ReadFile("../../docs/send.md")
	if err != nil {
		t.Fatal(err)
	}
	var look func(typ reflect.Type)
	look = func(typ reflect.Type) {
		switch typ.Kind() {
		case reflect.Pointer, reflect.Slice:
			look(typ.Elem())
		case reflect.Struct:
			for f := range typ.Fields() {
				name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
				if name != "" && !strings.Contains(string(page), "`"+name+"`") {
					t.Errorf("docs/send.md does not say what %s of %v is", name, typ)
				}
				if typ != reflect.TypeFor[result.Histogram]() {
					look(f.Type)
				}
			}
		}
	}
	for _, v := range []any{interval{}, sentAccount{}, receivedAccount{}} {
		look(reflect.TypeOf(v))
	}
}

// Parts of a load cannot share standard input.
func TestStandardInputIsReadOnce(t *testing.T) {
	cpus := testutil.TwoCPUs(t)
	code, _, errw := call(t.Context(), runner.Catalogue{}, "replay", "-i", "nosuch0", "-t", "--cpus", fmt.Sprintf("%d,%d", cpus[0], cpus[1]), "-")
	if code != exitUsage || strings.Count(errw, "\n") != 1 || !strings.Contains(errw, "standard input can be read once only") {
		t.Errorf("exit code %d: %s", code, errw)
	}
}
