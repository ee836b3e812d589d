// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"boxdyno/host"
	"boxdyno/internal/testutil"
	"boxdyno/procedure/many"
	"boxdyno/result"
)

// second gives each board of the rack a cable to another switch, beside that to its hub.
func (r *rack) second(t *testing.T, boards int) {
	t.Helper()
	r.ip(t, "-n", r.space("sw"), "link", "add", "br1", "type", "bridge")
	r.ip(t, "-n", r.space("sw"), "link", "set", "br1", "up")
	for i := range boards {
		name, at := fmt.Sprintf("b%d", i+1), fmt.Sprintf("second%d", i+1)
		r.ip(t, "-n", r.space(name), "link", "add", "eth1", "type", "veth", "peer", "name", at, "netns", r.space("sw"))
		r.ip(t, "-n", r.space("sw"), "link", "set", at, "master", "br1", "up")
		r.ip(t, "-n", r.space(name), "addr", "add", fmt.Sprintf("10.213.78.%d/24", 11+i), "dev", "eth1")
		r.ip(t, "-n", r.space(name), "link", "set", "eth1", "up")
	}
}

// narrow has a board's second cable carry no more to it than rate, in words of tc(8).
func (r *rack) narrow(t *testing.T, board, rate string) {
	t.Helper()
	if out, err := exec.Command("ip", "netns", "exec", r.space("sw"), "tc", "qdisc", "add", "dev", "second"+board[1:], "root", "tbf", "rate", rate, "burst", "1600", "latency", "5ms").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

func (r *rack) ip(t *testing.T, words ...string) {
	t.Helper()
	if out, err := exec.Command("ip", words...).CombinedOutput(); err != nil {
		t.Fatalf("ip %q: %v: %s", words, err, out)
	}
}

// unwrapped is a report as one line.
func unwrapped(text string) string { return strings.Join(strings.Fields(text), " ") }

const pairAllows = "subjects,services,network"

// Few frames a second, which a sender keeps beside other programs.
var fewFrames = []string{"--seed", "1", "--set", "subject=af_packet", "--set", "rate=200", "--set", "most_skew=1"}

// Two pairs of boards send and capture at one instant, over another switch than their hub's.
// The cable that loses frames is named, and the books of each pair close. What a board lacks
// for it is a sentence.
func TestFleetPairs(t *testing.T) {
	testutil.Long(t)
	testutil.Alone(t)
	if err := host.Has("tc"); err != nil {
		t.Skip(err)
	}
	r := newRack(t, pairAllows, pairAllows, pairAllows, pairAllows)
	code, said, _ := r.run(t, "capture", "--boxes", "b1,b2", "--nodes", "2", "--set", "pairs=disjoint", "--set", "subject=af_packet")
	if code != exitInvalid || !strings.Contains(unwrapped(said), "has no private IPv4 network but that of its hub: test frames need another cable") {
		t.Errorf("exit code %d: %s", code, said)
	}
	r.second(t, 4)
	order := many.Subset([]string{"b1", "b2", "b3", "b4"}, 4, 1, 1) // the first one sends to the second, the third to the fourth
	r.narrow(t, order[1], "48kbit")                                 // of 96
	code, said, recs := r.run(t, append(fewFrames, "capture", "--nodes", "4", "--set", "pairs=disjoint", "--set", "packets=600")...)
	t.Log(said)
	said = unwrapped(said)
	for _, want := range []string{"from " + order[0] + " to " + order[1] + ": ", "lost between the boards", "the worst pair is " + order[0] + " to " + order[1] + ": "} {
		if code != exitFailed || !strings.Contains(said, want) || strings.Contains(said, ", 0 B") {
			t.Errorf("exit code %d: not %q: %s", code, want, said)
		}
	}
	pairs := ofPairs(recs)
	for _, rec := range pairs {
		from, to := result.Get(rec.Config, "from"), result.Get(rec.Config, "to")
		bad := from == order[0] && to == order[1]
		a := rec.Account
		if !bad && (from != order[2] || to != order[3]) || a == nil || a.Accepted != 600 || len(rec.Boards) != 2 || len(rec.Phases) == 0 {
			t.Fatalf("from %s to %s: %+v", from, to, rec)
		}
		if a.Accepted != a.Received+a.Dropped()+a.InFlight || a.Unexplained != 0 || bad != (a.DroppedAt(result.Link) > 200) || !bad && a.Received != a.Accepted {
			t.Errorf("from %s to %s: %+v", from, to, a)
		}
	}
	if len(pairs) != 2 {
		t.Errorf("%d pairs: %s", len(pairs), said)
	}
}

// In two pairs of boards one routes frames back to the other. The limit of a narrowed cable is found
// and named, nearly all lost frames are too, and the boards are as they were.
func TestFleetPairsForward(t *testing.T) {
	testutil.Long(t)
	testutil.Alone(t)
	if err := host.Has("tc"); err != nil {
		t.Skip(err)
	}
	r := newRack(t, "services,network", "services,network", "services,network", "services,network")
	r.second(t, 4)
	order := many.Subset([]string{"b1", "b2", "b3", "b4"}, 4, 1, 1)
	for i, b := range order {
		r.narrow(t, b, []string{"40mbit", "10mbit", "40mbit", "40mbit"}[i])
	}
	carries := map[string]float64{order[0]: 10e6 / 8 / 1514, order[2]: 40e6 / 8 / 1514} // of a frame of 1518 the kernel has 1514
	code, said, recs := r.run(t, "forward", "--seed", "1", "--nodes", "4", "--set", "pairs=disjoint", "--set", "most_skew=200", "--set", "frame_size=1518")
	t.Log(said)
	if want := "the slowest pair is " + order[0] + " to " + order[1] + ": "; code != exitOK || !strings.Contains(unwrapped(said), want) {
		t.Errorf("exit code %d: not %q", code, want)
	}
	pairs := 0
	for _, rec := range recs {
		if rec.Parent == "" || rec.Procedure != "fleet-forward" {
			continue
		}
		pairs++
		a, v, most := rec.Account, rec.Value("forwarding_rate_fps"), rec.Value("throughput_fps")
		want := carries[result.Get(rec.Config, "from")]
		if a == nil || v == nil || most == nil || len(rec.Boards) != 2 || len(rec.Phases) == 0 {
			t.Fatalf("%s: %s %s: %+v", rec.ID, rec.Status, rec.Reason, rec)
		}
		if a.Unexplained < 0 || a.Unexplained > 200 || a.Accepted != a.Received+a.Dropped()+a.InFlight+a.Unexplained { // ports count ARP and IPv6's own frames, too
			t.Errorf("%s: %+v", rec.ID, a)
		}
		// A busy machine carries less without loss. Below a tenth the search has found something else.
		if math.Abs(v.Value/want-1) > 0.15 || most.Value > 1.05*want || most.Value < want/10 || most.Bound == result.AtMost || a.DroppedAt(result.Link) == 0 {
			t.Errorf("%s: %+v, %+v, want %g: %+v", rec.ID, v, most, want, a)
		}
	}
	if pairs != 2 {
		t.Errorf("%d pairs", pairs)
	}
	if held := r.carriesAtOnce(t, recs, 50e6/8/1514); held != "" {
		t.Log(held)
	}
	for _, b := range order {
		out, err := exec.Command("ip", "-n", r.space(b), "-br", "addr", "show", "dev", "eth1").CombinedOutput()
		if err != nil || strings.Contains(string(out), "198.1") {
			t.Errorf("%s: %s, %v", b, out, err)
		}
	}
}

// carriesAtOnce checks what all pairs carried at one time: no more than most, nor than they carry one
// by one, nor far less than the lower of these; an upper bound may be a queue of 100 ms above. It
// returns why there is nothing to check: a board was held up.
func (r *rack) carriesAtOnce(t *testing.T, recs []result.Record, most float64) (held string) {
	t.Helper()
	i := slices.IndexFunc(recs, func(rec result.Record) bool { return rec.Parent == "" && rec.Procedure == "fleet-forward" })
	if i < 0 {
		t.Fatal("there is no point")
	}
	point := recs[i]
	v, lost, added := point.Value("pairs_at_once_fps"), point.Value("pairs_at_once_lost"), point.Value("pairs_throughput_fps")
	if v == nil {
		said := strings.Join(point.Warnings, " ")
		if !strings.Contains(said, "were not all offered their loads at one time") {
			t.Fatalf("nothing was carried at once: %+v, %q", point.Values, point.Warnings)
		}
		return said
	}
	t.Logf("at once %.0f frame/s, %.2g lost, added up %.0f", v.Value, lost.Value, added.Value)
	least, above := min(most, added.Value), 1.05
	if v.Bound == result.AtMost {
		above = 1.15
	}
	if v.Value < least/2 || v.Value > above*least {
		t.Errorf("at once %+v of %+v added up, %g lost", v, added, lost.Value)
	}
	return ""
}

// Pairs on both sides of a trunk share it: what all carry at once is no more than the trunk carries,
// whatever each found while others had ended. What its queue of 100 ms takes is not carried.
func TestFleetPairsShareATrunk(t *testing.T) {
	testutil.Long(t)
	testutil.Alone(t)
	if err := host.Has("tc"); err != nil {
		t.Skip(err)
	}
	r := newRack(t, "services,network", "services,network", "services,network", "services,network")
	r.second(t, 4)
	order := many.Subset([]string{"b1", "b2", "b3", "b4"}, 4, 1, 1)
	for _, words := range [][]string{
		{"link", "add", "br2", "type", "bridge"}, {"link", "set", "br2", "up"},
		{"link", "add", "trunk1", "type", "veth", "peer", "name", "trunk2"},
		{"link", "set", "trunk1", "master", "br1", "up"}, {"link", "set", "trunk2", "master", "br2", "up"},
		{"link", "set", "second" + order[1][1:], "master", "br2"}, {"link", "set", "second" + order[3][1:], "master", "br2"}, // those that route
	} {
		r.ip(t, append([]string{"-n", r.space("sw")}, words...)...)
	}
	if out, err := exec.Command("ip", "netns", "exec", r.space("sw"), "tc", "qdisc", "add", "dev", "trunk1", "root", "tbf", "rate", "20mbit", "burst", "3200", "latency", "100ms").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	code, said, recs := r.run(t, "forward", "--seed", "1", "--nodes", "4", "--set", "pairs=disjoint", "--set", "most_skew=200", "--set", "frame_size=1518")
	t.Log(said)
	if code == exitInvalid && strings.Contains(unwrapped(said), "were invalid or in doubt") {
		t.Skip("a board was held up, so a pair has no limit")
	} else if code != exitOK {
		t.Fatalf("exit code %d", code)
	}
	if held := r.carriesAtOnce(t, recs, 20e6/8/1514); held != "" {
		t.Skip("a board was held up: " + held)
	}
}

// Every board has each other one route, behind rules. A run that is interrupted goes on where it was;
// a routing board that dies is named, the pairs without it have their figures, and nothing stays.
func TestFleetForwardEnd(t *testing.T) {
	testutil.Long(t)
	testutil.Alone(t)
	if err := host.Has("tc"); err != nil {
		t.Skip(err)
	}
	r := newRack(t, "services,network", "services,network", "services,network", "services,network")
	r.second(t, 4)
	for _, b := range []string{"b1", "b2", "b3", "b4"} {
		r.narrow(t, b, "10mbit")
	}
	var out bytes.Buffer
	words := []string{"fleet", "run", "forward", "--quiet", "--seed", "1", "--set", "service=filter", "--set", "rules=10", "--set", "most_skew=200", "--set", "frame_size=1518"}
	forwards := func(dir string) (pairs map[string]result.Record) {
		pairs = map[string]result.Record{}
		_, recs, _ := result.Open(dir) // it may not be there yet
		for _, rec := range recs {
			if rec.Parent != "" && rec.Procedure == "fleet-forward" {
				pairs[result.Get(rec.Config, "from")+" "+result.Get(rec.Config, "to")] = rec
			}
		}
		return pairs
	}
	finished := func(dir string) (began map[string]time.Time) {
		began = map[string]time.Time{}
		for way, rec := range forwards(dir) {
			if rec.Status == result.Passed {
				began[way] = rec.Start
			}
		}
		return began
	}
	dir := filepath.Join(r.dir, "run")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan int, 1)
	go func() {
		ended <- Main(ctx, append(words, "--out", dir, "--boxes", "b1,b2,b3", "--nodes", "3", "--set", "search=none"), &out, &out)
	}()
	for begin := time.Now(); len(finished(dir)) < 2; time.Sleep(20 * time.Millisecond) {
		if time.Since(begin) > 2*time.Minute {
			t.Fatal("nothing has finished")
		}
	}
	stop()
	if code := <-ended; code != exitInterrupted {
		t.Fatalf("exit code %d: %s", code, out.Bytes())
	}
	before := finished(dir)
	out.Reset()
	if code := Main(t.Context(), []string{"fleet", "run", "--quiet", "--resume", dir}, &out, &out); code != exitOK {
		t.Fatalf("exit code %d: %s", code, out.Bytes())
	}
	after := finished(dir)
	for way, begun := range before {
		if !after[way].Equal(begun) {
			t.Errorf("from %s was measured again", way)
		}
	}
	if len(before) < 2 || len(before) == 6 || len(after) != 6 {
		t.Errorf("%d pairs before and %d after: %s", len(before), len(after), out.Bytes())
	}

	dir = filepath.Join(r.dir, "dies")
	order := many.Subset([]string{"b1", "b2", "b3", "b4"}, 4, 1, 1)
	out.Reset()
	go func() {
		ended <- Main(t.Context(), append(words, "--out", dir, "--nodes", "4", "--set", "pairs=disjoint"), &out, &out)
	}()
	sent := func() (n int) {
		text, err := exec.Command("ip", "netns", "exec", r.space(order[1]), "cat", "/sys/class/net/eth1/statistics/tx_packets").Output()
		if _, serr := fmt.Sscan(string(text), &n); err != nil || serr != nil {
			t.Fatal(err, serr)
		}
		return n
	}
	for begin, before := time.Now(), sent(); sent() < before+500; time.Sleep(5 * time.Millisecond) {
		if time.Since(begin) > time.Minute {
			t.Fatalf("%s routes nothing", order[1])
		}
	}
	_ = r.agents[order[1]].Process.Kill() // that of ip, which has become the agent
	code := <-ended
	if said := unwrapped(out.String()); code != exitInvalid || !strings.Contains(said, "from "+order[0]+" to "+order[1]+": board "+order[1]+": ") {
		t.Errorf("exit code %d: %s", code, said)
	}
	found := forwards(dir)
	bad, good := found[order[0]+" "+order[1]], found[order[2]+" "+order[3]]
	if bad.Status != result.Invalid || !strings.HasPrefix(bad.Reason, "board "+order[1]+": ") || len(bad.Values) > 0 {
		t.Errorf("%s %s", bad.Status, bad.Reason)
	}
	if good.Value("forwarding_rate_fps") == nil || strings.Contains(good.Reason, "board") { // on a busy machine it may have no limit
		t.Errorf("the other pair: %s %s, %+v", good.Status, good.Reason, good.Values)
	}
	for _, b := range []string{order[0], order[2], order[3]} {
		out, err := exec.Command("ip", "-n", r.space(b), "-br", "addr", "show", "dev", "eth1").CombinedOutput()
		if err != nil || strings.Contains(string(out), "198.1") {
			t.Errorf("%s: %s, %v", b, out, err)
		}
	}
}

// ofPairs are the records of pairs.
func ofPairs(recs []result.Record) (pairs []result.Record) {
	for _, r := range recs {
		if r.Parent != "" && r.Procedure == "fleet-capture" {
			pairs = append(pairs, r)
		}
	}
	return pairs
}

// carried says whether all frames of a pair came, even if its sender was held up by other
// programs.
func carried(r result.Record) bool {
	a := r.Account
	return a != nil && a.Accepted > 0 && a.Received == a.Accepted && a.Unexplained == 0 &&
		(r.Status == result.Passed || r.Status == result.Invalid && strings.HasPrefix(r.Reason, "the tester offered"))
}

// carriedPairs are when the pairs began whose frames came.
func carriedPairs(dir string) map[string]time.Time {
	began := map[string]time.Time{}
	_, recs, _ := result.Open(dir) // it may not be there yet
	for _, r := range ofPairs(recs) {
		if carried(r) {
			began[r.ID] = r.Start
		}
	}
	return began
}

// works says whether the agent of a board has a program that works for it.
func (r *rack) works(board string) bool {
	return exec.Command("pgrep", "-P", strconv.Itoa(r.agents[board].Process.Pid)).Run() == nil
}

// idle waits until no agent has a program that works for it.
func (r *rack) idle(t *testing.T, boards ...string) {
	t.Helper()
	for begin := time.Now(); slices.ContainsFunc(boards, r.works); time.Sleep(100 * time.Millisecond) {
		if time.Since(begin) > time.Minute {
			t.Fatal("a program still works on a board")
		}
	}
}

// Every board sends to each other one. A run that is interrupted leaves no program on a board
// and goes on where it was. A board that dies while it sends is named; what it had started on
// the other one ends, and the pairs without it have their figures.
func TestFleetPairsEnd(t *testing.T) {
	testutil.Long(t)
	testutil.Alone(t)
	r := newRack(t, pairAllows, pairAllows, pairAllows)
	r.second(t, 3)
	dir := filepath.Join(r.dir, "run")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var out bytes.Buffer
	begin := func(ctx context.Context, dir string, words ...string) (ended chan int) {
		ended = make(chan int, 1)
		out.Reset()
		go func() {
			ended <- Main(ctx, slices.Concat([]string{"fleet", "run", "capture", "--quiet", "--out", dir, "--nodes", "3"}, fewFrames, words), &out, &out)
		}()
		return ended
	}
	ended := begin(ctx, dir, "--set", "duration=500ms")
	for begin := time.Now(); len(carriedPairs(dir)) < 2; time.Sleep(20 * time.Millisecond) {
		if time.Since(begin) > time.Minute {
			t.Fatal("nothing has finished")
		}
	}
	for begin := time.Now(); !slices.ContainsFunc([]string{"b1", "b2", "b3"}, r.works); time.Sleep(20 * time.Millisecond) {
		if time.Since(begin) > time.Minute {
			t.Fatal("nothing works")
		}
	}
	stop()
	if code := <-ended; code != exitInterrupted {
		t.Fatalf("exit code %d: %s", code, out.Bytes())
	}
	r.idle(t, "b1", "b2", "b3")
	before := carriedPairs(dir)
	out.Reset()
	if code := Main(t.Context(), []string{"fleet", "run", "--quiet", "--resume", dir}, &out, &out); code != exitOK && code != exitInvalid {
		t.Fatalf("exit code %d: %s", code, out.Bytes())
	}
	after := carriedPairs(dir)
	for id, begun := range before {
		if !after[id].Equal(begun) {
			t.Errorf("%s was carried out again", id)
		}
	}
	if len(before) < 2 || len(after) != 6 {
		t.Errorf("%d pairs before and %d after: %s", len(before), len(after), out.Bytes())
	}

	dir = filepath.Join(r.dir, "dies")
	ended = begin(t.Context(), dir, "--set", "duration=4s")
	var from, to string
	for begin := time.Now(); from == "" || !r.works(to); time.Sleep(20 * time.Millisecond) {
		_, recs, _ := result.Open(dir)
		for _, rec := range ofPairs(recs) {
			from, to = result.Get(rec.Config, "from"), result.Get(rec.Config, "to")
		}
		if time.Since(begin) > time.Minute {
			t.Fatal("nothing works")
		}
	}
	sent := func() (n int) {
		text, err := exec.Command("ip", "netns", "exec", r.space(from), "cat", "/sys/class/net/eth1/statistics/tx_packets").Output()
		if _, serr := fmt.Sscan(string(text), &n); err != nil || serr != nil {
			t.Fatal(err, serr)
		}
		return n
	}
	for begin, before := time.Now(), sent(); sent() < before+20; time.Sleep(10 * time.Millisecond) {
		if time.Since(begin) > time.Minute {
			t.Fatalf("%s sends nothing", from)
		}
	}
	_ = r.agents[from].Process.Kill() // that of ip, which has become the agent
	code := <-ended
	said := unwrapped(out.String())
	if code != exitInvalid || !strings.Contains(said, "from "+from+" to "+to+": board "+from+": ") {
		t.Errorf("exit code %d: %s", code, said)
	}
	_, recs, _ := result.Open(dir)
	for _, rec := range ofPairs(recs) {
		with := result.Get(rec.Config, "from") == from || result.Get(rec.Config, "to") == from
		if carried(rec) == with || with && (rec.Status != result.Invalid || !strings.Contains(rec.Reason, "board "+from)) {
			t.Errorf("%s: %s %s", rec.ID, rec.Status, rec.Reason)
		}
	}
	if n := len(ofPairs(recs)); n != 6 {
		t.Errorf("%d pairs", n)
	}
}
