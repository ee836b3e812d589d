// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"boxdyno/result"
)

// Identify says which machine this is. Kind is "real" or "emulated"; what it
// cannot find out is left empty.
func (l *Local) Identify() result.Machine {
	hypervisor := ""
	if l.Root == nil {
		hypervisor = signature()
	}
	m := identify(l.Files(), hypervisor)
	m.Userland = runtime.GOARCH
	if l.Root != nil {
		return m
	}
	var u unix.Utsname
	if err := unix.Uname(&u); err == nil {
		m.Name, m.Kernel, m.Machine = cstr(u.Nodename[:]), cstr(u.Release[:]), cstr(u.Machine[:])
	}
	m.CPUs = runtime.NumCPU()
	return m
}

// Compatible are the names in the machine's device tree, the closest first; none where
// it has no device tree.
func (l *Local) Compatible() []string {
	data, err := fs.ReadFile(l.Files(), "proc/device-tree/compatible")
	if err != nil {
		return nil
	}
	return strings.FieldsFunc(string(data), func(r rune) bool { return r == 0 })
}

// Files are those of the host that are the same in all its network namespaces.
func (l *Local) Files() fs.FS {
	if l.Root != nil {
		return l.Root
	}
	return os.DirFS("/")
}

func cstr(b []byte) string {
	s, _, _ := strings.Cut(string(b), "\x00")
	return s
}

// line is the first line of a file, "" where it cannot be read.
func line(root fs.FS, name string) string {
	data, err := fs.ReadFile(root, name)
	if err != nil {
		return ""
	}
	s, _, _ := strings.Cut(strings.TrimRight(string(data), "\x00\n"), "\n")
	return strings.TrimSpace(s)
}

// tcg is the signature of QEMU where it computes an x86 processor in software.
const tcg = "TCGTCGTCGTCG"

// emulatedParameter is given to the kernels of emulated boards (script/proof/boards/job).
const emulatedParameter = "boxdyno.emulated=qemu"

// identify knows what a recorded tree shows; hypervisor is the CPU's own signature,
// where it has one.
func identify(root fs.FS, hypervisor string) result.Machine {
	m := result.Machine{
		Kind:   "real",
		Name:   line(root, "proc/sys/kernel/hostname"),
		Kernel: line(root, "proc/sys/kernel/osrelease"),
		BootID: line(root, "proc/sys/kernel/random/boot_id"),
		OS:     osName(root),
	}
	m.Board = line(root, "proc/device-tree/model")
	if m.Board == "" {
		m.Board = strings.TrimSpace(line(root, "sys/class/dmi/id/sys_vendor") + " " + line(root, "sys/class/dmi/id/product_name"))
	}
	cpuinfo(root, &m)
	m.Memory = meminfo(root, "MemTotal")
	if m.Virtual == "" {
		m.Virtual = line(root, "sys/hypervisor/type")
	}
	// QEMU without a hypervisor beneath it computes every instruction in software, and
	// so does its model of a board. On x86 it sets the flag of a hypervisor then, too,
	// and gives itself away by the signature or by the name of its best CPU.
	qemu := strings.Contains(m.Board, "QEMU") || strings.HasPrefix(m.Board, "linux,dummy-virt") || strings.Contains(m.Board, "riscv-virtio")
	// A model of a real board shows itself as that board: there the kernel was told.
	told := slices.Contains(strings.Fields(line(root, "proc/cmdline")), emulatedParameter)
	if qemu && m.Virtual == "" || hypervisor == tcg || strings.HasPrefix(m.CPU, "QEMU TCG CPU") || told {
		m.Kind, m.Virtual = "emulated", "qemu"
	}
	m.NICs = nics(root)
	return m
}

// hypervisors are told by the name of the machine that they show.
var hypervisors = []struct{ in, name string }{
	{"KVM", "kvm"}, {"QEMU", "kvm"}, {"Google Compute", "kvm"}, {"Amazon EC2", "kvm"}, {"Firecracker", "kvm"}, {"VMware", "vmware"},
	{"VirtualBox", "virtualbox"}, {"Microsoft Corporation Virtual", "hyper-v"}, {"Xen", "xen"}, {"Parallels", "parallels"},
}

func cpuinfo(root fs.FS, m *result.Machine) {
	data, err := fs.ReadFile(root, "proc/cpuinfo")
	if err != nil {
		return
	}
	fields := map[string]string{}
	for l := range strings.SplitSeq(string(data), "\n") {
		k, v, _ := strings.Cut(l, ":")
		k, v = strings.TrimSpace(k), strings.TrimSpace(v)
		if k == "processor" {
			m.CPUs++
		}
		if _, ok := fields[k]; !ok && k != "" {
			fields[k] = v
		}
	}
	for _, k := range []string{"model name", "Model", "uarch", "cpu model"} {
		if m.CPU == "" {
			m.CPU = fields[k]
		}
	}
	if m.CPU == "" && fields["CPU part"] != "" {
		m.CPU = "ARM implementer " + fields["CPU implementer"] + " part " + fields["CPU part"]
	}
	if slices.Contains(strings.Fields(fields["flags"]), "hypervisor") {
		m.Virtual = "unknown"
		for _, h := range hypervisors {
			if strings.Contains(m.Board, h.in) {
				m.Virtual = h.name
				break
			}
		}
	}
}

func osName(root fs.FS) string {
	for _, name := range []string{"etc/os-release", "usr/lib/os-release"} {
		data, err := fs.ReadFile(root, name)
		if err != nil {
			continue
		}
		for l := range strings.SplitSeq(string(data), "\n") {
			if v, ok := strings.CutPrefix(l, "PRETTY_NAME="); ok {
				return strings.Trim(v, `"'`)
			}
		}
	}
	return ""
}

// nics lists the interfaces that have a device behind them, with driver and speed.
func nics(root fs.FS) (out []string) {
	entries, err := fs.ReadDir(root, "sys/class/net")
	if err != nil {
		return nil
	}
	for _, e := range entries {
		dir := "sys/class/net/" + e.Name()
		uevent, err := fs.ReadFile(root, dir+"/device/uevent")
		if err != nil {
			continue
		}
		s := e.Name()
		for l := range strings.SplitSeq(string(uevent), "\n") {
			if d, ok := strings.CutPrefix(l, "DRIVER="); ok {
				s += " " + d
			}
		}
		if speed, err := strconv.Atoi(line(root, dir+"/speed")); err == nil && speed > 0 {
			s += fmt.Sprintf(" %d Mbit/s", speed)
		}
		out = append(out, s)
	}
	return out
}

// Environment is what else decides a figure and may change while a run lasts, in
// a fixed order. A setting that this machine does not have is left out.
func (l *Local) Environment() []result.Pair {
	env := environment(l.Files())
	if s := synchronised(); l.Root == nil && s != "" {
		env = append(env, result.Pair{Key: "clock synchronised", Value: s})
	}
	return env
}

func environment(root fs.FS) (out []result.Pair) {
	add := func(key, value string) {
		if value != "" {
			out = append(out, result.Pair{Key: key, Value: value})
		}
	}
	add("clock source", line(root, "sys/devices/system/clocksource/clocksource0/current_clocksource"))
	add("CPUs online", line(root, "sys/devices/system/cpu/online"))
	add("CPUs isolated", line(root, "sys/devices/system/cpu/isolated"))
	add("governor", perCPU(root, "cpufreq/scaling_governor"))
	add("CPU frequency limit", perCPU(root, "cpufreq/scaling_max_freq"))
	add("SMT", line(root, "sys/devices/system/cpu/smt/control"))
	add("turbo", turbo(root))
	add("mitigations", mitigations(root))
	add("transparent huge pages", chosen(line(root, "sys/kernel/mm/transparent_hugepage/enabled")))
	add(BySession, line(root, "proc/sys/kernel/sched_autogroup_enabled"))
	add("BPF JIT", line(root, "proc/sys/net/core/bpf_jit_enable"))
	add("BPF JIT hardening", line(root, "proc/sys/net/core/bpf_jit_harden"))
	add("netdev_budget", line(root, "proc/sys/net/core/netdev_budget"))
	add("netdev_max_backlog", line(root, "proc/sys/net/core/netdev_max_backlog"))
	add("nmi_watchdog", line(root, "proc/sys/kernel/nmi_watchdog"))
	add("throttle events", throttled(root, "core_throttle_count"))
	add("kernel parameters", parameters(line(root, "proc/cmdline")))
	return append(out, setup(root)...)
}

// parameters keeps of a kernel command line what decides figures; the rest says
// more of the machine than a report should.
func parameters(cmdline string) string {
	var keep []string
	for _, w := range strings.Fields(cmdline) {
		k, _, _ := strings.Cut(w, "=")
		switch k {
		case "isolcpus", "nohz_full", "nohz", "rcu_nocbs", "irqaffinity", "threadirqs", "preempt", "mitigations", "nosmt", "maxcpus", "mem",
			"idle", "cpuidle.off", "processor.max_cstate", "intel_idle.max_cstate", "intel_pstate", "amd_pstate", "cpufreq.default_governor",
			"clocksource", "tsc", "iommu", "intel_iommu", "amd_iommu", "hugepages", "default_hugepagesz", "nokaslr", "audit":
			keep = append(keep, w)
		}
	}
	return strings.Join(keep, " ")
}

func turbo(root fs.FS) string {
	off := line(root, "sys/devices/system/cpu/intel_pstate/no_turbo") == "1" || line(root, "sys/devices/system/cpu/cpufreq/boost") == "0"
	on := line(root, "sys/devices/system/cpu/intel_pstate/no_turbo") == "0" || line(root, "sys/devices/system/cpu/cpufreq/boost") == "1"
	switch {
	case off:
		return "off"
	case on:
		return "on"
	}
	return ""
}

// perCPU is one setting of all CPUs: each value that occurs, once.
func perCPU(root fs.FS, file string) string {
	dirs, _ := fs.Glob(root, "sys/devices/system/cpu/cpu[0-9]*")
	var values []string
	for _, d := range dirs {
		if v := line(root, path.Join(d, file)); v != "" && !slices.Contains(values, v) {
			values = append(values, v)
		}
	}
	return strings.Join(values, ", ")
}

// chosen is the word in brackets of "always [madvise] never".
func chosen(s string) string {
	if _, rest, ok := strings.Cut(s, "["); ok {
		s, _, _ = strings.Cut(rest, "]")
	}
	return s
}

// mitigations names the CPU weaknesses that the kernel works around, for the work
// costs every packet.
func mitigations(root fs.FS) string {
	entries, err := fs.ReadDir(root, "sys/devices/system/cpu/vulnerabilities")
	if err != nil {
		return ""
	}
	var on []string
	for _, e := range entries {
		if strings.HasPrefix(line(root, "sys/devices/system/cpu/vulnerabilities/"+e.Name()), "Mitigation") {
			on = append(on, e.Name())
		}
	}
	if len(on) == 0 {
		return "none"
	}
	return strings.Join(on, ", ")
}

// Running is how many threads of the machine run or are ready to, the caller's
// included, at this instant (proc/loadavg).
func (l *Local) Running() (int, error) {
	data, err := fs.ReadFile(l.Files(), "proc/loadavg") // "0.20 0.18 0.12 1/80 11206"
	if err != nil {
		return 0, fmt.Errorf("read how many threads run: %w", err)
	}
	f := strings.Fields(string(data))
	if len(f) < 4 {
		return 0, fmt.Errorf("read how many threads run: /proc/loadavg is %q", data)
	}
	n, _, _ := strings.Cut(f[3], "/")
	running, err := strconv.Atoi(n)
	if err != nil {
		return 0, fmt.Errorf("read how many threads run: /proc/loadavg is %q", data)
	}
	return running, nil
}

// CPUTime is the time of all CPUs since boot, in ticks.
type CPUTime struct{ Total, Idle, Steal uint64 }

// Busy is the share of all CPUs' time, within d from now, that was not idle.
func (l *Local) Busy(ctx context.Context, d time.Duration) (share float64, err error) {
	before, err := l.CPUTime()
	if err != nil {
		return 0, err
	}
	if err := Pause(ctx, d); err != nil {
		return 0, err
	}
	now, err := l.CPUTime()
	if err == nil {
		share, _ = now.Since(before)
	}
	return share, err
}

// CPUTime reads proc/stat. Idle includes waiting for disks.
func (l *Local) CPUTime() (CPUTime, error) {
	var t CPUTime
	data, err := fs.ReadFile(l.Files(), "proc/stat")
	if err != nil {
		return t, fmt.Errorf("read CPU times: %w", err)
	}
	first, _, _ := strings.Cut(string(data), "\n")
	f := strings.Fields(first)
	if len(f) < 9 || f[0] != "cpu" {
		return t, fmt.Errorf("read CPU times: /proc/stat begins with %q", first)
	}
	ticks, err := ticksOf(f)
	for _, n := range ticks {
		t.Total += n
	}
	t.Idle, t.Steal = ticks[3]+ticks[4], ticks[7]
	return t, err
}

// ticksOf are those of a line of proc/stat: user nice system idle iowait irq softirq
// steal; guest is in user.
func ticksOf(f []string) (t [8]uint64, err error) {
	for i := range t {
		if t[i], err = strconv.ParseUint(f[1+i], 10, 64); err != nil {
			return t, fmt.Errorf("read CPU times: %w", err)
		}
	}
	return t, nil
}

// Since is the share of the time from before to t that CPUs were busy, and that
// the hypervisor took, in [0, 1].
func (t CPUTime) Since(before CPUTime) (busy, steal float64) {
	total := float64(t.Total) - float64(before.Total)
	if total <= 0 {
		return 0, 0
	}
	busy = (total - (float64(t.Idle) - float64(before.Idle))) / total
	steal = (float64(t.Steal) - float64(before.Steal)) / total
	return min(max(busy, 0), 1), min(max(steal, 0), 1)
}
