// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"boxdyno/reference"
	"boxdyno/report/internal/phrase"
	"boxdyno/result"
	"boxdyno/stat"
	"boxdyno/unit"
)

// publishedWindow is how long the study watched a process.
const publishedWindow = 50 * time.Second

// whyTheyDiffer says, of each subject, by how much what the published method leaves out
// or adds changes its figures, as measured here.
func whyTheyDiffer(d Document, all []studied) (why []string) {
	var subjects []string
	for _, s := range all {
		if !slices.Contains(subjects, s.subject) {
			subjects = append(subjects, s.subject)
		}
	}
	slices.Sort(subjects)
	of := func(subject string) (out []studied) {
		for _, s := range all {
			if s.subject == subject && s.method == methodPublished {
				out = append(out, s)
			}
		}
		return out
	}
	for _, subject := range subjects {
		why = append(why, childrenOf(subject, of(subject))...)
	}
	for _, subject := range subjects {
		why = append(why, windowOf(subject, of(subject))...)
	}
	for _, subject := range subjects {
		why = append(why, lateOf(subject, of(subject))...)
	}
	why = append(why, controlPackets(subjects, all)...)
	why = append(why, boards(d, all)...)
	return why
}

// each is f of every repeat at points, where it is known.
func each(points []studied, f func(s studied, r result.Record) (float64, bool)) (vs []float64) {
	for _, s := range points {
		for _, r := range s.recs {
			if v, ok := f(s, r); ok {
				vs = append(vs, v)
			}
		}
	}
	return vs
}

func middle(vs []float64) float64 { return stat.Summarize(vs).Center }

// valueOf is the record's value of a metric; false where it has none.
func valueOf(r result.Record, metric string) (float64, bool) {
	if v := r.Value(metric); v != nil {
		return v.Value, true
	}
	return 0, false
}

// windowFor is how long the record's process was watched.
func windowFor(r result.Record) float64 {
	if w, err := time.ParseDuration(result.Get(r.Config, "window")); err == nil && w > 0 {
		return w.Seconds()
	}
	return publishedWindow.Seconds()
}

// childrenOf is what the main process alone leaves out: at least that of CPU time, for the
// window goes on when there is no more to count.
func childrenOf(subject string, points []studied) []string {
	processes := each(points, func(_ studied, r result.Record) (float64, bool) { return valueOf(r, processCount) })
	if len(processes) == 0 {
		return nil
	}
	if middle(processes) < 2 {
		return []string{fmt.Sprintf("%s is one process: it alone is all of it.", subject)}
	}
	left := func(whole, main string, window bool) []float64 {
		return each(points, func(_ studied, r result.Record) (float64, bool) {
			all, ok := valueOf(r, whole)
			part, ok2 := valueOf(r, main)
			if window {
				part *= windowFor(r)
			}
			return 1 - part/all, ok && ok2 && all > 0
		})
	}
	var parts []string
	if cpu := left(cpuTime, mainShare, true); len(cpu) > 0 {
		parts = append(parts, phrase.Percent(max(middle(cpu), 0))+" of its CPU time")
	}
	if memory := left(memoryPeak, mainMemory, false); len(memory) > 0 {
		parts = append(parts, phrase.Percent(max(middle(memory), 0))+" of its memory")
	}
	if len(parts) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%s is %s processes, and its children had at least %s here (medians of %s): the study has the main process alone.",
		subject, strconv.Itoa(int(middle(processes))), strings.Join(parts, " and "), phrase.Count(len(processes), "trial"))}
}

// windowOf is what a fixed window does to a share of CPU.
func windowOf(subject string, points []studied) []string {
	ratio := each(points, func(_ studied, r result.Record) (float64, bool) {
		during, ok := valueOf(r, cpuShare)
		over, ok2 := valueOf(r, mainShare)
		return during / over, ok && ok2 && over > 0
	})
	window := each(points, func(_ studied, r result.Record) (float64, bool) { return windowFor(r), true })
	if len(ratio) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("The CPU time of %s is divided by %s, whatever part of them carries traffic; while frames were sent its tree took %.3g times the share that comes of it (median of %s).",
		subject, strings.TrimSpace(unit.SI(middle(window)))+" s", middle(ratio), phrase.Count(len(ratio), "trial"))}
}

// lateOf tells lag from loss, which a count at a fixed time mixes.
func lateOf(subject string, points []studied) []string {
	share := func(part string) []float64 {
		return each(points, func(_ studied, r result.Record) (float64, bool) {
			v, ok := valueOf(r, part)
			sent, ok2 := valueOf(r, framesOffered)
			return v / sent, ok && ok2 && sent > 0
		})
	}
	lag, lost := share(framesLate), share(framesLost)
	if len(lag) == 0 || len(lost) == 0 {
		return nil
	}
	drain := each(points, func(_ studied, r result.Record) (float64, bool) { return valueOf(r, drainTime) })
	if slices.Max(lag) <= 0 && slices.Max(lost) <= 0 {
		return []string{subject + " had counted every frame when the last one had left."}
	}
	s := fmt.Sprintf("%s had not counted %s of the frames when the last one had left (at most %s, for %ss). It never counted %s (at most %s).",
		subject, phrase.Percent(middle(lag)), phrase.Percent(slices.Max(lag)), unit.SI(slices.Max(append(drain, 0))), phrase.Percent(middle(lost)), phrase.Percent(slices.Max(lost)))
	return []string{s}
}

// controlPackets is how many packets more than were asked for the study counted, and
// what is known of them here.
func controlPackets(subjects []string, all []studied) []string {
	var more []float64
	for _, subject := range subjects {
		for _, f := range reference.Of("capture_fixed_count", cmp.Or(publishedAs[subject], subject)) {
			if n, err := strconv.ParseFloat(f.Level("packets"), 64); err == nil && f.Metric == "packets_counted_mean" && f.Value > n {
				more = append(more, f.Value-n)
			}
		}
	}
	if len(more) == 0 {
		return nil
	}
	here := "no frame but the engine's is counted"
	if control := each(all, func(_ studied, r result.Record) (float64, bool) { return valueOf(r, controlFrames) }); len(control) > 0 {
		here = fmt.Sprintf("iperf3 sent %.0f frames beside its datagrams (%.0f to %.0f), and none of them is counted", middle(control), slices.Min(control), slices.Max(control))
	}
	return []string{fmt.Sprintf("The study counts %.0f packets more than were asked for (%.0f to %.0f, where it counts all): iperf3's control connection is among them. Here %s.",
		middle(more), slices.Min(more), slices.Max(more), here)}
}

// boards is how the main process's share of CPU here compares with the published one.
func boards(d Document, all []studied) []string {
	var ratio []float64
	for _, s := range all {
		for _, f := range s.figures() {
			if vs := s.values(mainShare); f.Metric == "cpu_percent_mean" && len(vs) > 0 && f.Value > 0 {
				mean, _ := meanOf(vs)
				ratio = append(ratio, 100*mean/f.Value)
			}
		}
	}
	if len(ratio) == 0 {
		return nil
	}
	here := "this machine"
	if len(d.Machines) > 0 {
		if m := d.Machines[0]; m.Board != "" && !strings.HasPrefix(m.Board, "unknown") {
			here = m.Board
		} else {
			here = cmp.Or(m.CPU, here)
		}
	}
	return []string{fmt.Sprintf("The study's board is a Raspberry Pi 3B, and here it is %s. By the study's own method the main process took %.2g times the published share of CPU (median of %s, %.2g to %.2g).",
		here, middle(ratio), phrase.Count(len(ratio), "point"), slices.Min(ratio), slices.Max(ratio))}
}
