// SPDX-License-Identifier: Apache-2.0

package subject

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// eveStats is a record of counters, with those that are read.
func eveStats(polls, received, drops, decoded int) string {
	return fmt.Sprintf(`{"timestamp":"2026-01-01T00:00:00.000000+0000","event_type":"stats","stats":{"uptime":4,"capture":{"kernel_packets":%d,"kernel_drops":%d,"errors":0,"afpacket":{"polls":%d}},"decoder":{"pkts":%d,"invalid":2},"tcp":{"ssn_memcap_drop":3,"segment_memcap_drop":4,"reassembly_gap":5},"flow":{"memcap":6},"defrag":{"max_frag_hits":7},"detect":{"engines":[{"id":0,"rules_loaded":8,"rules_failed":1,"rules_skipped":0}],"alert":9,"alert_queue_overflow":10,"alerts_suppressed":11}}}`,
		received, drops, polls, decoded)
}

const eveAlert = `{"timestamp":"2026-01-01T00:00:00.000000+0000","flow_id":1,"in_iface":"b","event_type":"alert","src_ip":"198.18.0.1","proto":"TCP","alert":{"action":"allowed","gid":1,"signature_id":%d,"rev":1,"signature":"says \"signature_id\":5, twice","category":"","severity":3}}`

func TestEve(t *testing.T) {
	v := newEve()
	r := &Capturing{name: "x", counted: -1, kernel: -1, own: -1, port: -1, waiting: -1}
	say := func(line string) { r.take(v.record(line), line) }
	say(eveStats(0, 0, 0, 0))
	if _, _, ok := r.Progress(); ok {
		t.Error("before its threads have added anything up it has counted")
	}
	say(eveStats(3, 90, 0, 100))
	counted, at, ok := r.Progress()
	if counted != 100 || !ok {
		t.Errorf("%d, %v", counted, ok)
	}
	say(eveStats(3, 90, 0, 100))
	if _, again, _ := r.Progress(); again != at {
		t.Error("an old count is told once more")
	}
	for _, sid := range []int{7, 9_000_001, 7} {
		say(fmt.Sprintf(eveAlert, sid))
	}
	if got := v.bySID(); len(got) != 2 || got[7] != 2 || got[9_000_001] != 1 {
		t.Errorf("%v", got)
	}
	say(eveStats(4, 160, 20, 130))
	r.take(v.end(), "")
	if want := (Totals{Captured: 130, Kernel: 20, Own: 10, Port: -1}); r.Totals() != want || r.wrong != nil {
		t.Errorf("%+v, %v; want %+v", r.Totals(), r.wrong, want)
	}
	want := IDSTotals{
		RulesLoaded: 8, RulesFailed: 1, Alerts: 9, AlertQueueOverflow: 10, AlertsSuppressed: 11, FlowMemcap: 6, SessionMemcap: 3, SegmentMemcap: 4,
		ReassemblyGaps: 5, DefragTrackers: 7, InvalidFrames: 2, KernelPackets: 160, LeftInRing: 10,
	}
	if got := v.totals(); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := newEve().totals(); got.RulesLoaded != -1 || got.KernelPackets != -1 {
		t.Errorf("it knows what nobody said: %+v", got)
	}
	for _, line := range []string{`{"event_type":"alert"}`, `{"event_type":"stats","stats":7}`, `no JSON`, `{"cut`} {
		if !v.record(line).garbage {
			t.Errorf("%s is taken", line)
		}
	}
	if v.record(`{"event_type":"flow"}`).garbage {
		t.Error("another record is garbage")
	}
}

// A file is read as it grows; a line without its end, and one that is far too long, are
// none.
func TestTail(t *testing.T) {
	dir := t.TempDir()
	var got []string
	var last told
	log := logFile{name: "x.log", said: func(string) told { return nothing }}
	tails, err := openTails(dir, []logFile{log})
	if err != nil {
		t.Fatal(err)
	}
	defer tails[0].file.Close()
	if _, err := openTails(dir, []logFile{log}); err == nil {
		t.Error("a file that is there is taken")
	}
	f, err := os.OpenFile(filepath.Join(dir, "x.log"), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	step := func(text string) {
		t.Helper()
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
		if more, err := tails[0].read(func(s told, line string) { got, last = append(got, line), s }, tailMost); more || err != nil {
			t.Error(more, err)
		}
	}
	step("a\n\nb")
	step("c\nd")
	if strings.Join(got, ",") != "a,bc" {
		t.Errorf("%q", got)
	}
	step("\n" + strings.Repeat("x", 3*longestLine))
	if !last.garbage || len(got) != 4 || len(tails[0].rest) > longestLine {
		t.Errorf("%d lines, the last %+v", len(got), last)
	}
	step("y\nlast\n")
	if len(got) != 5 || got[4] != "last" {
		t.Errorf("%q", got[len(got)-1])
	}
	if err := os.Remove(filepath.Join(dir, "x.log")); err != nil {
		t.Fatal(err)
	}
	step("after its folder\n")
	if got[len(got)-1] != "after its folder" {
		t.Errorf("%q", got[len(got)-1])
	}
	if _, err := f.WriteString(strings.Repeat("0123456\n", 1<<14)); err != nil {
		t.Fatal(err)
	}
	got = nil
	if more, err := tails[0].read(func(s told, line string) { got = append(got, line) }, tailRead); !more || err != nil || len(got) != tailRead/8 {
		t.Errorf("%d lines, %v, %v", len(got), more, err)
	}
}
