// SPDX-License-Identifier: Apache-2.0

package tune

import (
	"context"
	"fmt"
	"os"

	"boxdyno/host"
)

// How a port's receive work is polled (kernel, Documentation/networking/napi.rst and
// Documentation/ABI/testing/sysfs-class-net).
var (
	threaded = portFile("threaded", "receive work is done by kernel threads (1) instead of softirq (0)", "0, 1", oneOf("0", "1"))

	groFlushTimeout = portFile("gro_flush_timeout", "ns that a poll that found nothing waits before interrupts are on again, with napi_defer_hard_irqs",
		"ns", number(0, 1e9))
	deferHardIRQs = portFile("napi_defer_hard_irqs", "empty polls before interrupts are on again", "a number", number(0, 1<<31-1))
)

// portFile is a knob that is one file of a port in sysfs, of that name.
func portFile(file, doc, values string, check func(string) error) Spec {
	path := func(port string) string { return "class/net/" + port + "/" + file }
	return Spec{
		Name: file, Doc: doc, Values: values, Scope: PerPort, Check: check,
		Read: func(_ context.Context, at Site) (v string, err error) {
			err = at.sys(func(sys *os.Root) (err error) {
				if _, serr := sys.Stat("class/net/" + at.Port); serr != nil {
					return noPort(at.Port)
				}
				v, err = readFile(sys, path(at.Port))
				return err
			})
			return v, err
		},
		Write: func(_ context.Context, at Site, value string) error {
			return at.sys(func(sys *os.Root) error { return writeFile(sys, path(at.Port), value) })
		},
		Export: func(port, value string) ([]Exported, error) {
			return command("/bin/sh -c 'echo " + value + " > /sys/" + path(port) + "'"), nil
		},
	}
}

// machineFiles is a knob that is the same file of several things of the machine, such
// as its CPUs: files are their names in sysfs, all with the value that is asked for.
func machineFiles(s Spec, files func(sys *os.Root) ([]string, error), resolve func(sys *os.Root, file, asked string) (string, error)) Spec {
	s.Scope = PerMachine
	each := func(at Site, f func(sys *os.Root, files []string) error) error {
		return at.sys(func(sys *os.Root) error {
			names, err := files(sys)
			if err != nil {
				return absent(err)
			}
			if len(names) == 0 {
				return fmt.Errorf("%w: this machine has none", host.ErrNotSupported)
			}
			return f(sys, names)
		})
	}
	s.Read = func(_ context.Context, at Site) (text string, err error) {
		err = each(at, func(sys *os.Root, files []string) error {
			var all []string
			for _, f := range files {
				v, err := readFile(sys, f)
				if err != nil {
					return err
				}
				all = append(all, short(f)+"="+v)
			}
			text = uniform(all)
			return nil
		})
		return text, err
	}
	s.Resolve = func(_ context.Context, at Site, asked, _ string) (text string, err error) {
		err = each(at, func(sys *os.Root, files []string) error {
			var all []string
			for _, f := range files {
				v, err := resolve(sys, f, asked)
				if err != nil {
					return err
				}
				all = append(all, short(f)+"="+v)
			}
			text = uniform(all)
			return nil
		})
		return text, err
	}
	s.Write = func(_ context.Context, at Site, value string) error {
		return each(at, func(sys *os.Root, files []string) error {
			for _, f := range files {
				v, ok := eachOf(value, short(f))
				if !ok {
					continue
				}
				if err := writeFile(sys, f, v); err != nil {
					return fmt.Errorf("%s: %w", short(f), err)
				}
			}
			return nil
		})
	}
	return s
}
