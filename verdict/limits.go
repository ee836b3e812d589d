// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"fmt"
	"strings"

	"boxdyno/result"
	"boxdyno/unit"
)

// A Cause is what limited a trial: one closed vocabulary, docs/bottleneck.md.
type Cause string

// The causes. What has no counter and no evidence is CauseUnknown.
const (
	CauseTester        Cause = "tester"              // not the box
	CauseShared        Cause = "shared cpu"          // the box throttles the tester
	CauseLineRate      Cause = "line rate"           // the link carries no more
	CauseLink          Cause = "link"                // frames did not reach the other end
	CauseCPU           Cause = "one cpu"             // the DUT's CPU is full, and its port has one queue
	CauseCPUs          Cause = "cpu"                 // the DUT's CPUs are full
	CauseRules         Cause = "nft ruleset"         // and a long ruleset is tried for each frame
	CauseBusyCore      Cause = "busy core"           // something else takes the DUT's CPU
	CauseStolen        Cause = "stolen cpu"          // the hypervisor does
	CauseThrottled     Cause = "throttled"           // heat or a weak supply holds the clock down
	CauseStalls        Cause = "stalls"              // the ring is short for stalls of a CPU that has time left
	CauseRing          Cause = "receive ring"        // it overflows, and no more is known
	CauseDriver        Cause = "driver"              // of the port
	CauseXDP           Cause = "xdp program"         //
	CausePolicer       Cause = "policer"             //
	CauseTC            Cause = "tc filter"           //
	CausePlantedLoss   Cause = "planted loss"        //
	CauseTableFull     Cause = "conntrack table"     // full
	CauseConntrack     Cause = "conntrack"           // refused for another reason
	CauseRule          Cause = "nft rule"            // that drops
	CauseTTL           Cause = "ttl"                 //
	CauseMTU           Cause = "mtu"                 //
	CauseReversePath   Cause = "reverse path filter" //
	CauseRoute         Cause = "route"               // none, or one that refuses
	CauseForwardingOff Cause = "forwarding off"      //
	CauseLocal         Cause = "local delivery"      // addressed to the DUT itself
	CauseMAC           Cause = "mac address"         // of another host
	CauseIP            Cause = "ip layer"            //
	CauseNeighbour     Cause = "neighbour"           // does not answer
	CauseShaper        Cause = "shaper"              //
	CauseQueue         Cause = "egress queue"        //
	CauseSocket        Cause = "socket buffer"       // of the program under load
	CauseSubject       Cause = "program"             // under load
	CauseBlackBox      Cause = "black box"           //
	CauseUnknown       Cause = "unknown"             //
)

// Causes lists all of them.
var Causes = []Cause{
	CauseTester, CauseShared, CauseLineRate, CauseLink, CauseCPU, CauseCPUs, CauseRules, CauseBusyCore, CauseStolen, CauseThrottled, CauseStalls, CauseRing,
	CauseDriver, CauseXDP, CausePolicer, CauseTC, CausePlantedLoss, CauseTableFull, CauseConntrack, CauseRule, CauseTTL, CauseMTU,
	CauseReversePath, CauseRoute, CauseForwardingOff, CauseLocal, CauseMAC, CauseIP, CauseNeighbour, CauseShaper, CauseQueue,
	CauseSocket, CauseSubject, CauseBlackBox, CauseUnknown,
}

// A Case is a trial, and what is known around it.
type Case struct {
	Record      result.Record
	Series      []result.Series // of the record's digests; nil: nothing was watched
	Environment []result.Pair   // of the run: placement, ring, link_rate; nil: not known
	Ceiling     unit.FrameRate  // the self-test's, 0: none
}

// A Limit is one thing that kept a trial from carrying more.
type Limit struct {
	Cause    Cause         `json:"cause"`
	Sentence string        `json:"sentence"`           // with its evidence
	Next     string        `json:"next"`               // what to try
	Evidence []result.Term `json:"evidence,omitempty"` // of the ledger
}

// Limits names what limited a trial, the one that binds first; none where nothing
// shows a limit (every frame of a paced load arrived).
func Limits(c Case) (out []Limit) {
	r := c.Record
	if r.Load == nil || r.Account == nil {
		return nil
	}
	out = limitsOf(c)
	if l, ok := ofTester(c, len(out) > 0); ok {
		out = append([]Limit{l}, out...)
	}
	return out
}

const nearLine = 0.995 // of line rate: frames are counted over whole intervals

// ofTester is the tester's own limit, or the link's.
func ofTester(c Case, lost bool) (Limit, bool) {
	r, l, a := c.Record, c.Record.Load, c.Record.Account
	if why := tester(r, c.Ceiling); why != "" {
		if result.Get(c.Environment, "placement") == "shared" {
			return Limit{Cause: CauseShared,
				Sentence: upper(why) + ": the DUT works on the tester's CPU and throttles it, so this load cannot be offered at all.",
				Next:     "Give the DUT's receive work a CPU of its own (placement split)."}, true
		}
		return Limit{Cause: CauseTester, Sentence: upper(why) + ": " + notTheBox + ".",
			Next: "Use a faster tester port or CPU, larger frames, or offer less."}, true
	}
	if lost {
		return Limit{}, false
	}
	link, err := unit.ParseBitRate(result.Get(c.Environment, "link_rate"))
	if used := unit.L1(l.Offered/unit.FrameRate(max(l.Streams, 1)), l.MeanSize); err == nil && l.MeanSize > 0 && used >= nearLine*link {
		return Limit{Cause: CauseLineRate,
			Sentence: fmt.Sprintf("Every frame arrived at %s of line rate (%v with preamble and gap, of %v): the link carries no more.", percent(float64(used/link)), used, link),
			Next:     "Use a faster link; the box may carry more."}, true
	}
	if l.Intended == 0 && a.Accepted > 0 && result.Get(c.Environment, "placement") == "shared" {
		return Limit{Cause: CauseShared,
			Sentence: fmt.Sprintf("All %d frames arrived, sent at full speed (%s). The DUT works on the tester's CPU, and the two together take all of its time.", a.Accepted, rate(r, l.Offered)),
			Next:     "Give the DUT's receive work a CPU of its own (placement split)."}, true
	}
	if l.Intended == 0 && a.Accepted > 0 {
		return Limit{Cause: CauseTester,
			Sentence: fmt.Sprintf("Every one of %d frames arrived that the tester sent as fast as it could (%s): %s.", a.Accepted, rate(r, l.Offered), notTheBox),
			Next:     "Use a faster tester port or CPU: the box may carry more."}, true
	}
	return Limit{}, false
}

func upper(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
