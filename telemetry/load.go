// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"io/fs"

	"boxdyno/result"
)

// newLoad reads /proc/loadavg. The kernel computes it every 5 s.
var newLoad = one("proc/loadavg", func(fs.FS, []byte) ([]result.Series, func([]byte, []float64) error, error) {
	const help = "mean number of tasks that run, could run or wait for a disk, over the last "
	return []result.Series{
		{Name: "node_load1", Unit: "1", Help: help + "minute"},
		{Name: "node_load5", Unit: "1", Help: help + "5 minutes"},
		{Name: "node_load15", Unit: "1", Help: help + "15 minutes"},
	}, parseLoad, nil
})

func parseLoad(data []byte, dst []float64) error {
	text := scan(data)
	whole, _ := text.line()
	for i, l := 0, whole; i < 3; i++ {
		v, ok := decimals(l.field())
		if !ok {
			return malformed(whole)
		}
		dst[i] = v
	}
	return nil
}
