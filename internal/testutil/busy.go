// SPDX-License-Identifier: Apache-2.0

package testutil

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A CPUWatch tells a busy machine from a fault: it is what programs waited for CPUs, and
// what the hypervisor took, when the watch began.
type CPUWatch struct {
	waited, stolen time.Duration
	known          bool
}

// WatchCPUs begins a watch.
func WatchCPUs() (w CPUWatch) {
	pressure, perr := os.ReadFile("/proc/pressure/cpu")
	stat, serr := os.ReadFile("/proc/stat")
	_, total, _ := strings.Cut(string(pressure), "total=") // us
	total, _, _ = strings.Cut(total, "\n")
	ticks := append(strings.Fields(string(stat)), make([]string, 9)...)[8] // of 10 ms
	waited, werr := strconv.ParseInt(total, 10, 64)
	stolen, terr := strconv.ParseInt(ticks, 10, 64)
	w.waited, w.stolen = time.Duration(waited)*time.Microsecond, time.Duration(stolen)*10*time.Millisecond
	w.known = errors.Join(perr, serr, werr, terr) == nil
	return w
}

// Skipf skips a test in which frames were lost, or a trial was invalid, if the machine may
// be the cause: since the watch began the hypervisor had a CPU, or a program waited for one,
// for the 10 ms in which a ring runs over. Else the test fails. A kernel that does not
// count this (CONFIG_PSI) is taken for busy.
func (w CPUWatch) Skipf(t testing.TB, format string, args ...any) {
	t.Helper()
	now, said := WatchCPUs(), fmt.Sprintf(format, args...)
	waited, stolen := now.waited-w.waited, now.stolen-w.stolen
	switch {
	case !w.known || !now.known:
		t.Skipf("perhaps the machine is busy, which its kernel does not count: %s", said)
	case waited >= 10*time.Millisecond || stolen > 0:
		t.Skipf("the machine is busy: %s; programs waited %v for a CPU, and the hypervisor took %v", said, waited, stolen)
	default:
		t.Fatalf("%s, and nothing kept it from its CPUs", said)
	}
}
