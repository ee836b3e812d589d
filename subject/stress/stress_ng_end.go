// SPDX-License-Identifier: Apache-2.0

package stress

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"boxdyno/host"
	"boxdyno/result"
	"boxdyno/unit"
)

// Metrics are the figures of one stressor. A bogo operation is what a stressor
// counts: another one in another version of stress-ng.
var Metrics = []result.Metric{
	{Name: "bogo_ops", Unit: "1", Help: "operations as the stressor counts them, all workers together; not comparable between stressors, nor between versions of stress-ng"},
	{Name: "bogo_ops_rate", Label: "bogo operations", Interval: "range", Heads: true, Unit: "1/s", Better: 1, Help: "of them, a second"},
	{Name: "bogo_ops_cpu_rate", Unit: "1/s", Better: 1, Help: "of them, a second of the workers' CPU time (user and system)"},
	{Name: "stressor_s", Unit: "s", Help: "time that the stressor ran"},
	{Name: "stressor_memory_bytes", Unit: "B", Help: "most memory that one of its workers had"},
}

// A StressEnd is how a stressor ended.
type StressEnd struct {
	Status result.Status  // passed, failed, skipped
	Reason string         // "" where it passed
	Known  bool           // skipped: it would fail here for a known cause, which is Reason
	Values []result.Value // of Metrics
	Usage  result.Usage
}

// Exit codes of stress-ng, as its manual has them.
const (
	stressFailed      = 2
	stressNoResource  = 3
	stressUnsupported = 4
	stressSignal      = 5
	stressExited      = 6
	stressUntrusted   = 7
)

// End waits for the stressor's end; its error is ctx's, or that of boxdyno itself.
func (r *Stressing) End(ctx context.Context) (StressEnd, error) {
	err := r.process.Wait(ctx)
	var exit *host.Exit
	code := 0
	var signal syscall.Signal
	if errors.As(err, &exit) {
		code, signal = exit.Code, exit.Signal
	} else if err != nil {
		return StressEnd{}, err
	}
	end := Judge(r.Stressor, code, signal, r.log.String(), r.figures.String())
	if n := r.process.OOMKills(); n > 0 && end.Status == result.Failed {
		end.Status, end.Reason = result.Skipped, fmt.Sprintf("its memory was limited, and the kernel ended %d of its processes when that was used up", n)
	}
	end.Usage, err = r.Usage()
	if end.Reason == idleReason && end.Usage.CPU > busyFor {
		end.Reason = fmt.Sprintf("it did not finish one operation in %.1f s of CPU time: it needs longer", end.Usage.CPU.Seconds())
	}
	return end, err
}

// Wait returns its own figures once it has ended; a stressor that did not pass is an error.
func (r *Stressing) Wait(ctx context.Context) ([]result.Value, error) {
	end, err := r.End(ctx)
	if err == nil && end.Status != result.Passed {
		err = fmt.Errorf("stressor %s %s: %s", r.Stressor, end.Status, end.Reason)
	}
	return end.Values, err
}

const (
	idleReason = "it ended without an error and without having finished one operation: it tested nothing"
	// busyFor tells a stressor that was at work from one that had nothing to do; the
	// program's own start takes some 20 ms.
	busyFor = 200 * time.Millisecond
)

// A cause is why a stressor is known to fail on machines that have nothing wrong.
type cause struct {
	stressor string
	says     *regexp.Regexp // what it says then; nil: it says nothing, and has done nothing
	why      string
}

// causes were each seen with stress-ng 0.15.06, the machine being a virtual one with
// Linux 6.18 without modules, or are told in its manual.
var causes = []cause{
	{"af-alg", nil, "this kernel has no AF_ALG sockets, or none of their ciphers (CONFIG_CRYPTO_USER_API_*)"},
	{"cyclic", regexp.MustCompile(`sched_setscheduler failed: errno=(1|16|22)`), "a real-time policy was refused: it asks for more of a CPU than SCHED_DEADLINE admits (95 %), or CAP_SYS_NICE is missing"},
	{"rseq", regexp.MustCompile(`rseq system call failed to register`), "the C library has registered rseq for itself (glibc 2.35 and later)"},
	{"uprobe", regexp.MustCompile(`cannot set uprobe_event`), "this kernel has no uprobes, or tracefs is not mounted"},
	{"ioport", regexp.MustCompile(`cannot access port 0x80`), "the machine's I/O ports may not be accessed (no CAP_SYS_RAWIO, lockdown, or no such kernel interface)"},
	{"io-uring", regexp.MustCompile(`IORING_OP_STATX\), error=2`), "newer kernels (seen with Linux 6.18) answer ENOENT to the statx that stress-ng 0.15 asks io_uring for"},
	{"physpage", regexp.MustCompile(`cannot find mtrr entry`), "the machine has no memory type range registers (an empty /proc/mtrr: most virtual machines)"},
	{"netlink-proc", regexp.MustCompile(`net link write failed, errno=111`), "process events are told in the first network namespace only, and stressors run in one of their own"},
	{"ping-sock", regexp.MustCompile(`permission denied`), "the namespace's net.ipv4.ping_group_range lets nobody ping"},
	{"plugin", regexp.MustCompile(`no plugin-so specified`), "it needs a library that the user gives"},
}

// skips are what stress-ng says of a stressor that it does not run.
var skips = regexp.MustCompile(`(?i)(skipping|skipped|not implemented|unsupported|not supported|disabled '|No stress workers invoked|need to be running with)`)

// Judge says how a stressor ended from stress-ng's exit code or signal, what it said
// (log) and its metrics (figures).
func Judge(stressor string, code int, signal syscall.Signal, log, figures string) (e StressEnd) {
	ops := -1.0
	e.Values, ops = stressValues(figures)
	why := said(log)
	switch {
	case signal != 0:
		e.Status, e.Reason = result.Failed, fmt.Sprintf("stress-ng itself was ended by signal %v", signal)
	case code == stressFailed, code == stressSignal, code == stressExited:
		e.Status, e.Reason = result.Failed, why
	case code == stressNoResource, code == stressUnsupported:
		e.Status, e.Reason = result.Skipped, why
	case ops > 0 && (code == 0 || code == stressUntrusted):
		e.Status = result.Passed
	case code != 0 && !skips.MatchString(log):
		e.Status, e.Reason = result.Failed, why
	case skips.MatchString(log):
		e.Status, e.Reason = result.Skipped, why
	default:
		e.Status, e.Reason = result.Skipped, idleReason
	}
	if e.Status == result.Passed {
		return e
	}
	if e.Reason == "" {
		e.Reason = fmt.Sprintf("stress-ng ended with exit code %d and said nothing", code)
	}
	i := slices.IndexFunc(causes, func(c cause) bool {
		return c.stressor == stressor && (c.says == nil && ops == 0 || c.says != nil && c.says.MatchString(log))
	})
	if i >= 0 {
		e.Status, e.Known, e.Reason = result.Skipped, true, causes[i].why
	}
	return e
}

var logLine = regexp.MustCompile(`^stress-ng: (\w+): +\[\d+\] (.*)$`)

// said is the line of stress-ng's log that tells most: the first failure, else the
// first error, warning, or note on skipping.
func said(log string) string {
	rank := func(kind, text string) int {
		switch {
		case kind == "fail":
			return 4
		case skips.MatchString(text) && !strings.HasPrefix(text, "No stress workers"):
			return 3
		case kind == "error":
			return 2
		case kind == "warn":
			return 1
		}
		return 0
	}
	best, at := "", 0
	for line := range strings.Lines(log) {
		m := logLine.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			continue
		}
		if n := rank(m[1], m[2]); n > at {
			best, at = strings.Join(strings.Fields(m[2]), " "), n
		}
	}
	return best
}

// stressValues reads the metrics of one stressor from what --yaml prints; ops is
// below 0 where there are none.
func stressValues(figures string) (vs []result.Value, ops float64) {
	ops = -1
	_, metrics, ok := strings.Cut(figures, "\nmetrics:\n")
	if !ok {
		return nil, ops
	}
	add := func(metric string, u unit.Symbol, v float64) {
		vs = append(vs, result.Value{Metric: metric, Unit: u, Value: v})
	}
	for line := range strings.Lines(metrics) {
		key, text, _ := strings.Cut(strings.TrimSpace(line), ": ")
		v, err := strconv.ParseFloat(text, 64)
		if err != nil || v < 0 || v-v != 0 { // neither a number nor finite
			continue
		}
		switch key {
		case "bogo-ops":
			ops = v
			add("bogo_ops", "1", v)
		case "bogo-ops-per-second-real-time":
			add("bogo_ops_rate", "1/s", v)
		case "bogo-ops-per-second-usr-sys-time":
			add("bogo_ops_cpu_rate", "1/s", v)
		case "wall-clock-time":
			add("stressor_s", "s", v)
		case "max-rss":
			add("stressor_memory_bytes", "B", v*1024)
		}
	}
	if ops == 0 { // rates of nothing
		vs = slices.DeleteFunc(vs, func(v result.Value) bool { return strings.HasSuffix(v.Metric, "_rate") })
	}
	return vs, ops
}

// Version is that of the stress-ng that is installed on h: "0.15.06".
func Version(ctx context.Context, h *host.Local) (string, error) {
	out, err := h.Run(ctx, "", Name, "--version")
	if err != nil {
		return "", err
	}
	_, rest, ok := strings.Cut(string(out), "version ")
	if f := strings.Fields(rest); ok && len(f) > 0 {
		return f[0], nil
	}
	return "", fmt.Errorf("stress-ng --version says %q", strings.TrimSpace(string(out)))
}

// Stressors are those of a class, or with "all" every one, in stress-ng's order.
func Stressors(ctx context.Context, class string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	local := &host.Local{}
	if class == "all" {
		out, err := local.Run(ctx, "", Name, "--stressors")
		return strings.Fields(string(out)), err
	}
	if strings.Trim(class, stressorLetters) != "" || class == "" {
		return nil, fmt.Errorf("class %q: a name is of small letters and hyphens", class)
	}
	out, err := local.Run(ctx, "", Name, "--class", class+"?")
	if _, list, ok := strings.Cut(string(out), "stressors: "); ok && err == nil {
		return strings.Fields(list), nil
	}
	if err != nil {
		return nil, err
	}
	// Unknown ones are told as "Unknown class: 'x', available classes: ...".
	return nil, errors.New(strings.Join(strings.Fields(string(out)), " "))
}
