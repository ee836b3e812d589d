// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"context"
	"time"

	"boxdyno/lab"
	"boxdyno/procedure"
	"boxdyno/procedure/internal/param"
	"boxdyno/procedure/internal/trial"
	"boxdyno/result"
	"boxdyno/subject"
	"boxdyno/unit"
)

// A Loan is capture's trial for another procedure, which brings the subjects and one load.
//
//	NewLoan -> Check -> Open -> Trial ... -> Close
type Loan struct {
	capture *Capture
	point   *capturePoint // nil: not open

	// More adds to o what else is known of a trial of the named subject, which has ended.
	More func(o *procedure.Outcome, subject string, run subject.Running)
}

// Terms are the load that a Loan offers.
type Terms struct {
	Size   param.FrameSize
	Rate   param.OfferedRate
	Length time.Duration
	Preset param.Choice
}

// NewLoan lends the trial to the subjects, the first of which Check asks. known is the name
// that other machines know all of them by; "": their own.
func NewLoan(subjects subject.Specs, known string, t Terms) *Loan {
	c := newCaptureOf(subjects)
	c.subject.Value, c.known = subjects[0].Name, known
	c.size, c.rate.OfferedRate, c.length, c.preset = t.Size, t.Rate, t.Length, t.Preset
	return &Loan{capture: c}
}

// Check refuses a load that the testbed cannot be offered; bed may be nil.
func (l *Loan) Check(bed *lab.Testbed) error { return l.capture.Check(bed) }

// Rate is the load, frame/s.
func (l *Loan) Rate() unit.FrameRate { return l.capture.framesPerSecond() }

// Estimate is about how long a trial takes.
func (l *Loan) Estimate() time.Duration {
	return lasts(l.capture.loadOf(l.Rate())) + captureAround
}

// Open measures the tester's ceiling and opens the ports. Where the ceiling is invalid, so
// is the point, for the reason it returns, and nothing is open.
func (l *Loan) Open(ctx context.Context, env *procedure.Env) (invalid string, err error) {
	c := l.capture
	self, err := trial.TesterCeiling(ctx, env, c.mix(), false, false, 1, trial.EffortOf(c.preset.Value))
	if err != nil {
		return "", err
	}
	if self.Status == result.Invalid {
		return "the self-test is invalid: " + self.Reason, nil
	}
	m := &capturePoint{Capture: c, env: env, effort: captureEffortOf(c.preset.Value), out: procedure.Outcome{Status: result.Passed}, ceiling: self.Ceiling(), emptied: -1}
	m.more = func(_ context.Context, o *procedure.Outcome, run subject.Running) error {
		if l.More != nil {
			l.More(o, c.subject.Value, run)
		}
		return nil
	}
	l.point = m
	return "", m.open(ctx)
}

// Close closes the ports.
func (l *Loan) Close() error { return l.point.close() }

// Trial offers the load to the named subject for the nth time. Where the subject gave no
// figures, failed is the outcome of the point; else nil.
func (l *Loan) Trial(ctx context.Context, name string, n int) (rec result.Record, failed *procedure.Outcome, err error) {
	l.capture.subject.Value = name
	rec, err = l.point.trial(ctx, name, n, l.capture.loadOf(l.Rate()))
	if err == nil && l.point.failed != "" {
		failed = &l.point.out
	}
	return rec, failed, err
}
