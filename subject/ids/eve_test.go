// SPDX-License-Identifier: Apache-2.0

package ids

import (
	"fmt"
	"strings"
	"testing"

	"boxdyno/subject/capture"
	"boxdyno/unit"
)

// eveStats is a record of counters, with those that are read.
func eveStats(polls, received, drops, decoded int) string {
	return fmt.Sprintf(`{"timestamp":"2026-01-01T00:00:00.000000+0000","event_type":"stats","stats":{"uptime":4,"capture":{"kernel_packets":%d,"kernel_drops":%d,"errors":0,"afpacket":{"polls":%d}},"decoder":{"pkts":%d,"invalid":2},"tcp":{"ssn_memcap_drop":3,"segment_memcap_drop":4,"reassembly_gap":5},"flow":{"memcap":6},"defrag":{"max_frag_hits":7},"detect":{"engines":[{"id":0,"rules_loaded":8,"rules_failed":1,"rules_skipped":0}],"alert":9,"alert_queue_overflow":10,"alerts_suppressed":11}}}`,
		received, drops, polls, decoded)
}

const eveAlert = `{"timestamp":"2026-01-01T00:00:00.000000+0000","flow_id":1,"in_iface":"b","event_type":"alert","src_ip":"198.18.0.1","proto":"TCP","alert":{"action":"allowed","gid":1,"signature_id":%d,"rev":1,"signature":"says \"signature_id\":5, twice","category":"","severity":3}}`

func TestEve(t *testing.T) {
	v := newEve()
	r := capture.NewCapturing("x", nil)
	take := func(s capture.Told, line string) {
		if r.Take(s, line); s.Garbage {
			t.Errorf("%s is garbage", line)
		}
	}
	say := func(line string) { take(v.record(line), line) }
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
	s := &Sensing{Capturing: r, eve: v}
	if n, ok := s.Dropped(); ok {
		t.Errorf("%d were thrown away of fewer received than decoded", n)
	}
	say(eveStats(4, 160, 20, 130))
	if n, ok := s.Dropped(); !ok || n != 10 {
		t.Errorf("%d were thrown away, %v", n, ok)
	}
	s.decoded(140, unit.Now())
	if _, ok := s.Dropped(); ok {
		t.Error("the command socket's count has what was thrown away in it")
	}
	take(v.end(), "")
	if want := (capture.Totals{Captured: 130, Kernel: 20, Own: 10, Port: -1}); r.Totals() != want {
		t.Errorf("%+v; want %+v", r.Totals(), want)
	}
	want := Totals{
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
		if !v.record(line).Garbage {
			t.Errorf("%s is taken", line)
		}
	}
	if v.record(`{"event_type":"flow"}`).Garbage {
		t.Error("another record is garbage")
	}
}

// No record, however broken, makes a count fall or be negative.
func FuzzEve(f *testing.F) {
	f.Add(eveStats(3, 90, 5, 100) + "\n" + fmt.Sprintf(eveAlert, 7))
	f.Fuzz(func(t *testing.T, text string) {
		v := newEve()
		for _, read := range []capture.Parser{v.record, v.console} {
			r := capture.NewCapturing("x", nil)
			last := r.Totals()
			for line := range strings.Lines(text) {
				r.Take(read(line), line)
				now := r.Totals()
				if now.Captured < last.Captured || now.Kernel < last.Kernel || now.Own < last.Own || now.Port < last.Port {
					t.Errorf("%q: %+v after %+v", line, now, last)
				}
				last = now
			}
		}
	})
}
