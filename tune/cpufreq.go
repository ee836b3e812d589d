// SPDX-License-Identifier: Apache-2.0

package tune

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
)

// Clocks of the CPUs (kernel, Documentation/admin-guide/pm/cpufreq.rst), the same
// for every policy (the CPUs that share a clock).
var (
	governor = machineFiles(Spec{
		Name: "governor", Doc: "how the CPUs' clocks are chosen", Values: "performance, powersave, ondemand, schedutil... as the machine has them",
		Check: word, Export: cpufreqExport("scaling_governor"),
	}, policies("scaling_governor"), func(sys *os.Root, file, asked string) (string, error) {
		have, err := readFile(sys, path.Dir(file)+"/scaling_available_governors")
		if err == nil && !slices.Contains(strings.Fields(have), asked) {
			err = fmt.Errorf("this machine has no governor %s: it has %s", asked, strings.TrimSpace(have))
		}
		return asked, err
	})
	minFrequency = machineFiles(Spec{
		Name: "min-frequency", Doc: "the least clock that the governor may choose", Values: "kHz, min or max",
		Check: frequency, Export: cpufreqExport("scaling_min_freq"),
	}, policies("scaling_min_freq"), limit)
	maxFrequency = machineFiles(Spec{
		Name: "max-frequency", Doc: "the highest clock that the governor may choose", Values: "kHz, min or max",
		Check: frequency, Export: cpufreqExport("scaling_max_freq"),
	}, policies("scaling_max_freq"), limit)
)

func word(v string) error {
	if v == "" || strings.ContainsAny(v, " \t\n/'\"$") {
		return fmt.Errorf("%q is not one word", v)
	}
	return nil
}

func frequency(v string) error {
	if v == "min" || v == "max" {
		return nil
	}
	return number(1, 1<<40)(v)
}

// limit makes min and max the policy's own.
func limit(sys *os.Root, file, asked string) (string, error) {
	if asked != "min" && asked != "max" {
		return asked, nil
	}
	return readFile(sys, path.Dir(file)+"/cpuinfo_"+asked+"_freq")
}

func policies(file string) func(sys *os.Root) ([]string, error) {
	return func(sys *os.Root) ([]string, error) {
		return fs.Glob(sys.FS(), "devices/system/cpu/cpufreq/policy*/"+file)
	}
}

// short is the name of what a file is of: "policy0".
func short(file string) string { return path.Base(path.Dir(file)) }

func cpufreqExport(file string) func(string, string) ([]Exported, error) {
	return func(_, value string) ([]Exported, error) {
		if value == "min" || value == "max" {
			return command("/bin/sh -c 'for p in /sys/devices/system/cpu/cpufreq/policy*; do cat $$p/cpuinfo_" + value + "_freq > $$p/" + file + "; done'"), nil
		}
		return command("/bin/sh -c 'for p in /sys/devices/system/cpu/cpufreq/policy*; do echo " + value + " > $$p/" + file + "; done'"), nil
	}
}
