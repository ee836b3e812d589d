// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"bytes"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"boxdyno/result"
	"boxdyno/unit"
)

// An observer is the sampler's look at itself, read last of all collectors: what it
// costs, and how late it was, which on a box that it only watches is how long the
// whole box stood still.
type observer struct {
	late   unit.Instant // the most since it was last read
	cpu    int64        // ns of CPU time so far, of the sampler's threads
	other  func() int64 // of the writer's
	last   float64      // memory, octets; NaN: not known
	memory uint64       // the most so far, octets
	status *file
	due    unit.Instant // when memory is read again
}

func (o *observer) Series() []result.Series {
	return []result.Series{
		{Name: "boxdyno_sampler_lateness_seconds", Unit: "s", Help: "time by which the sample was taken too late: of the machine's stalls, the longest since the sample before"},
		{Name: "boxdyno_sampler_cpu_seconds_total", Unit: "s", Counter: true, Help: "CPU time of the sampler's threads, which read, encode and compress"},
		{Name: "boxdyno_anonymous_memory_bytes", Unit: "B", Help: "anonymous memory of the whole process (RssAnon)"},
	}
}

func (o *observer) Read(dst []float64) error {
	dst[0] = float64(o.late) / 1e9
	o.late = 0
	o.cpu = threadCPU() + o.other()
	dst[1] = float64(o.cpu) / 1e9
	dst[2] = o.last
	now := unit.Now()
	if now < o.due {
		return nil
	}
	o.due = now + unit.Instant(refresh)
	if o.status == nil {
		var err error
		if o.status, err = open(os.DirFS("/"), "proc/self/status"); err != nil {
			return err
		}
	}
	text, err := o.status.read()
	if err != nil {
		return err
	}
	if n, ok := rssAnon(text); ok {
		o.last, o.memory = float64(n), max(o.memory, n)
	}
	dst[2] = o.last
	return nil
}

func (o *observer) Close() error {
	if o.status == nil {
		return nil
	}
	return o.status.Close()
}

// rssAnon is the octets that /proc/PID/status names under RssAnon.
func rssAnon(status []byte) (uint64, bool) {
	_, rest, ok := bytes.Cut(status, []byte("\nRssAnon:"))
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	f := bytes.Fields(line)
	if !ok || len(f) == 0 {
		return 0, false
	}
	n, err := strconv.ParseUint(string(f[0]), 10, 64)
	return n << 10, err == nil
}

// threadCPU is the CPU time of the calling thread, ns.
func threadCPU() int64 {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts) != nil {
		return 0
	}
	return ts.Nano()
}
