// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"bytes"
	"io/fs"

	"boxdyno/result"
	"boxdyno/unit"
)

// softnetColumns are those of a line of /proc/net/softnet_stat, by their index
// (net/core/net-procfs.c, softnet_seq_show). Linux 3.11 has 11, 5.10 13, 6.5 15.
var softnetColumns = []struct {
	column int
	name   string
	unit   unit.Symbol
	help   string
	gauge  bool
	place  result.Place
}{
	{column: 0, name: "node_softnet_processed_total", unit: "frame", help: "frames that a CPU took from drivers and from its backlog"},
	{column: 1, name: "node_softnet_dropped_total", unit: "frame", help: "frames lost because a CPU's backlog was full", place: result.Softnet},
	{column: 2, name: "node_softnet_times_squeezed_total", unit: "1", help: "times a CPU stopped receiving with work left, because its budget or time was used up"},
	{column: 9, name: "node_softnet_received_rps_total", unit: "1", help: "times a CPU was woken by another one to receive (RPS)"},
	{column: 10, name: "node_softnet_flow_limit_count_total", unit: "frame", help: "frames of large flows refused by a half full backlog, also counted as dropped"},
	{column: 11, name: "node_softnet_backlog_len", unit: "frame", help: "frames in a CPU's backlog", gauge: true},
}

const softnetCPU = 12 // the column that names the CPU, where there is one

// newSoftnet reads /proc/net/softnet_stat, which is of the whole machine in every
// namespace. A CPU that is off has no line.
var newSoftnet = one("proc/self/net/softnet_stat", func(root fs.FS, data []byte) ([]result.Series, func([]byte, []float64) error, error) {
	s, err := newSoftnetStat(func(which string) []int { return cpuList(root, which) }, data)
	if err != nil {
		return nil, nil, err
	}
	return s.series(), s.parse, nil
})

// softnet is the parser of softnet_stat.
type softnet struct {
	cpuList func(which string) []int
	online  []int // whose the lines are, where they do not say it
	cpus    cpuIndex
	columns int // of softnetColumns that this kernel has
	counts  []counter
	values  [softnetCPU + 1]uint64 // of one line
}

func newSoftnetStat(cpuList func(string) []int, data []byte) (*softnet, error) {
	s := &softnet{cpuList: cpuList}
	cpus := cpuList("present")
	for text, i := scan(data), 0; ; i++ {
		l, ok := text.line()
		if !ok {
			break
		}
		n, ok := s.fields(l)
		if !ok {
			return nil, malformed(l)
		}
		if cpu := s.cpu(n, data, i); cpu >= 0 {
			cpus = append(cpus, cpu)
		}
		s.columns = 0
		for _, c := range softnetColumns {
			if c.column < n {
				s.columns++
			}
		}
	}
	s.cpus = indexCPUs(cpus)
	s.counts = make([]counter, len(s.cpus.list)*s.columns)
	return s, nil
}

// cpu says whose line i is, the one in values. Before Linux 5.10 they are those of
// the CPUs that are on, in their order; -1: nobody knows, because one went on or off
// at this moment.
func (s *softnet) cpu(n int, data []byte, i int) int {
	if n > softnetCPU {
		return int(s.values[softnetCPU])
	}
	if i == 0 {
		if s.online = s.cpuList("online"); len(s.online) != bytes.Count(data, []byte{'\n'}) {
			s.online = nil
		}
	}
	if i >= len(s.online) {
		return -1
	}
	return s.online[i]
}

// fields parses a line into s.values and says how many columns of interest it has.
func (s *softnet) fields(l scan) (n int, ok bool) {
	for ; n < len(s.values); n++ {
		b := l.field()
		if b == nil {
			break
		}
		if s.values[n], ok = hexadecimal(b); !ok {
			return n, false
		}
	}
	return n, n >= 3 && (n <= softnetCPU || s.values[softnetCPU] < mostCPUs)
}

func (s *softnet) series() (all []result.Series) {
	for _, cpu := range s.cpus.list {
		for _, c := range softnetColumns[:s.columns] {
			all = append(all, result.Series{Name: c.name, Labels: cpuLabel(cpu), Unit: c.unit, Counter: !c.gauge, Place: c.place, Help: c.help})
		}
	}
	return all
}

func (s *softnet) parse(data []byte, dst []float64) error {
	for text, i := scan(data), 0; ; i++ {
		l, ok := text.line()
		if !ok {
			return nil
		}
		n, ok := s.fields(l)
		if !ok {
			return malformed(l)
		}
		at := s.cpus.of(s.cpu(n, data, i)) * s.columns
		if at < 0 {
			continue
		}
		for k, c := range softnetColumns[:s.columns] {
			if c.column >= n {
				break
			}
			if v := s.values[c.column]; c.gauge {
				dst[at+k] = float64(v)
			} else {
				dst[at+k] = s.counts[at+k].next(v)
			}
		}
	}
}
