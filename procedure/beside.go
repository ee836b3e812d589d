// SPDX-License-Identifier: Apache-2.0

package procedure

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"boxdyno/host"
	"boxdyno/lab"
	"boxdyno/result"
	"boxdyno/subject/stress"
	"boxdyno/unit"
)

// A Beside is how a point's DUT is loaded apart from the procedure's own load: by a
// program that runs beside its trials, and by being heated through before them. Every
// procedure that loads a DUT has it as parameters (WithBeside); what they ask for is
// done by Surroundings.
type Beside struct {
	Load SideLoad
	CPUs SideCPUs // that Load runs on
	Heat Heat
}

const (
	nothingBeside = "none"
	autoCPUs      = "auto"
	anyCPU        = "any"
	noHeat        = "0"
	steadyHeat    = "steady"

	leastHeat   = time.Second
	longestHeat = 30 * time.Minute // that steady takes
	mostHeat    = 24 * time.Hour
)

// A SideLoad is a program that runs on the DUT beside the trials: cpu:N, cpu:N@P%,
// memory:SIZE, disk:FOLDER, none. It is a flag.Value.
type SideLoad struct {
	kind    string // "": none
	workers int    // cpu
	share   int    // cpu: percent of a CPU that each worker takes
	memory  uint64 // bytes
	dir     string // disk
}

// String implements flag.Value.
func (l *SideLoad) String() string {
	switch l.kind {
	case "cpu":
		if l.share < 100 {
			return fmt.Sprintf("cpu:%d@%d%%", l.workers, l.share)
		}
		return fmt.Sprintf("cpu:%d", l.workers)
	case "memory":
		if l.memory%(1<<30) == 0 {
			return fmt.Sprintf("memory:%dG", l.memory>>30)
		}
		return fmt.Sprintf("memory:%dM", l.memory>>20)
	case "disk":
		return "disk:" + l.dir
	}
	return nothingBeside
}

const sideForms = "none, cpu:WORKERS such as cpu:2 or cpu:2@50%, memory:SIZE such as memory:512M, disk:FOLDER such as disk:/var/tmp"

// Set implements flag.Value.
func (l *SideLoad) Set(s string) error {
	kind, amount, _ := strings.Cut(s, ":")
	wrong := func(why string) error { return fmt.Errorf("%q: %s: there are %s", s, why, sideForms) }
	n := SideLoad{kind: kind}
	switch kind {
	case nothingBeside:
		if s != nothingBeside {
			return wrong("none has no amount")
		}
		n = SideLoad{}
	case "cpu":
		workers, share, shared := strings.Cut(amount, "@")
		var err error
		if n.workers, err = strconv.Atoi(workers); err != nil || n.workers < 1 || n.workers > 4096 {
			return wrong("workers are a whole number from 1 to 4096")
		}
		n.share = 100
		if shared {
			if n.share, err = strconv.Atoi(strings.TrimSuffix(share, "%")); err != nil || n.share < 1 || n.share > 100 {
				return wrong("a share is 1% to 100%")
			}
		}
	case "memory":
		shift := map[byte]int{'M': 20, 'G': 30}[(" " + amount)[len(amount)]]
		size, err := strconv.ParseUint(strings.TrimRight(amount, "MG"), 10, 32)
		if err != nil || shift == 0 || size == 0 || strings.Count(amount, "M")+strings.Count(amount, "G") != 1 {
			return wrong("a size is a whole number of M (MiB) or G (GiB)")
		}
		n.memory = size << shift
	case "disk":
		if !filepath.IsAbs(amount) {
			return wrong("the folder is given by its whole path")
		}
		n.dir = filepath.Clean(amount)
	default:
		return wrong("it is no load")
	}
	*l = n
	return nil
}

// Words say what runs: "stress-ng cpu, 2 workers at 50 % each".
func (l *SideLoad) Words() string {
	switch l.kind {
	case "cpu":
		s := "stress-ng cpu, 1 worker"
		if l.workers > 1 {
			s = fmt.Sprintf("stress-ng cpu, %d workers", l.workers)
		}
		if l.share < 100 {
			s += fmt.Sprintf(" at %d %%", l.share)
			if l.workers > 1 {
				s += " each"
			}
		}
		return s
	case "memory":
		return fmt.Sprintf("stress-ng vm, which writes %sB of memory again and again", unit.SI(float64(l.memory)))
	case "disk":
		return "stress-ng hdd, which writes and reads in " + l.dir + " past the page cache"
	}
	return "nothing"
}

// heatMethod mixes memory, cache and floating point: by stress-ng's manual the one that
// makes a CPU run hot. A fixed one loads evenly; by default they change.
const heatMethod = "matrixprod"

// stress is the program of a load.
func (l *SideLoad) stress() *stress.Stress {
	switch l.kind {
	case "memory":
		return &stress.Stress{Stressor: "vm", Workers: 1, Bytes: l.memory, Method: "write64"}
	case "disk":
		return &stress.Stress{Stressor: "hdd", Workers: 1, Dir: l.dir, Options: []string{"--hdd-opts", "wr-seq,rd-seq,direct,dsync"}}
	}
	return &stress.Stress{Stressor: "cpu", Workers: l.workers, Method: heatMethod, Share: l.share}
}

const (
	// besideShare is the part of the available memory that a load may take.
	besideShare = 0.8
	// besideRoom is what the file system of a disk load must have free; it writes
	// some 64 MiB.
	besideRoom = 512 << 20
)

// fits says why the machine of what it has cannot run l; away: that is a box.
func (l *SideLoad) fits(has host.Resources, away bool) error {
	switch l.kind {
	case "memory":
		if n := has.Memory; n > 0 && float64(l.memory) > besideShare*float64(n) {
			return fmt.Errorf("beside %s: of its memory %sB are available, and a load may take %.0f %% of it", l, unit.SI(float64(n)), besideShare*100)
		}
	case "disk":
		if away {
			return fmt.Errorf("beside %s: an agent writes into its own folder alone: load the box's cpu or memory", l)
		}
		if info, err := os.Stat(l.dir); err != nil {
			return fmt.Errorf("beside %s: %w", l, err)
		} else if !info.IsDir() {
			return fmt.Errorf("beside %s: it is no folder", l)
		}
		if n, err := host.Free(l.dir); err == nil && n < besideRoom {
			return fmt.Errorf("beside %s: its file system has %sB left, and %sB is the least", l, unit.SI(float64(n)), unit.SI(besideRoom))
		}
	}
	if away {
		return nil // the box is asked
	}
	return host.Has("stress-ng")
}

// SideCPUs are those that a load runs on: auto, any, or a list such as 0+2-3. It is a
// flag.Value.
type SideCPUs struct {
	text string
	list []int
}

// String implements flag.Value.
func (c *SideCPUs) String() string {
	if c.text == "" {
		return autoCPUs
	}
	return c.text
}

// Set implements flag.Value.
func (c *SideCPUs) Set(s string) error {
	n := SideCPUs{text: s}
	if s != autoCPUs && s != anyCPU {
		for part := range strings.SplitSeq(s, "+") {
			from, to, ok := strings.Cut(part, "-")
			if !ok {
				to = from
			}
			a, err1 := strconv.ParseUint(from, 10, 12)
			b, err2 := strconv.ParseUint(to, 10, 12)
			if errors.Join(err1, err2) != nil || b < a {
				return fmt.Errorf("%q is not auto, any, or a list of CPUs such as 0+2-3", s)
			}
			for ; a <= b; a++ {
				if !slices.Contains(n.list, int(a)) {
					n.list = append(n.list, int(a))
				}
			}
		}
	}
	*c = n
	return nil
}

// on is the CPUs of a testbed's machine; nil: any. By itself a load runs where the DUT
// works, if the tester works on the same machine: one on the tester's CPU would slow
// the tester.
func (c *SideCPUs) on(bed *lab.Testbed) []int {
	if c.String() == autoCPUs && bed.Placement != "" {
		return bed.DUTCPUs
	}
	return c.list
}

// A Heat is how the DUT is heated with all its CPUs before a trial: 0, a time, or
// steady. It is a flag.Value.
type Heat struct {
	length time.Duration // at most; 0: it is not heated
	steady bool          // until no sensor rises any more
}

// String implements flag.Value: "10m", not "10m0s".
func (h *Heat) String() string {
	switch {
	case h.steady:
		return steadyHeat
	case h.length == 0:
		return noHeat
	}
	s := h.length.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// Set implements flag.Value.
func (h *Heat) Set(s string) error {
	if s == steadyHeat {
		*h = Heat{length: longestHeat, steady: true}
		return nil
	}
	d, err := time.ParseDuration(s)
	if err != nil || d != 0 && (d < leastHeat || d > mostHeat || d%time.Second != 0) {
		return fmt.Errorf("%q is not 0, steady, or whole seconds from 1s to 24h such as 10m", s)
	}
	*h = Heat{length: d}
	return nil
}

// On says whether the DUT is heated.
func (h Heat) On() bool { return h.length > 0 }

// ParseBeside reads a point's or trial's settings; said is false where they do not
// speak of it, as those of a self-test.
func ParseBeside(cfg []result.Pair) (b Beside, said bool, err error) {
	fs := flag.NewFlagSet("", flag.ContinueOnError)
	b.flags(fs)
	for _, p := range cfg {
		if f := fs.Lookup(p.Key); f != nil {
			said = true
			if serr := f.Value.Set(p.Value); serr != nil {
				err = errors.Join(err, fmt.Errorf("%s: %w", p.Key, serr))
			}
		}
	}
	return b, said, err
}

func (b *Beside) flags(fs *flag.FlagSet) {
	fs.Var(&b.Load, result.BesideKey, "`load` that runs on the DUT beside the trials: "+sideForms)
	fs.Var(&b.CPUs, result.BesideCPUsKey, "`CPUs` that it runs on: a list such as 0+2-3, or any; auto: in the sandbox those of the DUT, else any")
	fs.Var(&b.Heat, result.HeatKey, "how `long` all CPUs of the DUT are loaded before a trial, such as 10m; steady: until no temperature sensor rises; 0: not at all")
}

// check refuses what the testbed's machine cannot do; bed may be nil.
func (b *Beside) check(bed *lab.Testbed) error {
	if b.Load.kind == "" && b.CPUs.String() != autoCPUs {
		return fmt.Errorf("beside_cpus %s: nothing runs beside: give beside, too", &b.CPUs)
	}
	if bed == nil || b.Load.kind == "" && !b.Heat.On() {
		return nil
	}
	on := b.CPUs.on(bed)
	if b.Load.kind != "" && bed.Placement == "split" && (len(on) == 0 || slices.Contains(on, bed.TesterCPU)) {
		return fmt.Errorf("beside_cpus %s: the tester sends from CPU %d of this machine: a load there slows the tester, not the box: name others", &b.CPUs, bed.TesterCPU)
	}
	away := bed.Topology == lab.Pair
	has := (&host.Local{}).Resources()
	if away {
		box, ok := bed.Means.(lab.Lender)
		if !ok {
			return b.Load.fits(host.Resources{}, away) // the rest is asked once it is reached
		}
		var err error
		if has, err = box.Resources(); err != nil {
			return err
		}
	}
	if len(b.CPUs.list) > 0 {
		there := has.CPUs
		for _, c := range b.CPUs.list {
			if !slices.Contains(there, c) {
				return fmt.Errorf("beside_cpus %s: boxdyno may not use CPU %d of that machine, or it has none: use some of %v", &b.CPUs, c, there)
			}
		}
	}
	if b.Heat.steady && len(has.Temperatures) == 0 {
		return &host.Missing{What: "a temperature sensor, which tells when the box is heated through", Hint: "state a time, such as --set heat=10m"}
	}
	if b.Load.kind == "" && !away {
		return host.Has("stress-ng")
	}
	return b.Load.fits(has, away)
}

// A surrounded is a procedure with the parameters of Beside.
type surrounded struct {
	Procedure
	beside Beside
}

// WithBeside returns specs with those parameters for every procedure that loads a DUT.
func WithBeside(specs []Spec) []Spec {
	specs = slices.Clone(specs)
	for i := range specs {
		if s := &specs[i]; !s.Alone {
			inner := s.New
			s.New = func() Procedure { return &surrounded{Procedure: inner()} }
		}
	}
	return specs
}

func (p *surrounded) Flags(fs *flag.FlagSet) {
	p.Procedure.Flags(fs)
	p.beside.flags(fs)
}

func (p *surrounded) Check(bed *lab.Testbed) error {
	if err := p.Procedure.Check(bed); err != nil {
		return err
	}
	return p.beside.check(bed)
}

// Upon implements Dependent for procedures that are.
func (p *surrounded) Upon() string {
	if d, ok := p.Procedure.(Dependent); ok {
		return d.Upon()
	}
	return ""
}

// Needs implements Needing: what runs beside needs a DUT of this machine.
func (p *surrounded) Needs() (need lab.Capability, service string) {
	if n, ok := p.Procedure.(Needing); ok {
		need, service = n.Needs()
	}
	if p.beside.Load.kind != "" || p.beside.Heat.On() {
		need |= lab.Loadable
	}
	return need, service
}

// Visits implements Paused for procedures that are; others have one visit.
func (p *surrounded) Visits() int {
	if v, ok := p.Procedure.(Paused); ok {
		return v.Visits()
	}
	return 1
}

// Once implements Sharing for procedures that do.
func (p *surrounded) Once() (key string, trials int, d time.Duration) {
	if s, ok := p.Procedure.(Sharing); ok {
		key, trials, d = s.Once()
		key += fmt.Sprint(&p.beside.Load, &p.beside.CPUs)
	}
	return key, trials, d
}

func (p *surrounded) Estimate() (trials int, d time.Duration) {
	trials, d = p.Procedure.Estimate()
	if p.beside.Load.kind != "" {
		d += besideWarm
	}
	if p.beside.Heat.steady {
		return trials, d + longestHeat/3
	}
	return trials, d + p.beside.Heat.length
}
