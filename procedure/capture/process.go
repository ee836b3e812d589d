// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"context"
	"time"

	"boxdyno/result"
	"boxdyno/subject"
)

// A mainProcess is a subject's first process alone, without its children, as the
// published study watched it.
type mainProcess struct {
	run    mainUser
	since  time.Time
	before time.Duration
	known  bool
}

// A mainUser tells what its main process used since its start (host.Process.Main).
type mainUser interface {
	Main() (cpu time.Duration, peak uint64, ok bool)
}

// A mainUse is what it used over the window.
type mainUse struct {
	cpu    time.Duration
	window time.Duration
	memory uint64
	known  bool
}

// mainOf begins the window; a subject that does not tell its process is not known.
func mainOf(r subject.Running) mainProcess {
	p, ok := r.(mainUser)
	if !ok {
		return mainProcess{}
	}
	m := mainProcess{run: p, since: time.Now()}
	m.before, _, m.known = p.Main()
	return m
}

// over waits for what is left of the window and reads what the process used in it.
func (m mainProcess) over(ctx context.Context, c *capturing, left time.Duration) (u mainUse, err error) {
	for until := time.Now().Add(left); time.Now().Before(until); {
		if err := c.pause(ctx); err != nil {
			return u, err
		}
		if c.live != nil {
			c.note()
		}
	}
	if !m.known {
		return u, nil
	}
	now, peak, ok := m.run.Main()
	return mainUse{cpu: now - m.before, window: time.Since(m.since), memory: peak, known: ok}, nil
}

func (u mainUse) values() (vs []result.Value) {
	if !u.known {
		return nil
	}
	vs = append(vs, figures.Value("main_cpu_share", u.cpu.Seconds()/u.window.Seconds()))
	if u.memory > 0 {
		vs = append(vs, figures.Value("main_memory_bytes", float64(u.memory)))
	}
	return vs
}
