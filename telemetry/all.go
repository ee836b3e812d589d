// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"errors"
	"slices"
)

// ErrAbsent is the answer of a collector that finds nothing to read on a machine.
var ErrAbsent = errors.New("nothing to read")

// All is every collector; each stands in a file of its own. It is a function: a program that
// reads sensors alone is smaller without meters, and HTTP for one of them.
func All() []Spec { return slices.Concat(sensors, meters) }

// meters read what the user gave.
var meters = []Spec{
	{Name: "plug", Doc: "a smart plug: Shelly, Tasmota", Default: true, New: newPlug},
	{Name: "meter", Doc: "a command that prints watts", Default: true, New: newMeter},
	{Name: "reading", Doc: "a power that was read and typed in", Every: 10, Default: true, New: newReading},
}

// sensors read what a machine has of its own.
var sensors = []Spec{
	{Name: "cpu", Doc: "time of each CPU by what it did, interrupts, context switches (/proc/stat)", Default: true, New: newCPUTime},
	{Name: "softnet", Doc: "frames received, lost in the backlog and cut short by the budget, per CPU", Default: true, New: newSoftnet},
	{Name: "softirqs", Doc: "deferred work, per CPU and kind", Default: true, New: newSoftIRQs},
	{Name: "interrupts", Doc: "interrupts of NICs and others that move, per CPU", Every: 5, Default: true, New: newInterrupts},
	{Name: "interfaces", Doc: "counters of interfaces, per namespace", Default: true, New: newInterfaces},
	{Name: "ethtool", Doc: "counters of drivers for losses and queues, per namespace (ethtool -S)", Every: 10, Default: true, New: newDriverStats},
	{Name: "qdisc", Doc: "queueing disciplines: drops, backlog, requeues; drops of tc", Every: 2, Default: true, New: newQueues},
	{Name: "protocols", Doc: "losses of IP, UDP and TCP, per namespace", Every: 5, Default: true, New: newProtocols},
	{Name: "conntrack", Doc: "connection tracking: entries, limit, losses, per namespace", Every: 2, Default: true, New: newConntrack},
	{Name: "sockets", Doc: "sockets and packet sockets, per namespace", Every: 5, Default: true, New: newSockets},
	{Name: "pressure", Doc: "pressure stall information", Every: 10, Default: true, New: newPressure},
	{Name: "memory", Doc: "memory, swap, processes killed", Every: 10, Default: true, New: newMemory},
	{Name: "disks", Doc: "block I/O", Every: 5, Default: true, New: newDisks},
	{Name: "cgroup", Doc: "CPU time, throttling and memory of the own control group", Every: 5, Default: true, New: newCgroup},
	{Name: "load", Doc: "load average", Every: 10, Default: true, New: newLoad},
	{Name: "cpufreq", Doc: "clock that cpufreq claims", Every: 2, Default: true, New: newCPUFreq},
	{Name: "residency", Doc: "time that CPUs were at each clock (cpufreq)", Every: 10, Default: true, New: newResidency},
	{Name: "throttles", Doc: "throttle events of x86 cores and packages", Every: 10, Default: true, New: newThrottles},
	{Name: "thermal", Doc: "thermal zones and cooling devices", Every: 5, Default: true, New: newThermal},
	{Name: "hwmon", Doc: "temperatures, fans, voltages, currents and power of hwmon chips", Default: true, New: newHwmon},
	{Name: "iio", Doc: "power meters of IIO (INA2xx)", Default: true, New: newIIO},
	{Name: "rapl", Doc: "energy of x86 packages (RAPL)", Default: true, New: newRAPL},
	{Name: "rpi", Doc: "throttle and under-voltage flags of a Raspberry Pi", Every: 5, Default: true, New: newThrottle},
	{Name: "pmic", Doc: "rails of a Raspberry Pi 5's PMIC", Default: true, New: newPMIC},
}
