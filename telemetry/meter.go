// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"boxdyno/host"
	"boxdyno/internal/guard"
	"boxdyno/internal/netns"
	"boxdyno/result"
	"boxdyno/unit"
)

// meterTimes are how long a meter's command may take.
type meterTimes struct {
	again time.Duration // between the starts of a command that prints once
	quiet time.Duration // without a line, it hangs and is killed
	stale time.Duration // then its value is no longer today's
}

var usualMeter = meterTimes{again: time.Second, quiet: 10 * time.Second, stale: 12 * time.Second}

// meter is a command that prints watts: one a line for as long as it runs, or one
// for each call.
type meter struct {
	held
	last  *latest
	stop  context.CancelFunc
	done  chan struct{}
	first chan struct{} // closed at the first reading or failure
}

// newMeter waits for the first reading; a command that gives none is an error.
func newMeter(ctx context.Context, m *Machine) (Collector, error) {
	if len(m.Ask.Meter) == 0 {
		return nil, ErrAbsent
	}
	return startMeter(ctx, m.Ask.Meter, usualMeter)
}

func hasMeter(program string) error {
	if host.Has(program) != nil {
		return &host.Missing{What: "the meter's command " + program, Hint: "give the path of a program that prints watts"}
	}
	return nil
}

func startMeter(ctx context.Context, argv []string, t meterTimes) (Collector, error) {
	if err := hasMeter(argv[0]); err != nil {
		return nil, err
	}
	name := filepath.Base(argv[0])
	labels := meterLabels(name, coversCommand, "")
	c := &meter{
		held: held{series: []result.Series{
			{Name: "boxdyno_power_watts", Labels: labels, Unit: "W", Help: "power, as the command " + name + " prints it"},
			ageSeries(labels),
		}},
		last: newLatest("the meter's command "+name, 1, t.stale), done: make(chan struct{}), first: make(chan struct{}),
	}
	ctx, c.stop = context.WithCancel(ctx)
	// Its commands die with this thread, however that ends.
	if _, err := netns.Go("", nil, func() error { c.run(ctx, argv, t); return nil }); err != nil {
		return nil, err
	}
	select {
	case <-c.first:
	case <-ctx.Done():
	}
	c.last.mu.Lock()
	err := c.last.err
	c.last.mu.Unlock()
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the meter's command %s: %w", name, err), c.Close())
	}
	return c, nil
}

// run starts the command again whenever it has ended.
func (c *meter) run(ctx context.Context, argv []string, t meterTimes) {
	defer close(c.done)
	begun := false
	for ctx.Err() == nil {
		again := time.After(t.again)
		if err := c.once(ctx, argv, t.quiet, func() {
			if !begun {
				begun = true
				close(c.first)
			}
		}); err != nil && ctx.Err() == nil {
			c.last.fail(err)
			if !begun {
				close(c.first)
				return
			}
		}
		select {
		case <-ctx.Done():
		case <-again:
		}
	}
}

// once runs the command to its end and takes each reading that it prints. It
// leaves no process of the command's group.
func (c *meter) once(ctx context.Context, argv []string, quiet time.Duration, read func()) error {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = time.Second
	var complaint tail
	cmd.Stderr = &complaint
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	kill := func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) } // ESRCH: all have ended
	giveUp := func() {
		kill()
		_ = out.Close() // somebody who left the group may still hold its other end
	}
	hung := guard.After(quiet, giveUp)
	ended := guard.AfterDone(ctx, giveUp)
	n, garbage := 0, ""
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if line == "" {
			continue
		}
		watts, ok := ParseWatts(line)
		if !ok {
			if garbage == "" {
				garbage = line[:min(len(line), 80)]
			}
			continue
		}
		hung.Reset(quiet)
		n++
		c.last.set([]float64{watts})
		read()
	}
	overlong := lines.Err()
	timedOut := !hung.Stop()
	kill() // of a group whose leader has closed its output
	ended()
	err = cmd.Wait()
	switch {
	case timedOut && garbage == "":
		return fmt.Errorf("it printed nothing for %v and was killed", quiet)
	case timedOut || n == 0 && garbage != "":
		return fmt.Errorf("it printed %q, which is no power: want a number of watts, such as 5.2 or 5200 mW", garbage)
	case overlong != nil:
		return fmt.Errorf("it printed a line without an end: %w", overlong)
	case n > 0: // whatever it ended with, there is a reading
		return nil
	case err != nil && complaint.last() != "":
		return fmt.Errorf("it failed: %s (%w)", complaint.last(), err)
	case err != nil:
		return fmt.Errorf("it failed without a reading: %w", err)
	}
	return errors.New("it ended without a reading")
}

func (c *meter) Read(dst []float64) (err error) {
	dst[1], err = c.last.read(dst[:1])
	return err
}

// commandMean is taken for the time that a command's meter averages over.
const commandMean = time.Second

func (c *meter) Measured(int) (unit.Instant, time.Duration) { return c.last.measured(), commandMean }

// Close kills the command with all of its process group and waits for it.
func (c *meter) Close() error {
	c.stop()
	<-c.done
	return nil
}

var wattsText = regexp.MustCompile(`^([-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?)\s*(k|m|µ|u)?[wW]?(?:att|atts)?$`)

// ParseWatts reads a power: "5.2", "5.2 W", "5200mW", "0.0052 kW". Negative is a
// current that flows back, or a meter the wrong way round.
func ParseWatts(s string) (float64, bool) {
	m := wattsText.FindStringSubmatch(strings.TrimSpace(s))
	if m == nil {
		return 0, false
	}
	v, err := strconv.ParseFloat(m[1], 64)
	if err != nil || math.IsInf(v, 0) {
		return 0, false
	}
	switch m[2] {
	case "k":
		v *= 1e3
	case "m":
		v *= 1e-3
	case "µ", "u":
		v *= 1e-6
	}
	return v, true
}

// tail keeps the end of what is written to it.
type tail struct{ text []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.text = append(t.text, p...)
	if n := len(t.text) - 1024; n > 0 {
		t.text = t.text[n:]
	}
	return len(p), nil
}

func (t *tail) last() string {
	lines := bytes.Split(bytes.TrimSpace(t.text), []byte("\n"))
	return string(lines[len(lines)-1])
}
