// SPDX-License-Identifier: Apache-2.0

// Package stress holds stress-ng.
package stress

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"boxdyno/host"
	"boxdyno/result"
	"boxdyno/subject"
	"boxdyno/subject/internal/program"
)

// A Stress is stress-ng with one stressor. It runs in mount, IPC and network
// namespaces of its own, where privilege allows, so that what a killed stressor has
// mounted or shared goes with it; its files are in a folder that is removed.
type Stress struct {
	Stressor     string
	Workers      int           // 0: one for each CPU that it may use
	For          time.Duration // 0: until it is stopped
	Memory       uint64        // bytes that all workers may have, where control groups can limit them; 0: no limit
	Pathological bool          // stressors that hang or reboot machines are let run
	Dir          string        // folder that its files are in one of their own in; "": $TMPDIR
	Method       string        // of the stressor, of its manual's words; "": they change
	Share        int           // cpu: percent of a CPU that each worker takes; 0: all of it
	Bytes        uint64        // vm: that all workers write again and again; 0: as by default
	Options      []string      // further ones, as stress-ng's manual has them; on this machine only
}

const Name = "stress-ng"

// Specs are the subjects of this package.
func Specs() subject.Specs {
	return subject.Specs{{Name: Name, Work: "stressor", Doc: "stress-ng with one of its stressors: Debian's package, not in this binary", Metrics: Metrics, New: func() subject.Subject { return New() }}}
}

// New is the stressor cpu, until it is stopped.
func New() *Stress { return &Stress{Stressor: "cpu"} }

// Flags implements Subject.
func (s *Stress) Flags(fs *flag.FlagSet) {
	fs.StringVar(&s.Stressor, "stressor", s.Stressor, "`name` of a stressor (stress-ng's manual has them)")
	fs.IntVar(&s.Workers, "workers", s.Workers, "`processes`; 0: one for each CPU")
	fs.DurationVar(&s.For, "for", s.For, "how `long`; 0: until it is stopped")
	fs.StringVar(&s.Method, "method", s.Method, "`name` of one of the stressor's methods; none: they change")
	fs.IntVar(&s.Share, "share", s.Share, "cpu: `percent` of a CPU that each worker takes; 0: all of it")
	fs.Uint64Var(&s.Bytes, "bytes", s.Bytes, "vm: `octets` that all workers write again and again; 0: as by default")
}

// Check implements Subject.
func (s *Stress) Check(_ context.Context, h *host.Local) error {
	if strings.Trim(s.Stressor, stressorLetters) != "" || s.Stressor == "" {
		return fmt.Errorf("stressor %q: a name is of small letters, digits and hyphens", s.Stressor)
	}
	if strings.Trim(s.Method, stressorLetters) != "" || s.Share < 0 || s.Share > 100 {
		return fmt.Errorf("stressor %s: method %q and a share of %d %%: want small letters, digits and hyphens, and 0 to 100", s.Stressor, s.Method, s.Share)
	}
	if s.Workers < 0 || s.Workers > 4096 || s.For < 0 {
		return fmt.Errorf("stressor %s: %d workers for %v is out of range", s.Stressor, s.Workers, s.For)
	}
	return h.Has(Name)
}

const stressorLetters = "abcdefghijklmnopqrstuvwxyz0123456789-"

// Start implements Subject.
func (s *Stress) Start(ctx context.Context, e subject.Env) (subject.Running, error) {
	return s.Run(ctx, e)
}

// Run is Start with what only stress-ng has.
func (s *Stress) Run(ctx context.Context, e subject.Env) (_ *Stressing, err error) {
	if err := s.Check(ctx, e.Machine()); err != nil {
		return nil, err
	}
	dir, err := host.MakeScratchIn(cmp.Or(s.Dir, os.TempDir()))
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	r := &Stressing{Stressor: s.Stressor, Dir: dir}
	argv := []string{Name, "--" + s.Stressor, strconv.Itoa(s.Workers), "--timeout", fmt.Sprintf("%.0fs", max(s.For.Seconds(), 0)),
		"--metrics", "--yaml", "/dev/stdout", "--temp-path", dir, "--verify", "--no-rand-seed", "--oomable"}
	if s.Pathological {
		argv = append(argv, "--pathological")
	}
	argv = append(argv, bounds[s.Stressor]...)
	if s.Method != "" {
		argv = append(argv, "--"+s.Stressor+"-method", s.Method)
	}
	if s.Share > 0 && s.Share < 100 { // in turns of 2 ms; by default they take tens
		argv = append(argv, "--cpu-load", strconv.Itoa(s.Share), "--cpu-load-slice", "2")
	}
	if s.Bytes > 0 {
		argv = append(argv, "--vm-bytes", strconv.FormatUint(s.Bytes, 10), "--vm-keep")
	}
	r.process, err = e.Machine().Start(ctx, host.Cmd{
		Argv: append(argv, s.Options...), Dir: dir, Stdout: &r.figures, Stderr: &r.log,
		CPUs: e.CPUs, Memory: s.Memory, Private: true, Scratch: []string{dir},
	})
	if err != nil {
		return nil, err
	}
	r.Limited = r.process.Limited
	r.begun = time.Now()
	return r, nil
}

// bounds keep what a stressor writes to a disk within some 100 MB a worker; by itself
// it would write 1 GiB.
var bounds = map[string][]string{
	"copy-file": {"--copy-file-bytes", "64m"},
	"fallocate": {"--fallocate-bytes", "64m"},
	"fiemap":    {"--fiemap-bytes", "64m"},
	"hdd":       {"--hdd-bytes", "64m"},
	"iomix":     {"--iomix-bytes", "64m"},
	"readahead": {"--readahead-bytes", "64m"},
	"revio":     {"--revio-bytes", "64m"},
	"seek":      {"--seek-size", "64m"},
	"sendfile":  {"--sendfile-size", "64m"},
	"sync-file": {"--sync-file-bytes", "64m"},
}

// A Stressing is a stress-ng that runs.
type Stressing struct {
	Stressor string
	Dir      string // of its files, until its end
	Limited  bool   // Stress.Memory holds

	process *host.Process
	stopped atomic.Bool
	begun   time.Time
	figures program.Log
	log     program.Log
}

// stressSettled is how long after its start every worker surely works.
const stressSettled = 300 * time.Millisecond

// Ready waits until its workers have begun, or says why they do not.
func (r *Stressing) Ready(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-r.process.Done():
		return fmt.Errorf("stressor %s ended at once: %s", r.Stressor, cmp.Or(said(r.log.String()), "it said nothing"))
	case <-time.After(stressSettled - time.Since(r.begun)):
		return nil
	}
}

// Done is closed once it and all its children are gone.
func (r *Stressing) Done() <-chan struct{} { return r.process.Done() }

// Usage implements Running.
func (r *Stressing) Usage() (result.Usage, error) {
	u, err := r.process.Usage()
	u.Subject = Name + " " + r.Stressor
	return u, err
}

// Stop implements Running.
func (r *Stressing) Stop(ctx context.Context) error {
	r.stopped.Store(true)
	return r.process.Stop(ctx, 3*time.Second)
}

// Ended implements Ender.
func (r *Stressing) Ended() error {
	select {
	case <-r.process.Done():
	default:
		return nil
	}
	if r.stopped.Load() {
		return nil
	}
	return fmt.Errorf("stressor %s ended: %s", r.Stressor, cmp.Or(said(r.log.String()), "it said nothing"))
}
