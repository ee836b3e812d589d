// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	engines "boxdyno/engine/catalog"
	"boxdyno/host"
	"boxdyno/lab"
	"boxdyno/reference/boards"
	"boxdyno/subject"
	"boxdyno/subject/capture"
	"boxdyno/subject/catalog"
	"boxdyno/subject/userland"
)

// An Answer is a probe's; there are three.
type Answer string

const (
	Yes     Answer = "ok"
	No      Answer = "no"
	Unknown Answer = "don't know"
)

// A Diagnosis is one line of doctor.
type Diagnosis struct {
	Group  string     `json:"group"` // privilege, program, kernel, backend, testbed, subject, userland, machine, setting
	Name   string     `json:"name"`
	Answer Answer     `json:"answer"`
	Detail string     `json:"detail,omitempty"`
	Remedy [][]string `json:"remedy,omitempty"` // commands that supply it
	Needed bool       `json:"needed"`           // for the main job, qualify firewall
}

func diagnose(group, name string, needed bool, err error) Diagnosis {
	d := Diagnosis{Group: group, Name: name, Needed: needed, Answer: Yes}
	var missing *host.Missing
	switch {
	case err == nil:
	case errors.As(err, &missing):
		d.Answer, d.Detail, d.Remedy = No, err.Error(), missing.Remedy
	case errors.Is(err, host.ErrNotSupported):
		d.Answer, d.Detail = No, err.Error()
	default:
		d.Answer, d.Detail = Unknown, err.Error()
	}
	return d
}

// Doctor tries everything that the main job and what stands beside it need, on
// throw-away testbeds, and takes them down.
func Doctor(ctx context.Context, c Catalogue) []Diagnosis {
	out := []Diagnosis{
		diagnose("privilege", "network namespaces", true, host.ProbeNamespace()),
		diagnose("privilege", "BPF programs", true, host.ProbeBPF()),
		diagnose("privilege", "packet sockets", true, host.ProbePacket()),
		diagnose("privilege", "measuring lock", true, probeLock(ctx)),
		diagnose("program", "nft", true, host.Has("nft")),
		diagnose("program", "tcpreplay", false, host.Has("tcpreplay")),
		diagnose("kernel", "BTF", false, host.ProbeBTF()),
	}
	out = append(out, doctorBackends(ctx, c)...)
	out = append(out, doctorServices(ctx, c)...)
	out = append(out, doctorSubjects(ctx)...)
	out = append(out, doctorUserlands(ctx))
	return append(out, doctorMachine()...)
}

func probeLock(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	who := ""
	unlock, err := host.Lock(ctx, func(holder string) { who = holder })
	if who != "" && errors.Is(err, context.DeadlineExceeded) {
		return nil // it works: somebody measures just now
	}
	if err != nil {
		return err
	}
	unlock()
	return nil
}

// testbed builds a topology with its defaults.
func testbed(ctx context.Context, c Catalogue, name string) (*lab.Testbed, error) {
	spec, err := c.lab(name, "")
	if err != nil {
		return nil, err
	}
	return spec.New().Build(ctx)
}

// doctorBackends probes every backend on a veth pair of its own: the first that
// works is used.
func doctorBackends(ctx context.Context, c Catalogue) (out []Diagnosis) {
	bed, err := testbed(ctx, c, "loop")
	if err != nil {
		return []Diagnosis{diagnose("backend", "any", true, err)}
	}
	defer bed.Close()
	works := false
	for _, s := range engines.All {
		d := diagnose("backend", s.Name, false, s.New().Probe(ctx, bed.Ports[0].Port, bed.Ports[1].Port))
		works = works || d.Answer == Yes
		out = append(out, d)
	}
	if !works {
		for i := range out {
			out[i].Needed = true
		}
	}
	return out
}

// doctorServices sets up each service of the DUT once.
func doctorServices(ctx context.Context, c Catalogue) (out []Diagnosis) {
	bed, err := testbed(ctx, c, DefaultLab)
	out = append(out, diagnose("testbed", DefaultLab, true, err))
	if err != nil {
		return out
	}
	defer bed.Close()
	out[0].Detail = "placement " + bed.Placement
	for _, kind := range lab.Services {
		out = append(out, diagnose("testbed", "service "+kind, true, bed.Serve(ctx, lab.Service{Kind: kind, Rules: 10, Flows: 10})))
	}
	return out
}

// doctorSubjects looks for the programs that are put under load.
func doctorSubjects(ctx context.Context) (out []Diagnosis) {
	for _, s := range Subjects("subjects") {
		out = append(out, diagnose("subject", s.Name, false, s.New().Check(ctx, &host.Local{})))
	}
	return out
}

// doctorUserlands looks for programs of 32 bit beside the machine's own.
func doctorUserlands(ctx context.Context) Diagnosis {
	return diagnose("userland", userland.Narrow, false, userland.CheckNarrow(ctx))
}

// Subjects are those that a set of Sets has, or the one of that name: all but those
// that only their user can install.
func Subjects(set string) (specs []subject.Spec) {
	for _, s := range catalog.All {
		if s.Name != capture.Own && (set == s.Name || set == "subjects" || set == "all") {
			specs = append(specs, s)
		}
	}
	return specs
}

func doctorMachine() []Diagnosis {
	local := &host.Local{}
	m := local.Identify()
	cpus := Diagnosis{Group: "machine", Name: "two CPUs", Answer: Yes, Detail: fmt.Sprintf("%d", runtime.NumCPU())}
	if runtime.NumCPU() < 2 {
		cpus.Answer, cpus.Detail = No, "one CPU: tester and DUT share it, and only the forwarding rate can be measured"
	}
	bare := Diagnosis{Group: "machine", Name: "not virtual", Answer: Yes, Detail: m.Board}
	if m.Virtual != "" {
		bare.Answer, bare.Detail = No, "a virtual machine ("+m.Virtual+"): its stalls are counted in every record"
	}
	if m.Kind == "emulated" {
		bare.Detail = "emulated (" + m.Virtual + "): it shows what works, and nothing about speed"
	}
	board := doctorBoard(local.Compatible(), m.Board)
	idle := Diagnosis{Group: "machine", Name: "idle", Answer: Unknown}
	if before, err := local.CPUTime(); err == nil {
		time.Sleep(idleWindow)
		if now, err := local.CPUTime(); err == nil {
			busy, _ := now.Since(before)
			idle.Detail = fmt.Sprintf("CPUs %.1f %% busy; idle is at most %.1f %%", 100*busy, 100*idleLimit)
			if idle.Answer = Yes; busy > idleLimit {
				idle.Answer = No
			}
		}
	}
	return append([]Diagnosis{cpus, bare, board, idle}, doctorSettings()...)
}

// doctorBoard looks for the machine in the catalogue of boards.
func doctorBoard(compatible []string, shown string) Diagnosis {
	d := Diagnosis{Group: "machine", Name: "board", Answer: Unknown, Detail: "not in the catalogue: boxdyno list boards"}
	if shown != "" {
		d.Detail = shown + ": " + d.Detail
	}
	if b, ok := boards.Identify(compatible, shown); ok {
		d.Answer, d.Detail = Yes, b.Name+": boxdyno list boards "+b.ID
	}
	return d
}

// Healthy says whether nothing that the main job needs is missing.
func Healthy(ds []Diagnosis) bool {
	return !slices.ContainsFunc(ds, func(d Diagnosis) bool { return d.Needed && d.Answer != Yes })
}

// Sets of what doctor --install supplies.
var Sets = []string{"firewall", "all", "subjects", userland.WidthSet}

// Remedies are the commands that supply what is missing of a set, each once: firewall
// is what the main job needs, width programs of 32 bit beside the machine's own, all is
// everything but those. Those of Subjects(set) are not among
// them: they install themselves (subject.Install).
func Remedies(ds []Diagnosis, set string) (cmds [][]string, err error) {
	if !slices.Contains(Sets, set) && len(Subjects(set)) == 0 {
		return nil, planErrorf("--install", "unknown set %q: there are %s, and the names of subjects (boxdyno list subjects)", set, strings.Join(Sets, ", "))
	}
	seen := map[string]bool{}
	for _, d := range ds {
		wanted := set == "all" && d.Group != "userland" || set == "firewall" && d.Needed || set == userland.WidthSet && d.Group == "userland"
		if d.Group == "subject" || !wanted {
			continue
		}
		for _, r := range d.Remedy {
			if k := strings.Join(r, " "); !seen[k] {
				seen[k] = true
				cmds = append(cmds, r)
			}
		}
	}
	return cmds, nil
}
