// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"io/fs"
	"strings"

	"boxdyno/result"
	"boxdyno/unit"
)

// diskColumns are those behind the name in /proc/diskstats
// (Documentation/admin-guide/iostats.rst): 11 of them, 15 since Linux 4.18, 17 since
// 5.5. A sector has 512 octets, whatever the disk's are. Times are in ms.
var diskColumns = []struct {
	name  string
	unit  unit.Symbol
	scale float64
	gauge bool
	help  string
}{
	{"reads_completed_total", "1", 1, false, "reads completed"},
	{"reads_merged_total", "1", 1, false, "reads merged with others"},
	{"read_bytes_total", bytesUnit, 512, false, "octets read"},
	{"read_time_seconds_total", "s", 1e-3, false, "time of all reads"},
	{"writes_completed_total", "1", 1, false, "writes completed"},
	{"writes_merged_total", "1", 1, false, "writes merged with others"},
	{"written_bytes_total", bytesUnit, 512, false, "octets written"},
	{"write_time_seconds_total", "s", 1e-3, false, "time of all writes"},
	{"io_now", "1", 1, true, "reads and writes under way"},
	{"io_time_seconds_total", "s", 1e-3, false, "time in which the disk did something"},
	{"io_time_weighted_seconds_total", "s", 1e-3, false, "time in which it did something, times what was under way"},
	{"discards_completed_total", "1", 1, false, "discards completed"},
	{"discards_merged_total", "1", 1, false, "discards merged with others"},
	{"discarded_sectors_total", "1", 1, false, "sectors discarded"},
	{"discard_time_seconds_total", "s", 1e-3, false, "time of all discards"},
	{"flush_requests_total", "1", 1, false, "flushes completed"},
	{"flush_requests_time_seconds_total", "s", 1e-3, false, "time of all flushes"},
}

const leastDiskColumns = 11 // partitions of Linux 2.6.24 and older had 4

// newDisks reads /proc/diskstats: disks, not their partitions; of loop, ram and zram
// devices those that were ever used.
var newDisks = one("proc/diskstats", func(root fs.FS, data []byte) ([]result.Series, func([]byte, []float64) error, error) {
	d := newDiskTable(data, func(name string) bool {
		_, err := fs.Stat(root, "sys/block/"+strings.ReplaceAll(name, "/", "!"))
		return err == nil
	})
	return d.series, d.parse, nil
})

// disks is the parser.
type disks struct {
	series []result.Series
	at     map[string]*disk
}

type disk struct {
	first  int
	counts []counter
}

func newDiskTable(data []byte, whole func(name string) bool) *disks {
	d, text := &disks{at: map[string]*disk{}}, scan(data)
	for l, ok := text.line(); ok; l, ok = text.line() {
		l.field()
		l.field()
		name, used, n := string(l.field()), false, 0
		for b := l.field(); b != nil; b = l.field() {
			used = used || string(b) != "0"
			n++
		}
		n = min(n, len(diskColumns))
		virtual := strings.HasPrefix(name, "loop") || strings.HasPrefix(name, "ram") || strings.HasPrefix(name, "zram")
		if n < leastDiskColumns || virtual && !used || !whole(name) {
			continue
		}
		d.at[name] = &disk{first: len(d.series), counts: make([]counter, n)}
		for _, c := range diskColumns[:n] {
			d.series = append(d.series, result.Series{Name: "node_disk_" + c.name, Labels: label("device", name), Unit: c.unit, Counter: !c.gauge, Help: c.help})
		}
	}
	return d
}

func (d *disks) parse(data []byte, dst []float64) error {
	text := scan(data)
	for l, ok := text.line(); ok; l, ok = text.line() {
		whole := l
		l.field()
		l.field()
		disk := d.at[string(l.field())]
		if disk == nil {
			continue
		}
		for i := range disk.counts {
			n, ok := l.number()
			if !ok {
				return malformed(whole)
			}
			c := &diskColumns[i]
			v := float64(n)
			if !c.gauge {
				v = disk.counts[i].next(n)
			}
			dst[disk.first+i] = v * c.scale
		}
	}
	return nil
}
