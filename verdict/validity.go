// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"boxdyno/result"
	"boxdyno/unit"
)

// SlowCPU is the share of its fastest below which a CPU is slow.
const SlowCPU = 0.9

const (
	leastOffered = 0.99 // of the intended load
	selfTest     = result.SelfTest

	noticeSteal = 0.01
	noticeStall = 1_000_000 // ns: a receive ring of 256 frames is full after it from 256 kframe/s on
	headroom    = 1.2       // the self-test's ceiling over a figure that is surely the box's own
)

// Validity decides one trial: invalid where the tester failed, else passed or failed by
// the frames that were lost. A status set by the procedure is only overridden by invalid
// (passed, failed) or stays (skipped, aborted, running). The ceiling of the self-test, 0
// if there is none, only explains. The reason is "" where the trial passed, or the
// procedure's own.
func Validity(r result.Record, ceiling unit.FrameRate) (result.Status, string) {
	switch r.Status {
	case "", result.Passed, result.Failed:
	default:
		return r.Status, r.Reason
	}
	if r.Load == nil {
		if r.Status == "" {
			return result.Passed, r.Reason
		}
		return r.Status, r.Reason
	}
	if r.Account == nil {
		return result.Invalid, "frames were offered and nothing says where they went: the trial has no ledger"
	}
	l, a := r.Load, r.Account
	if r.Procedure == selfTest { // no box: what gets through is the ceiling that it asks for
		if a.Received <= 0 && result.Get(r.Config, "path") != result.SenderAlone {
			return result.Invalid, fmt.Sprintf("of %d frames sent from one tester port to the other none arrived", a.Accepted)
		}
		return result.Passed, ""
	}
	missing, of := result.LostOf(l, a)
	lost := missing > 0 || l.Broken > 0
	if r.Status != "" {
		lost = r.Status == result.Failed
	}
	if why := tester(r, ceiling); why != "" {
		return result.Invalid, why
	}
	switch {
	case r.Status != "":
		return r.Status, r.Reason
	case missing > 0:
		return result.Failed, fmt.Sprintf("%d of %d frames were lost (%s)", missing, of, percent(float64(missing)/float64(of)))
	case lost:
		return result.Failed, fmt.Sprintf("%d of %d frames arrived damaged", l.Broken, a.Accepted)
	}
	return result.Passed, ""
}

// tester says what the tester failed to do, "" where it did its part. A flat-out
// load intends no number of frames: only what the meter lost counts against it.
func tester(r result.Record, ceiling unit.FrameRate) string {
	l, a := r.Load, r.Account
	if n := max(l.MeterDrops, a.DroppedAt(result.MeterAt)); n > 0 {
		return fmt.Sprintf("the tester's meter lost %d of %d frames", n, a.Accepted)
	}
	if l.Intended == 0 {
		return ""
	}
	if share := float64(l.Offered / l.Intended); !(share >= leastOffered) {
		why := fmt.Sprintf("the tester offered %s of %s (%.2f %%, and %s is the least)", rate(r, l.Offered), rate(r, l.Intended), share*100, percent(leastOffered))
		if ceiling > 0 && l.Intended > ceiling {
			why += fmt.Sprintf("; its ceiling is %s", rate(r, ceiling))
		}
		return why
	}
	if a.Refused > 0 {
		return fmt.Sprintf("the tester's own port refused %d of %d frames", a.Refused, a.Intended)
	}
	if n := a.DroppedAt(result.Tester); n > 0 {
		return fmt.Sprintf("the tester's own port dropped %d of %d frames", n, a.Accepted)
	}
	return ""
}

// whereToLook names counters that moved and are no term, those that grew most first.
func whereToLook(unread []result.Unread) (text string) {
	const most = 3
	grew := slices.SortedStableFunc(slices.Values(unread), func(a, b result.Unread) int { return cmp.Compare(b.N, a.N) })
	for _, u := range grew[:min(len(grew), most)] {
		moved := fmt.Sprintf("grew by %d", u.N)
		if u.N == 0 {
			moved = "did not grow"
		}
		text += fmt.Sprintf("; %s of the %s's %s %s (%s)", u.Counter, u.Host, cmp.Or(u.Port, "stack"), moved, u.Why)
	}
	return text
}

// rate is v as r's load counts it.
func rate(r result.Record, v unit.FrameRate) string {
	if !r.OfConnections() {
		return v.String()
	}
	return strings.TrimSpace(unit.SI(float64(v))) + " connections/s"
}

// Warnings are sentences on what a trial's verdict and figures do not say, for
// the reader to weigh; ceiling as for Validity.
func Warnings(r result.Record, ceiling unit.FrameRate) (ws []string) {
	warn := func(format string, args ...any) { ws = append(ws, fmt.Sprintf(format, args...)) }
	if a := r.Account; a != nil {
		if a.Unexplained > 0 {
			warn("%d frames are unexplained: no counter says where they ended%s", a.Unexplained, whereToLook(a.Unread))
		} else if a.Unexplained < 0 {
			warn("%d frames more than were sent are in the books: something is counted twice or came from elsewhere", -a.Unexplained)
		}
		if a.InFlight != 0 {
			warn("%d frames were still under way when the books were closed", a.InFlight)
		}
		if !a.Settled {
			warn("counters still moved when they were read: the books may be off by what was under way")
		}
		if a.Refused > 0 && r.Load != nil && r.Load.Intended == 0 {
			warn("the tester's own port refused %d frames of a flat-out load", a.Refused)
		}
	}
	l := r.Load
	if l == nil {
		return ws
	}
	if l.Duplicate > 0 {
		warn("%d frames arrived more than once, which may hide as many lost ones", l.Duplicate)
	}
	if l.LongestStall >= noticeStall {
		warn("the sender stalled for up to %s", seconds(l.LongestStall))
	}
	if l.CPUSpeed > 0 && l.CPUSpeed < SlowCPU {
		warn("a CPU ran at %s of its speed: heat, power, or another virtual machine on its core", percent(l.CPUSpeed))
	}
	if l.StealRatio > noticeSteal {
		warn("the hypervisor took %s of the CPU time", percent(l.StealRatio))
	}
	if r.Procedure != selfTest && ceiling > 0 && l.Forwarded > ceiling/headroom {
		warn("%s is more than the tester's ceiling of %s / %g: the box may carry more", rate(r, l.Forwarded), rate(r, ceiling), headroom)
	}
	return ws
}
