// SPDX-License-Identifier: Apache-2.0

package tune

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
)

const sysctlPrefix = "sysctl:"

// sysctlRow stands for every kernel parameter that may be tuned; Find makes the knob.
var sysctlRow = Spec{
	Name: "sysctl:NAME", Scope: PerMachine,
	Doc:    "a kernel parameter of " + strings.Join(sysctlAllowed, ", ") + "; {port} in its name makes it one of each port",
	Values: "as the kernel takes it: backlog, budget, busy polling, buffers, conntrack sizes...",
}

// sysctlAllowed are patterns of what a recipe may change: what acts on packets,
// memory and CPU time, and goes back. sysctlRefused of them are one-way, act when
// they are written, or take something with them that nobody could put back.
var (
	sysctlAllowed = []string{
		"net.*", "vm.swappiness", "vm.dirty_*", "vm.min_free_kbytes", "vm.stat_interval", "vm.zone_reclaim_mode", "vm.vfs_cache_pressure", "vm.watermark_*", "vm.overcommit_memory", "vm.nr_hugepages", "vm.compaction_proactiveness",
		"kernel.sched_*", "kernel.numa_balancing*", "kernel.nmi_watchdog", "kernel.watchdog*", "kernel.soft_watchdog", "kernel.timer_migration", "kernel.perf_cpu_time_max_percent",
	}
	sysctlRefused = []string{"net.*.disable_ipv6", "net.*.flush", "net.*.stable_secret", "net.core.bpf_jit_harden", "net.*.addr_gen_mode"}
)

// perMachine are patterns of net.* that the kernel has once, whatever namespace a
// port is in; the rest is one of each namespace.
var perMachine = []string{
	"vm.*", "kernel.*", "net.core.netdev_*", "net.core.dev_weight*", "net.core.?mem_*", "net.core.busy_*", "net.core.rps_sock_flow_entries", "net.core.flow_limit_*",
	"net.core.gro_normal_batch", "net.core.skb_defer_max", "net.core.max_skb_frags", "net.core.bpf_*", "net.core.fb_tunnels_only_for_init_net", "net.core.devconf_inherit_init_net",
	"net.core.high_order_alloc_disable", "net.core.tstamp_*", "net.core.warnings", "net.core.message_*", "net.core.default_qdisc", "net.core.mem_pcpu_rsv",
	"net.ipv4.tcp_mem", "net.ipv4.udp_mem",
}

func matches(name string, patterns []string) bool {
	for _, p := range patterns {
		if ok, _ := path.Match(p, name); ok { // the patterns are good; "*" matches dots
			return true
		}
	}
	return false
}

// sysctlPort is a port's name within a kernel parameter's, where a dot separates.
func sysctlPort(port string) string { return strings.ReplaceAll(port, ".", "/") }

// sysctlPath is where a parameter lies below /proc: '.' separates, and '/' stands
// for a dot in a name, as in sysctl(8).
func sysctlPath(key string) (string, error) {
	swap := strings.NewReplacer(".", "/", "/", ".")
	p := swap.Replace(key)
	if key == "" || !fs.ValidPath(p) || strings.ContainsAny(key, " \t\n'\"$") {
		return "", fmt.Errorf("%q is no name of a kernel parameter", key)
	}
	return "sys/" + p, nil
}

func sysctlSpec(key string) (Spec, error) {
	flat := strings.ReplaceAll(strings.ReplaceAll(key, "{port}", "PORT"), "/", "-")
	if !matches(flat, sysctlAllowed) || matches(flat, sysctlRefused) {
		return Spec{}, fmt.Errorf("the kernel parameter %s is not to be tuned: those are %s, without %s", key, strings.Join(sysctlAllowed, ", "), strings.Join(sysctlRefused, ", "))
	}
	if _, err := sysctlPath(strings.ReplaceAll(key, "{port}", "PORT")); err != nil {
		return Spec{}, err
	}
	s := Spec{Name: sysctlPrefix + key, Doc: "kernel parameter " + key, Scope: PerNetns}
	switch {
	case strings.Contains(key, "{port}"):
		s.Scope = PerPort
	case matches(flat, perMachine):
		s.Scope = PerMachine
	}
	file := func(at Site) (string, error) {
		return sysctlPath(strings.ReplaceAll(key, "{port}", sysctlPort(at.Port)))
	}
	s.Check = func(v string) error {
		if strings.TrimSpace(v) == "" || strings.ContainsAny(v, "\n'\"$") {
			return fmt.Errorf("%q is no value of a kernel parameter", v)
		}
		return nil
	}
	s.Read = func(_ context.Context, at Site) (v string, err error) {
		name, err := file(at)
		if err != nil {
			return "", err
		}
		err = at.proc(func(proc *os.Root) (err error) {
			v, err = readFile(proc, name)
			return err
		})
		return v, err
	}
	s.Resolve = func(_ context.Context, _ Site, asked, _ string) (string, error) {
		return strings.Join(strings.Fields(asked), "\t"), nil // as the kernel prints vectors
	}
	s.Write = func(_ context.Context, at Site, value string) error {
		name, err := file(at)
		if err != nil {
			return err
		}
		return at.proc(func(proc *os.Root) error { return writeFile(proc, name, value) })
	}
	if forwarding(key) {
		s.Disturbs = disturbsForwarding(strings.Split(key, ".")[1])
	}
	s.Export = func(port, value string) ([]Exported, error) {
		name := strings.ReplaceAll(key, "{port}", sysctlPort(port))
		if strings.HasPrefix(key, "net.netfilter.") || strings.HasPrefix(key, "net.nf_") || strings.Contains(key, "{port}") { // they come with a module, or a port
			return command(fmt.Sprintf("sysctl -w '%s=%s'", name, value)), nil
		}
		return []Exported{{Kind: Sysctl, Text: name + " = " + value}}, nil
	}
	return s, nil
}

// forwarding says whether a parameter changes that of every port
// (kernel, Documentation/networking/ip-sysctl.rst).
func forwarding(key string) bool {
	return key == "net.ipv4.ip_forward" || key == "net.ipv4.conf.all.forwarding" || key == "net.ipv6.conf.all.forwarding"
}

// disturbsForwarding are the switches of the ports that there are, and of those to come.
func disturbsForwarding(version string) func(context.Context, Site) ([]Ref, error) {
	return func(_ context.Context, at Site) (refs []Ref, err error) {
		err = at.proc(func(proc *os.Root) error {
			entries, err := fs.ReadDir(proc.FS(), "sys/net/"+version+"/conf")
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			for _, e := range entries {
				switch conf := sysctlPrefix + "net." + version + ".conf."; e.Name() {
				case "all":
				case "default":
					refs = append(refs, Ref{Knob: conf + "default.forwarding"})
				default:
					refs = append(refs, Ref{Knob: conf + "{port}.forwarding", Port: e.Name()})
				}
			}
			return nil
		})
		return refs, err
	}
}
