// SPDX-License-Identifier: Apache-2.0

package host

import (
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// A Temperature is what one sensor says.
type Temperature struct {
	Sensor  string // "cpu-thermal", "coretemp temp1"
	Celsius float64
}

// Resources are what a machine has at the moment.
type Resources struct {
	Temperatures []Temperature `json:"temperatures,omitempty"`
	Memory       uint64        `json:"memory"`         // available octets; 0: not known
	CPUs         []int         `json:"cpus,omitempty"` // that this process may use
}

// Resources reads them.
func (l *Local) Resources() (r Resources) {
	r.Temperatures, r.Memory = l.Temperatures(), l.MemoryAvailable()
	r.CPUs, _ = AllowedCPUs() // nil: not known
	return r
}

// Temperatures are those of the machine's thermal zones and hwmon chips
// (Documentation/driver-api/thermal/sysfs-api.rst, Documentation/hwmon/sysfs-interface.rst).
// A sensor that does not answer is left out; nil: there is none.
func (l *Local) Temperatures() (out []Temperature) {
	_ = l.View(func(root fs.FS) error {
		text := func(file string) string {
			b, _ := fs.ReadFile(root, file) // absent is ""
			return strings.TrimSpace(string(b))
		}
		for _, kind := range []struct{ files, name, suffix string }{
			{"sys/class/thermal/thermal_zone*/temp", "type", ""},
			{"sys/class/hwmon/hwmon*/temp*_input", "name", "_input"},
		} {
			files, _ := fs.Glob(root, kind.files) // the pattern is good
			for _, file := range files {
				milli, err := strconv.ParseFloat(text(file), 64)
				if err != nil {
					continue
				}
				name := text(path.Join(path.Dir(file), kind.name))
				if kind.suffix != "" {
					name += " " + strings.TrimSuffix(path.Base(file), kind.suffix)
				}
				out = append(out, Temperature{strings.TrimSpace(name), milli / 1000})
			}
		}
		return nil
	})
	return out
}
