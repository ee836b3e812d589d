// SPDX-License-Identifier: Apache-2.0

package host

import (
	"encoding/binary"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"boxdyno/result"
)

// What a machine is and how it is set up, as its files say it: keys of Environment.
// A file that is not there leaves its key out.

// Drifting are keys whose values move by themselves: that they differ after a run
// is no change of a setting.
var Drifting = []string{"clock claimed", "clock measured", "swap used"}

// BySession is the key that says whether the kernel deals CPU time to sessions first ("1"),
// and to the programs of each only then (autogroup). A program's nice value counts in its
// session alone.
const BySession = "CPU time by session"

func setup(root fs.FS) (out []result.Pair) {
	add := func(key, value string) {
		if value != "" {
			out = append(out, result.Pair{Key: key, Value: value})
		}
	}
	add("firmware", firmware(root))
	add("microcode", microcode(root))
	add("device tree", strings.ReplaceAll(nulText(root, "proc/device-tree/compatible"), "\x00", " "))
	add("width", width(root))
	add("scaling driver", perCPU(root, "cpufreq/scaling_driver"))
	add("clock claimed", claimed(root))
	add("package throttle events", throttled(root, "package_throttle_count"))
	add("idle states", idleStates(root))
	add("huge pages", line(root, "proc/sys/vm/nr_hugepages"))
	used, total := swap(root)
	add("swap", total)
	add("swap used", used)
	add("power supply", supply(root))
	add("irqbalance", running(root, "irqbalance"))
	add("time daemon", timeDaemons(root))
	return out
}

func nulText(root fs.FS, name string) string {
	data, _ := fs.ReadFile(root, name)
	return strings.TrimRight(string(data), "\x00\n")
}

// firmware is a PC's BIOS or a Raspberry Pi's boot loader.
func firmware(root fs.FS) string {
	const dmi = "sys/class/dmi/id/bios_"
	var words []string
	for _, f := range []string{"vendor", "version", "date"} {
		if s := line(root, dmi+f); s != "" {
			words = append(words, s)
		}
	}
	const loader = "proc/device-tree/chosen/bootloader/"
	if v := nulText(root, loader+"version"); v != "" {
		words = append(words, "boot loader "+v)
	}
	return strings.Join(words, " ")
}

func microcode(root fs.FS) string {
	data, _ := fs.ReadFile(root, "proc/cpuinfo")
	for l := range strings.Lines(string(data)) {
		if k, v, ok := strings.Cut(l, ":"); ok && strings.TrimSpace(k) == "microcode" {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// width tells a kernel of 64 bit with programs of 32, as some boards are delivered,
// from others: the programs' by the ELF class of the shell.
func width(root fs.FS) string {
	var words []string
	if arch := line(root, "proc/sys/kernel/arch"); arch != "" { // Linux 6.1
		bits := "32"
		if strings.Contains(arch, "64") || arch == "s390x" {
			bits = "64"
		}
		words = append(words, "kernel "+bits+" bit")
	}
	for _, shell := range []string{"bin/sh", "usr/bin/sh", "bin/busybox"} {
		f, err := root.Open(shell)
		if err != nil {
			continue
		}
		head := make([]byte, 5)
		_, err = f.Read(head)
		f.Close()
		if err == nil && string(head[:4]) == "\x7fELF" && (head[4] == 1 || head[4] == 2) {
			words = append(words, fmt.Sprintf("programs %d bit", 32*int(head[4])))
			break
		}
	}
	return strings.Join(words, ", ")
}

// claimed is the range of what cpufreq, or cpuinfo, says of the CPUs' clocks.
func claimed(root fs.FS) string {
	var hz []float64
	files, _ := fs.Glob(root, "sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_cur_freq")
	for _, f := range files {
		if khz, err := strconv.ParseFloat(line(root, f), 64); err == nil {
			hz = append(hz, khz*1e3)
		}
	}
	if len(hz) == 0 {
		data, _ := fs.ReadFile(root, "proc/cpuinfo")
		for l := range strings.Lines(string(data)) {
			k, v, _ := strings.Cut(l, ":")
			if mhz, err := strconv.ParseFloat(strings.TrimSpace(v), 64); err == nil && strings.TrimSpace(k) == "cpu MHz" {
				hz = append(hz, mhz*1e6)
			}
		}
	}
	return Clocks(hz)
}

// Clocks are clocks in Hz in words: "1.50 GHz", "1.50 to 2.40 GHz"; "" for none.
func Clocks(hz []float64) string {
	if len(hz) == 0 {
		return ""
	}
	lo, hi := fmt.Sprintf("%.2f", slices.Min(hz)/1e9), fmt.Sprintf("%.2f GHz", slices.Max(hz)/1e9)
	if lo+" GHz" == hi {
		return hi
	}
	return lo + " to " + hi
}

// throttled is how often CPUs slowed down for heat since boot (x86 counts it).
func throttled(root fs.FS, name string) string {
	files, _ := fs.Glob(root, "sys/devices/system/cpu/cpu[0-9]*/thermal_throttle/"+name)
	if len(files) == 0 {
		return ""
	}
	sum := 0
	for _, f := range files {
		n, _ := strconv.Atoi(line(root, f))
		sum += n
	}
	return strconv.Itoa(sum)
}

// idleStates are the first CPU's, those that are switched off in brackets.
func idleStates(root fs.FS) string {
	names, _ := fs.Glob(root, "sys/devices/system/cpu/cpu0/cpuidle/state*/name")
	var words []string
	for _, n := range names {
		w := line(root, n)
		if line(root, path.Dir(n)+"/disable") == "1" {
			w = "[" + w + "]"
		}
		words = append(words, w)
	}
	driver := line(root, "sys/devices/system/cpu/cpuidle/current_driver")
	if len(words) == 0 {
		return ""
	}
	return strings.TrimSpace(driver + ": " + strings.Join(words, " "))
}

// swap says how much is used and how much there is, in MiB; compressed memory
// (zram) is told by its name.
func swap(root fs.FS) (used, total string) {
	data, err := fs.ReadFile(root, "proc/swaps")
	if err != nil {
		return "", ""
	}
	var u, t uint64
	var on []string
	for i, l := range strings.Split(strings.TrimSpace(string(data)), "\n") {
		f := strings.Fields(l) // Filename Type Size Used Priority
		if i == 0 || len(f) != 5 {
			continue
		}
		size, _ := strconv.ParseUint(f[2], 10, 64)
		n, _ := strconv.ParseUint(f[3], 10, 64)
		t, u = t+size, u+n
		on = append(on, f[0])
	}
	if len(on) == 0 {
		return "", "none"
	}
	return fmt.Sprintf("%d MiB", (u+1023)/1024), fmt.Sprintf("%d MiB on %s", t/1024, strings.Join(on, " "))
}

// supply is what batteries and mains say, and what a Raspberry Pi 5 has agreed on
// with its supply.
func supply(root fs.FS) string {
	var words []string
	dirs, _ := fs.Glob(root, "sys/class/power_supply/*")
	for _, d := range dirs {
		name := path.Base(d)
		switch online, status := line(root, d+"/online"), line(root, d+"/status"); {
		case line(root, d+"/scope") == "Device": // a mouse's
		case status != "":
			words = append(words, name+" "+strings.ToLower(status))
		case online == "1":
			words = append(words, name+" online")
		case online == "0":
			words = append(words, name+" offline")
		}
	}
	if data, err := fs.ReadFile(root, "proc/device-tree/chosen/power/max_current"); err == nil && len(data) == 4 {
		words = append(words, fmt.Sprintf("offers %d mA", binary.BigEndian.Uint32(data)))
	}
	return strings.Join(words, ", ")
}

// running says whether a process of the name runs; "" where processes cannot be
// seen.
func running(root fs.FS, name string) string {
	names, _ := fs.Glob(root, "proc/[0-9]*/comm")
	if len(names) == 0 {
		return ""
	}
	if slices.ContainsFunc(names, func(f string) bool { return line(root, f) == name }) {
		return "running"
	}
	return "not running"
}

// timeDaemons are those that may step or slew the machine's clock.
func timeDaemons(root fs.FS) string {
	which := []string{"chronyd", "ntpd", "openntpd", "systemd-timesyn", "ptp4l", "phc2sys"} // as comm cuts them off
	names, _ := fs.Glob(root, "proc/[0-9]*/comm")
	if len(names) == 0 {
		return ""
	}
	var found []string
	for _, f := range names {
		if c := line(root, f); slices.Contains(which, c) && !slices.Contains(found, c) {
			found = append(found, c)
		}
	}
	if len(found) == 0 {
		return "none"
	}
	slices.Sort(found)
	return strings.Join(found, " ")
}

// synchronised says whether the kernel's clock is kept by somebody (adjtimex(2)).
func synchronised() string {
	var t unix.Timex
	state, err := unix.Adjtimex(&t)
	switch {
	case err != nil:
		return ""
	case state == 5 || t.Status&unix.STA_UNSYNC != 0: // TIME_ERROR
		return "no"
	}
	return "yes"
}
