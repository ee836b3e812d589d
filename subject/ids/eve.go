// SPDX-License-Identifier: Apache-2.0

package ids

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"boxdyno/subject/capture"
)

// An eve reads Suricata's eve.json: its alerts, and its counters once a second. Threads
// add theirs up every three seconds and at the end, so most records of counters have
// nothing new: those whose capture counters have not moved tell no count.
type eve struct {
	mu      sync.Mutex
	alerts  map[int]int64      // by sid
	stats   map[string]float64 // of the last record: "decoder.pkts"
	capture string             // of the record before, its capture counters
	reason  string             // why the first rule was not loaded
	refused []int              // sids of rules that were not loaded
	idle    bool               // it has no thread that captures
	loaded  int64              // rules, as it printed before its engine started
}

func newEve() *eve { return &eve{alerts: map[int]int64{}} }

const (
	// In a JSON string a quotation mark is \", so these can only be keys and values.
	alertMark = `"event_type":"alert"`
	statsMark = `"event_type":"stats"`
	sidMark   = `"signature_id":`
)

// record reads a line of eve.json.
func (v *eve) record(line string) capture.Told {
	s := capture.Nothing
	s.Quiet = true
	switch {
	case !strings.HasPrefix(line, "{") || !strings.HasSuffix(line, "}"):
		s.Garbage = true
	case strings.Contains(line, alertMark):
		_, after, _ := strings.Cut(line, sidMark)
		end := 0
		for end < len(after) && after[end] >= '0' && after[end] <= '9' {
			end++
		}
		sid, err := strconv.Atoi(after[:end])
		if err != nil {
			s.Garbage = true
			break
		}
		v.mu.Lock()
		v.alerts[sid]++
		v.mu.Unlock()
	case strings.Contains(line, statsMark):
		v.counters(line, &s)
	}
	return s
}

// counters reads a record of counters.
func (v *eve) counters(line string, s *capture.Told) {
	var r struct {
		Stats map[string]json.RawMessage `json:"stats"`
	}
	if err := json.Unmarshal([]byte(line), &r); err != nil || r.Stats == nil {
		s.Garbage = true
		return
	}
	stats := map[string]float64{}
	for k, raw := range r.Stats {
		var value any
		if json.Unmarshal(raw, &value) == nil {
			flatten(stats, k, value)
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	first := v.stats == nil
	v.stats = stats
	if capture := string(r.Stats["capture"]); capture != v.capture {
		v.capture = capture
		if !first || stats["decoder.pkts"] > 0 {
			v.frames(s)
		}
	}
}

// frames are the counts of the last record.
func (v *eve) frames(s *capture.Told) {
	if n, ok := v.stats["decoder.pkts"]; ok {
		s.Counted = int64(n)
	}
	if n, ok := v.stats["capture.kernel_drops"]; ok {
		s.Kernel = int64(n)
	}
}

// end is what the last record tells once there comes none any more.
func (v *eve) end() capture.Told {
	v.mu.Lock()
	defer v.mu.Unlock()
	s := capture.Nothing
	s.Quiet = true
	v.frames(&s)
	if left, ok := v.left(); ok {
		s.Own = max(left, 0)
	}
	return s
}

// left are the frames that its sockets had received, and it neither dropped nor decoded.
func (v *eve) left() (n int64, ok bool) {
	received, ok := v.stats["capture.kernel_packets"]
	return int64(received - v.stats["capture.kernel_drops"] - v.stats["decoder.pkts"]), ok
}

// thrown is left of the last record, whose count was decoded: what it threw away, while no frames
// come. The counters of one record may be up to a second apart, so that it may be less.
func (v *eve) thrown() (n, decoded int64, ok bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	n, ok = v.left()
	return n, int64(v.stats["decoder.pkts"]), ok && n >= 0
}

// flatten adds numbers within numbers as "a.b"; lists by their index.
func flatten(to map[string]float64, key string, value any) {
	switch value := value.(type) {
	case float64:
		to[key] = value
	case map[string]any:
		for k, inner := range value {
			flatten(to, key+"."+k, inner)
		}
	case []any:
		for i, inner := range value {
			flatten(to, key+"."+strconv.Itoa(i), inner)
		}
	}
}

const (
	engineStarted = "Engine started"
	noThread      = "creating 0 thread"
)

var (
	ruleError   = regexp.MustCompile(`^Error: detect[^:]*: (.*)$`)
	ruleRefused = regexp.MustCompile(`^Error: detect[^:]*: error parsing signature ".*\bsid:\s*(\d+)\s*;`)
	rulesLoaded = regexp.MustCompile(`(\d+) rules successfully loaded`)
)

// console reads what Suricata prints.
func (v *eve) console(line string) capture.Told {
	s := capture.Nothing
	s.Ready = strings.Contains(line, engineStarted)
	if m := ruleError.FindStringSubmatch(line); m != nil {
		v.mu.Lock()
		if v.reason == "" {
			v.reason = m[1]
		}
		if m := ruleRefused.FindStringSubmatch(line); m != nil {
			if sid, err := strconv.Atoi(m[1]); err == nil {
				v.refused = append(v.refused, sid)
			}
		}
		v.mu.Unlock()
	}
	if strings.Contains(line, noThread) {
		v.mu.Lock()
		v.idle = true
		v.mu.Unlock()
	}
	if n := capture.Find(rulesLoaded, line); n >= 0 {
		v.mu.Lock()
		v.loaded = n
		v.mu.Unlock()
	}
	return s
}

// blind says whether it has no thread that captures.
func (v *eve) blind() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.idle
}

// printed is how many rules it said it had loaded before its engine started.
func (v *eve) printed() int64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.loaded
}

// bySID are the alerts so far.
func (v *eve) bySID() map[int]int64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	return maps.Clone(v.alerts)
}

// totals are the figures of the last record.
func (v *eve) totals() Totals {
	v.mu.Lock()
	defer v.mu.Unlock()
	n := func(keys ...string) (sum int64) {
		for _, k := range keys {
			sum += int64(v.stats[k])
		}
		return sum
	}
	known := func(key string) int64 {
		if x, ok := v.stats[key]; ok {
			return int64(x)
		}
		return -1
	}
	left, _ := v.left()
	return Totals{
		RulesLoaded: known("detect.engines.0.rules_loaded"), RulesFailed: known("detect.engines.0.rules_failed"), RulesError: v.reason, RulesRefused: sidList(v.refused),
		Alerts: n("detect.alert"), AlertQueueOverflow: n("detect.alert_queue_overflow"), AlertsSuppressed: n("detect.alerts_suppressed"),
		FlowMemcap: n("flow.memcap"), SessionMemcap: n("tcp.ssn_memcap_drop"), SegmentMemcap: n("tcp.segment_memcap_drop"),
		ReassemblyGaps: n("tcp.reassembly_gap"), DefragTrackers: n("defrag.max_frag_hits"), InvalidFrames: n("decoder.invalid"),
		KernelPackets: known("capture.kernel_packets"), LeftInRing: left,
	}
}

// mostNamed bounds how many refused rules are named.
const mostNamed = 40

// sidList returns "1, 2 and 3 more".
func sidList(sids []int) string {
	names := make([]string, min(len(sids), mostNamed))
	for i := range names {
		names[i] = strconv.Itoa(sids[i])
	}
	text := strings.Join(names, ", ")
	if n := len(sids) - len(names); n > 0 {
		text += fmt.Sprintf(" and %d more", n)
	}
	return text
}
