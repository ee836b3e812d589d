// SPDX-License-Identifier: Apache-2.0

package host

import (
	"cmp"
	"io/fs"
	"slices"
	"strconv"
	"strings"
)

// A CoreType is the CPUs of one kind of core.
type CoreType struct {
	Name string // "core" and "atom" of Intel's hybrids, "0xd0b" (the CPU part) of Arm's; "" where the machine has one type
	CPUs []int  // first one hardware thread of each core, then their second ones
}

// CoreTypes are the kinds of cores among cpus, the most capable first: of Intel's
// hybrids as the kernel's two counters of events tell them, of Arm's big.LITTLE by the
// CPU part. Two cores of one kind that differ in their highest clock are one type.
func (l *Local) CoreTypes(cpus []int) []CoreType { return coreTypes(l.Files(), cpus) }

func coreTypes(root fs.FS, cpus []int) (types []CoreType) {
	kind := map[int]string{}
	for _, name := range []string{"core", "atom"} {
		for _, c := range ParseCPUs(line(root, "sys/devices/cpu_"+name+"/cpus")) {
			kind[c] = name
		}
	}
	if len(kind) == 0 {
		kind = cpuParts(root)
	}
	for _, c := range byCore(root, cpus) {
		i := slices.IndexFunc(types, func(t CoreType) bool { return t.Name == kind[c] })
		if i < 0 {
			i = len(types)
			types = append(types, CoreType{Name: kind[c]})
		}
		types[i].CPUs = append(types[i].CPUs, c)
	}
	if len(types) == 1 {
		types[0].Name = ""
	}
	slices.SortStableFunc(types, func(a, b CoreType) int {
		return cmp.Compare(capacity(root, b.CPUs[0]), capacity(root, a.CPUs[0]))
	})
	return types
}

// cpuParts are the CPU parts that /proc/cpuinfo of Arm names.
func cpuParts(root fs.FS) map[int]string {
	parts := map[int]string{}
	data, _ := fs.ReadFile(root, "proc/cpuinfo") // without it there is one type
	cpu := -1
	for l := range strings.Lines(string(data)) {
		key, value, _ := strings.Cut(l, ":")
		switch strings.TrimSpace(key) {
		case "processor":
			cpu, _ = strconv.Atoi(strings.TrimSpace(value))
		case "CPU part":
			parts[cpu] = strings.TrimSpace(value)
		}
	}
	return parts
}

// byCore puts the first hardware threads of all cores before the second ones, and the
// last cores first: interrupts mostly come to the first CPU.
func byCore(root fs.FS, cpus []int) []int {
	nth := map[int]int{}
	for _, c := range cpus {
		for i, s := range ParseCPUs(line(root, "sys/devices/system/cpu/cpu"+strconv.Itoa(c)+"/topology/thread_siblings_list")) {
			if s == c {
				nth[c] = i
			}
		}
	}
	out := slices.Clone(cpus)
	slices.SortStableFunc(out, func(a, b int) int { return cmp.Or(cmp.Compare(nth[a], nth[b]), cmp.Compare(b, a)) })
	return out
}

// capacity is how much a CPU is said to do in a time, in no unit.
func capacity(root fs.FS, cpu int) float64 {
	dir := "sys/devices/system/cpu/cpu" + strconv.Itoa(cpu)
	for _, file := range []string{"/cpu_capacity", "/cpufreq/cpuinfo_max_freq"} {
		if v, err := strconv.ParseFloat(line(root, dir+file), 64); err == nil {
			return v
		}
	}
	return 0
}

// mostCPUs is more than any kernel is built for.
const mostCPUs = 8192

// ParseCPUs reads a list of CPUs as the kernel writes it, "0-3,8"; what is no list is
// nil.
func ParseCPUs(list string) (cpus []int) {
	for _, part := range strings.Split(list, ",") {
		from, to, isRange := strings.Cut(part, "-")
		if !isRange {
			to = from
		}
		a, err := strconv.Atoi(strings.TrimSpace(from))
		b, err2 := strconv.Atoi(strings.TrimSpace(to))
		if err != nil || err2 != nil || a < 0 || b < a || b >= mostCPUs {
			return nil
		}
		for c := a; c <= b; c++ {
			cpus = append(cpus, c)
		}
	}
	return cpus
}

// Words are CPUs as parameters and records name them: "0+2+3".
func Words(cpus []int) string {
	var words []string
	for _, c := range cpus {
		words = append(words, strconv.Itoa(c))
	}
	return strings.Join(words, "+")
}
