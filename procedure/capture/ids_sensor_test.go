// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"bytes"
	"context"
	"flag"
	"sync"
	"testing"
	"time"

	"boxdyno/frame"
	"boxdyno/lab"
	"boxdyno/procedure"
	"boxdyno/procedure/internal/roomtest"
	"boxdyno/result"
	"boxdyno/subject"
	"boxdyno/subject/capture"
	"boxdyno/subject/ids"
)

// A fakeSensor is a fakeSniffer that looks for the planted attacks in what it receives.
type fakeSensor struct {
	fakeSniffer
	misses int64 // of so many attacks it does not see one; 0: it sees all
	rules  string
}

func (s *fakeSensor) Flags(fs *flag.FlagSet) {
	fs.StringVar(&s.rules, "rules", "", "`file`")
	for _, name := range []string{"runmode", "capture", "threads", "ring", "filter"} {
		fs.String(name, "", "")
	}
}

func (s *fakeSensor) Start(ctx context.Context, e subject.Env) (subject.Running, error) {
	r := &sensorRunning{sensor: s, alerts: map[int]int64{}}
	sniffer := s.fakeSniffer
	sniffer.look = r.look
	run, err := sniffer.Start(ctx, e)
	if err != nil {
		return nil, err
	}
	r.fakeRunning = run.(*fakeRunning)
	return r, nil
}

type sensorRunning struct {
	*fakeRunning
	sensor *fakeSensor

	mu      sync.Mutex
	alerts  map[int]int64
	attacks int64
}

func (r *sensorRunning) look(octets []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range frame.Alerts() {
		if bytes.Contains(octets, []byte(a.Pattern)) {
			if r.attacks++; r.sensor.misses == 0 || r.attacks%r.sensor.misses != 0 {
				r.alerts[a.SID]++
			}
			return
		}
	}
}

func (r *sensorRunning) Alerts(context.Context) (map[int]int64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.alerts, nil
}

func (r *sensorRunning) IDS() ids.Totals {
	return ids.Totals{RulesLoaded: int64(len(frame.Alerts()))}
}

func idsBench(t *testing.T, bed *lab.Testbed, s *fakeSensor, set map[string]string) (procedure.Outcome, []result.Record) {
	t.Helper()
	p := newIDSOf([]subject.Spec{{Name: "sensor", Work: capture.Application, New: func() subject.Subject { return s }}})
	p.standing, p.patience = 300*time.Millisecond, time.Second
	roomtest.Assign(t, p.Flags, map[string]string{"subject": "sensor", "duration": "250ms", "attacks": "1"})
	roomtest.Assign(t, p.Flags, set)
	if err := p.Check(bed); err != nil {
		t.Fatal(err)
	}
	var recs []result.Record
	o, err := p.Run(t.Context(), &procedure.Env{Bed: bed, Pause: roomtest.GoOn, Trial: judging(&recs, "ids"), Once: onceOn(bed, &recs)})
	if err != nil {
		t.Fatal(err)
	}
	return o, recs
}
