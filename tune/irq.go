// SPDX-License-Identifier: Apache-2.0

package tune

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"boxdyno/host"
)

// irqAffinity says which CPUs a port's interrupts come to (kernel,
// Documentation/core-api/irq/irq-affinity.rst). Interrupts are the machine's, and
// irqbalance may move them: switch it off first.
var irqAffinity = Spec{
	Name: "irq-affinity", Doc: "CPUs that the port's interrupts come to; irqbalance would move them again",
	Values: "CPUs, such as 2 or 0-3, for every interrupt; spread: one CPU each, in turn", Scope: PerPort,
	Check: func(v string) error {
		if v == "spread" {
			return nil
		}
		if cpus, err := parseCPUs(v); err != nil || len(cpus) == 0 {
			return fmt.Errorf("%q is no list of CPUs, such as 0-3, and not spread", v)
		}
		return nil
	},
	Read: func(_ context.Context, at Site) (text string, err error) {
		irqs, err := irqsOf(at)
		if err != nil {
			return "", err
		}
		err = at.proc(func(proc *os.Root) error {
			var each []string
			for _, n := range irqs {
				v, err := readFile(proc, affinity(n))
				if err != nil {
					return err
				}
				each = append(each, n+"="+v)
			}
			text = uniform(each)
			return nil
		})
		return text, err
	},
	Resolve: func(_ context.Context, at Site, asked, _ string) (string, error) {
		if asked != "spread" {
			cpus, err := parseCPUs(asked)
			return formatCPUs(cpus), err
		}
		irqs, err := irqsOf(at)
		if err != nil {
			return "", err
		}
		cpus, err := presentCPUs()
		if err != nil {
			return "", err
		}
		var each []string
		for i, n := range irqs {
			each = append(each, n+"="+strconv.Itoa(i%cpus))
		}
		return uniform(each), nil
	},
	Write: func(_ context.Context, at Site, value string) error {
		irqs, err := irqsOf(at)
		if err != nil {
			return err
		}
		return at.proc(func(proc *os.Root) (all error) {
			for _, n := range irqs {
				v, ok := eachOf(value, n)
				if !ok {
					continue
				}
				now, err := readFile(proc, affinity(n))
				if err == nil && now != v {
					err = writeFile(proc, affinity(n), v)
				}
				if errors.Is(err, unix.EIO) || errors.Is(err, unix.EINVAL) { // a managed interrupt, or CPUs that are off
					err = fmt.Errorf("interrupt %s: %w: the kernel manages it itself, or has no such CPU (%v)", n, host.ErrNotSupported, err)
				}
				all = errors.Join(all, err)
			}
			return all
		})
	},
	Export: func(port, value string) ([]Exported, error) {
		next := "" // which CPU an interrupt gets
		if value == "spread" {
			value, next = "$$c", "; c=$$(( (c+1) %% $$(nproc) ))"
		}
		return command(fmt.Sprintf("/bin/sh -c 'c=0; d=/sys/class/net/%s/device; case $$(readlink $$d) in */virtio*) d=$$d/..;; esac; for i in $$d/msi_irqs/*; do echo %s > /proc/irq/$${i##*/}/smp_affinity_list%s; done'", port, value, next)), nil
	},
}

func affinity(irq string) string { return "irq/" + irq + "/smp_affinity_list" }

// irqsOf are the numbers of a port's interrupts, lowest first: its device's message
// signalled ones, those of the bus device around a virtio one, or its only wired one.
func irqsOf(at Site) (irqs []string, err error) {
	err = at.sys(func(sys *os.Root) error {
		if _, err := sys.Stat("class/net/" + at.Port); err != nil {
			return noPort(at.Port)
		}
		dev := device(sys, at.Port)
		entries, err := fs.ReadDir(sys.FS(), dev+"/msi_irqs")
		for _, e := range entries {
			irqs = append(irqs, e.Name())
		}
		if err == nil && len(irqs) > 0 {
			return nil
		}
		if n, err := readFile(sys, dev+"/irq"); err == nil && n != "0" {
			irqs = append(irqs, n)
			return nil
		}
		return fmt.Errorf("%w: no interrupts of the port are to be found", host.ErrNotSupported)
	})
	slices.SortFunc(irqs, func(a, b string) int {
		x, _ := strconv.Atoi(a)
		y, _ := strconv.Atoi(b)
		return x - y
	})
	return irqs, err
}

// device is a port's device on its bus, below sys; of a virtio one the device around it.
func device(sys *os.Root, port string) string {
	at, err := sys.Readlink("class/net/" + port)
	if err != nil {
		return "class/net/" + port + "/device"
	}
	at = path.Join("class/net", at)
	to, err := sys.Readlink(at + "/device")
	if err != nil {
		return at + "/device"
	}
	dev := path.Join(at, to)
	if strings.HasPrefix(path.Base(dev), "virtio") {
		dev = path.Dir(dev)
	}
	return dev
}
