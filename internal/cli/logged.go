// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"strconv"
	"strings"
	"time"

	"boxdyno/result"
	"boxdyno/runner"
)

// logKinds are the events' names in a run's log.
var logKinds = map[runner.EventKind]result.LogKind{
	runner.Waiting:     result.LogWaiting,
	runner.Note:        result.LogNote,
	runner.PointStarts: result.LogPoint,
	runner.Trial:       result.LogTrial,
	runner.TrialDone:   result.LogTrialDone,
	runner.PointPauses: result.LogPause,
	runner.PointDone:   result.LogPointDone,
	runner.Preparing:   result.LogPreparing,
}

// logged returns the line of the run's log for an event.
func logged(e runner.Event, now time.Time) result.LogLine {
	l := result.LogLine{At: now.UTC(), Kind: logKinds[e.Kind], Text: e.Text, Point: e.Point, Share: e.Share, Left: e.Left.Seconds()}
	switch e.Kind {
	case runner.TrialDone:
		l.Text = trialWords(e) + ": " + string(e.Record.Status)
		if e.Record.Load != nil && !e.Record.OfConnections() {
			l.Text += ", " + e.Record.Load.Forwarded.String()
		}
		if e.Record.Reason != "" {
			l.Text += " (" + e.Record.Reason + ")"
		}
	case runner.PointPauses, runner.PointDone:
		_, l.Text, _ = strings.Cut(visited(e), e.Point+": ")
	}
	return l
}

// trialWords is a trial in words: "search 3 at 43.2 kframe/s".
func trialWords(e runner.Event) string {
	kind := result.Get(e.Record.Config, "trial")
	if kind == "" {
		return strings.TrimPrefix(e.Text, e.Point+"/")
	}
	if n, err := strconv.Atoi(result.Get(e.Record.Config, "n")); err == nil {
		kind += " " + strconv.Itoa(n+1)
	}
	if load := e.Record.Load; load != nil && load.Intended > 0 && !e.Record.OfConnections() {
		kind += " at " + load.Intended.String()
	}
	return kind
}

// ended returns the last line of the log.
func ended(ctx context.Context, err error, now time.Time) result.LogLine {
	l := result.LogLine{At: now.UTC(), Kind: result.LogEnd, Text: "finished", Share: 1}
	switch {
	case err != nil && code(ctx, err) == exitInterrupted:
		l.Text, l.Share = "interrupted; finished trials are kept", 0
	case err != nil:
		l.Text = sentence(err)
	}
	return l
}
