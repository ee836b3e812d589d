// SPDX-License-Identifier: Apache-2.0

package host

import (
	"math"
	"slices"
	"testing"
	"testing/fstest"

	"boxdyno/result"
)

func tree(files map[string]string) fstest.MapFS {
	m := fstest.MapFS{}
	for name, s := range files {
		m[name] = &fstest.MapFile{Data: []byte(s)}
	}
	return m
}

func TestIdentifyBoards(t *testing.T) {
	pi := (&Local{Root: tree(map[string]string{
		"proc/device-tree/model":                "Raspberry Pi 4 Model B Rev 1.4\x00",
		"proc/cpuinfo":                          "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd08\n\nprocessor\t: 1\nCPU implementer\t: 0x41\nCPU part\t: 0xd08\n",
		"proc/meminfo":                          "MemTotal:        3884360 kB\nMemFree: 1 kB\n",
		"proc/sys/kernel/hostname":              "pi\n",
		"proc/sys/kernel/osrelease":             "6.12.25+rpt-rpi-v8\n",
		"proc/sys/kernel/random/boot_id":        "b-1\n",
		"etc/os-release":                        "ID=debian\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n",
		"sys/class/net/eth0/device/uevent":      "DRIVER=bcmgenet\nOF_NAME=ethernet\n",
		"sys/class/net/eth0/speed":              "1000\n",
		"sys/class/net/lo/operstate":            "unknown\n",
		"sys/class/net/wlan0/device/uevent":     "DRIVER=brcmfmac\n",
		"sys/devices/system/cpu/cpu0/cpufreq/x": "",
	})}).Identify()
	if pi.Board != "Raspberry Pi 4 Model B Rev 1.4" || pi.CPU != "ARM implementer 0x41 part 0xd08" || pi.CPUs != 2 || pi.Memory != 3884360*1024 ||
		pi.Name != "pi" || pi.Kind != "real" || pi.Virtual != "" || pi.OS != "Debian GNU/Linux 12 (bookworm)" || pi.BootID != "b-1" {
		t.Errorf("the Pi is %+v", pi)
	}
	if want := []string{"eth0 bcmgenet 1000 Mbit/s", "wlan0 brcmfmac"}; !slices.Equal(pi.NICs, want) {
		t.Errorf("its NICs are %q, want %q", pi.NICs, want)
	}
	// QEMU's model of a Raspberry Pi, as Debian's kernel shows it.
	model := identify(tree(map[string]string{
		"proc/device-tree/model": "Raspberry Pi 3 Model B\x00", "proc/cpuinfo": "processor: 0\nCPU implementer: 0x41\nCPU part: 0xd03\n",
		"proc/cmdline": "console=ttyS1 boxdyno.emulated=qemu\n",
	}), "")
	if model.Kind != "emulated" || model.Virtual != "qemu" || model.Board != "Raspberry Pi 3 Model B" {
		t.Errorf("a kernel that was told that it is emulated: %+v", model)
	}
	for _, c := range []struct{ vendor, cpu, flags, signature, virtual, kind string }{
		{"QEMU", "X", "fpu hypervisor", "", "kvm", "real"},
		{"QEMU", "X", "fpu hypervisor", "KVMKVMKVM", "kvm", "real"},
		{"QEMU", "X", "fpu", "", "qemu", "emulated"},
		{"QEMU", "QEMU Virtual CPU version 2.5+", "fpu hypervisor", "TCGTCGTCGTCG", "qemu", "emulated"},
		{"QEMU", "QEMU TCG CPU version 2.5+", "fpu hypervisor", "", "qemu", "emulated"},
		{"LENOVO", "X", "fpu", "", "", "real"},
		{"Nobody", "X", "fpu hypervisor", "", "unknown", "real"},
	} {
		m := identify(tree(map[string]string{"sys/class/dmi/id/sys_vendor": c.vendor + "\n", "sys/class/dmi/id/product_name": "PC\n",
			"proc/cpuinfo": "processor: 0\nmodel name: " + c.cpu + "\nflags: " + c.flags + "\n"}), c.signature)
		if m.Virtual != c.virtual || m.Kind != c.kind || m.CPU != c.cpu || m.Board != c.vendor+" PC" {
			t.Errorf("%s with %q and %q is %+v", c.vendor, c.flags, c.signature, m)
		}
	}
}

func TestEnvironment(t *testing.T) {
	env := environment(tree(map[string]string{
		"sys/devices/system/clocksource/clocksource0/current_clocksource": "tsc\n",
		"sys/devices/system/cpu/cpu0/cpufreq/scaling_governor":            "powersave\n",
		"sys/devices/system/cpu/cpu1/cpufreq/scaling_governor":            "performance\n",
		"sys/devices/system/cpu/intel_pstate/no_turbo":                    "1\n",
		"sys/devices/system/cpu/vulnerabilities/meltdown":                 "Mitigation: PTI\n",
		"sys/devices/system/cpu/vulnerabilities/srbds":                    "Not affected\n",
		"proc/cmdline": "root=/dev/sda1 isolcpus=2,3 quiet mitigations=off secret=x\n",
		"sys/kernel/mm/transparent_hugepage/enabled":                       "always [madvise] never\n",
		"sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count": "3\n",
		"sys/devices/system/cpu/cpu1/thermal_throttle/core_throttle_count": "4\n",
	}))
	for k, want := range map[string]string{"clock source": "tsc", "governor": "powersave, performance", "turbo": "off", "mitigations": "meltdown",
		"transparent huge pages": "madvise", "throttle events": "7", "kernel parameters": "isolcpus=2,3 mitigations=off", "SMT": ""} {
		if got := result.Get(env, k); got != want {
			t.Errorf("%s is %q, want %q", k, got, want)
		}
	}
}

func TestRunning(t *testing.T) {
	for data, want := range map[string]int{"0.20 0.18 0.12 3/80 11206\n": 3, "0.20 0.18 0.12 x/80 1": 0, "0.20": 0, "": 0} {
		n, err := (&Local{Root: fstest.MapFS{"proc/loadavg": {Data: []byte(data)}}}).Running()
		if n != want || (err == nil) != (want > 0) {
			t.Errorf("%q: %d, %v", data, n, err)
		}
	}
	if n, err := (&Local{}).Running(); err != nil || n < 1 {
		t.Errorf("here: %d, %v", n, err)
	}
}

func TestCPUTime(t *testing.T) {
	read := func(stat string) CPUTime {
		c, err := (&Local{Root: tree(map[string]string{"proc/stat": stat})}).CPUTime()
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	before := read("cpu  100 0 100 1000 0 0 0 0 50 0\ncpu0 1 2\n")
	after := read("cpu  110 0 120 1150 10 0 0 10 90 0\n")
	busy, steal := after.Since(before)
	if math.Abs(busy-0.2) > 1e-9 || math.Abs(steal-0.05) > 1e-9 {
		t.Errorf("busy %v, steal %v: want 0.2 and 0.05", busy, steal)
	}
	if b, s := before.Since(before); b != 0 || s != 0 {
		t.Errorf("over no time: %v, %v", b, s)
	}
	if _, err := (&Local{Root: tree(map[string]string{"proc/stat": "cpu 1\n"})}).CPUTime(); err == nil {
		t.Error("a short line is accepted")
	}
}

func TestThisMachine(t *testing.T) {
	m := (&Local{}).Identify()
	if m.Kernel == "" || m.Machine == "" || m.CPUs < 1 || m.Memory == 0 || m.BootID == "" {
		t.Errorf("this machine is %+v", m)
	}
}
