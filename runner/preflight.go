// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"slices"
	"strings"

	"boxdyno/host"
	"boxdyno/lab"
	"boxdyno/result"
	"boxdyno/telemetry"
)

// Preflight: what decides figures and is not the plan's is noted before a run and
// after it (METHOD, rules 9 and 14). What changed meanwhile, and what is bad in
// itself (host.Conditions), is a warning.

// surroundings are the machine's settings and those of the testbed's ports.
func surroundings(bed *lab.Testbed) []result.Pair {
	if box := boxOf(bed); box != nil {
		return box.Environment()
	}
	env := append((&host.Local{}).Environment(), telemetry.Settings(bed.CPUs...)...)
	var seen []string
	for _, p := range portsOf(bed) {
		kv, err := p.Settings()
		if err != nil || slices.Contains(seen, p.Name) {
			continue // a port in memory, or one that is gone, which the trials will tell
		}
		seen = append(seen, p.Name)
		env = append(env, kv...)
	}
	return env
}

// portsOf are the tester's ports and those of the DUT that can be looked into.
func portsOf(bed *lab.Testbed) (ports []host.Port) {
	add := func(p host.Port) {
		if !slices.ContainsFunc(ports, func(q host.Port) bool { return q.Name == p.Name && q.Netns == p.Netns }) {
			ports = append(ports, p)
		}
	}
	for _, p := range slices.Concat(bed.Ports, bed.Loop) {
		add(p.Port)
	}
	if len(bed.Ports) > 1 {
		for _, h := range bed.Path(0, 1, false).Hops {
			if h.Host != nil && h.Host.Root == nil {
				add(h.Port)
			}
		}
	}
	return ports
}

// use is what the plan wants of the machine.
func (x *execution) use() (u host.Use) {
	if len(x.bed.Ports) > 0 {
		u.LinkRate = x.bed.Ports[0].Link
	}
	for _, e := range x.plan.Procedures {
		spec, err := x.o.Catalogue.procedure(e.Use, e.at)
		if err != nil {
			continue // Resolve has said so
		}
		u.Load = u.Load || strings.Contains(spec.Standard, "RFC 2544")
		u.Latency = u.Latency || slices.ContainsFunc(spec.Metrics, func(m result.Metric) bool { return strings.HasPrefix(m.Name, latencyFamilies) })
	}
	return u
}

// concerns warns of what is bad in env; when is "" before a run.
func (x *execution) concerns(env []result.Pair, when string) {
	if x.bed.Kind == result.KindMemory {
		return // nothing is measured
	}
	for _, c := range host.Concerns(env, x.use()) {
		known := slices.ContainsFunc(x.run.Warnings, func(w string) bool { return strings.HasSuffix(w, c.String()) })
		if !known {
			x.warn(when + c.String())
		}
	}
}

// doctorSettings says which conditions this machine and its ports meet; one that
// nobody here can answer is left out. Speeds and what only some runs mind are for
// any run.
func doctorSettings() (out []Diagnosis) {
	local := &host.Local{}
	env := append(local.Environment(), telemetry.Settings(0)...)
	for _, name := range local.Ports() {
		if kv, err := (host.Port{Name: name}).Settings(); err == nil {
			env = append(env, kv...)
		}
	}
	return diagnoseSettings(env)
}

func diagnoseSettings(env []result.Pair) (out []Diagnosis) {
	concerns := host.Concerns(env, host.Use{Latency: true, Load: true, Beside: true})
	for _, c := range host.Conditions {
		bad := 0
		for _, k := range concerns {
			if k.Condition == c.Name {
				out = append(out, Diagnosis{Group: "setting", Name: c.Name, Answer: No, Detail: k.String()})
				bad++
			}
		}
		if seen := c.Seen(env); bad == 0 && seen != "" {
			out = append(out, Diagnosis{Group: "setting", Name: c.Name, Answer: Yes, Detail: seen})
		}
	}
	return out
}
