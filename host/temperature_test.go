// SPDX-License-Identifier: Apache-2.0

package host

import (
	"fmt"
	"testing"
	"testing/fstest"
)

// The tree is made up after the kernel's documentation.
func TestTemperatures(t *testing.T) {
	tree := fstest.MapFS{}
	for name, text := range map[string]string{
		"thermal/thermal_zone0/temp": "48312\n", "thermal/thermal_zone0/type": "cpu-thermal\n",
		"thermal/thermal_zone1/temp": "", "thermal/thermal_zone1/type": "dead\n",
		"hwmon/hwmon0/name": "coretemp\n", "hwmon/hwmon0/temp1_input": "71000\n", "hwmon/hwmon0/temp1_max": "100000\n",
		"hwmon/hwmon0/in0_input": "12000\n", "hwmon/hwmon1/name": "freezer\n", "hwmon/hwmon1/temp2_input": "-5500\n",
	} {
		tree["sys/class/"+name] = &fstest.MapFile{Data: []byte(text)}
	}
	got := fmt.Sprint((&Local{Root: tree}).Temperatures())
	if want := "[{cpu-thermal 48.312} {coretemp temp1 71} {freezer temp2 -5.5}]"; got != want {
		t.Errorf("temperatures are %s, not %s", got, want)
	}
	if got := (&Local{Root: fstest.MapFS{}}).Temperatures(); got != nil {
		t.Errorf("a machine without sensors has %v", got)
	}
}
