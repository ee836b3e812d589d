// SPDX-License-Identifier: Apache-2.0

package text

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"boxdyno/report"
	"boxdyno/result"
)

// An iperf3Report has the names of iperf3 --json, as far as programs that read it ask for
// them. What a trial's record does not know of is null, such as addresses and octets.
type iperf3Report struct {
	Title string `json:"title"`
	Start struct {
		Connected  [1]iperf3Ends  `json:"connected"`
		Version    *string        `json:"version"`
		SystemInfo *iperf3Unknown `json:"system_info"`
		Timestamp  struct {
			Time     string `json:"time"`
			Timesecs int64  `json:"timesecs"`
		} `json:"timestamp"`
		TestStart iperf3Test `json:"test_start"`
	} `json:"start"`
	Intervals []struct{} `json:"intervals"`
	End       struct {
		Sum      *iperf3Datagrams `json:"sum,omitempty"` // UDP
		Sent     iperf3Sum        `json:"sum_sent"`
		Received iperf3Sum        `json:"sum_received"`
		CPU      iperf3CPU        `json:"cpu_utilization_percent"`
		Control  string           `json:"sender_tcp_congestion,omitempty"`
	} `json:"end"`
}

// An iperf3Unknown is a value that no record has.
type iperf3Unknown struct{}

type iperf3Ends struct {
	LocalHost  *iperf3Unknown `json:"local_host"`
	LocalPort  *iperf3Unknown `json:"local_port"`
	RemoteHost *iperf3Unknown `json:"remote_host"`
	RemotePort *iperf3Unknown `json:"remote_port"`
}

type iperf3CPU struct {
	HostTotal    *iperf3Unknown `json:"host_total"`
	HostUser     *iperf3Unknown `json:"host_user"`
	HostSystem   *iperf3Unknown `json:"host_system"`
	RemoteTotal  *iperf3Unknown `json:"remote_total"`
	RemoteUser   *iperf3Unknown `json:"remote_user"`
	RemoteSystem *iperf3Unknown `json:"remote_system"`
}

type iperf3Test struct {
	Protocol *string `json:"protocol"`
	Streams  *int    `json:"num_streams"`
	Block    *int    `json:"blksize"` // of datagrams
	Omit     int     `json:"omit"`
	Duration *int    `json:"duration"`
	Reverse  int     `json:"reverse"`
}

type iperf3Sum struct {
	Bytes       *iperf3Unknown `json:"bytes"`
	Bits        float64        `json:"bits_per_second"`
	Retransmits *int64         `json:"retransmits,omitempty"`
}

type iperf3Datagrams struct {
	iperf3Sum
	Seconds *iperf3Unknown `json:"seconds"`
	Jitter  *float64       `json:"jitter_ms"`
	Lost    *int64         `json:"lost_packets"`
	Packets *int64         `json:"packets"`
	Share   *float64       `json:"lost_percent"`
}

// iperf3Said is the note on a trial of iperf3: its version, and how TCP was paced.
var iperf3Said = regexp.MustCompile(`^(iperf 3\.[0-9][0-9A-Za-z.+~-]*)(?:, TCP ([a-z0-9_-]+))?$`)

// Iperf3 writes each valid trial of iperf3 in the shape of iperf3 --json, one a line. Of
// one trial it is one document. What a record does not know is null. Runs without such
// a trial are ErrNothing.
func Iperf3(w io.Writer, runs ...report.Kept) error {
	none := true
	e := json.NewEncoder(w)
	for _, run := range runs {
		for _, r := range run.Records {
			if r.Parent == "" || !report.Fit(r) {
				continue
			}
			out, ok := iperf3Of(r)
			if !ok {
				continue
			}
			none = false
			if err := e.Encode(out); err != nil {
				return err
			}
		}
	}
	if none {
		return fmt.Errorf("%w: run stream, or vpn", ErrNothing)
	}
	return nil
}

// iperf3Of is the report of a trial; false: it is none of iperf3.
func iperf3Of(r result.Record) (out iperf3Report, ok bool) {
	sent, received := r.Value(iperf3Sent), r.Value(iperf3Received)
	for _, v := range []*result.Value{sent, received} {
		if v == nil || math.IsNaN(v.Value) || math.IsInf(v.Value, 0) {
			return out, false
		}
	}
	out.Title, out.Intervals = r.ID, []struct{}{}
	t := &out.Start.TestStart
	begin := r.Start
	if d, err := time.ParseDuration(result.Get(r.Config, "duration")); err == nil && d > 0 {
		t.Duration = wholeSeconds(d)
	}
	for _, p := range r.Phases {
		if p.Name == iperf3Phase {
			begin = begin.Add(time.Duration(p.Begin - r.Begin))
			if t.Duration == nil { // that of the preset: iperf3 is asked for whole seconds
				t.Duration = wholeSeconds(time.Duration(p.End - p.Begin))
			}
		}
	}
	out.Start.Timestamp.Time, out.Start.Timestamp.Timesecs = begin.UTC().Format(http.TimeFormat), begin.Unix()
	for _, s := range r.Warnings {
		if m := iperf3Said.FindStringSubmatch(s); m != nil {
			out.Start.Version, out.End.Control = &m[1], m[2]
		}
	}
	number := func(key string) *int {
		if n, err := strconv.Atoi(result.Get(r.Config, key)); err == nil {
			return &n
		}
		return nil
	}
	out.End.Sent.Bits, out.End.Received.Bits = sent.Value, received.Value
	protocol := strings.ToUpper(result.Get(r.Config, "protocol"))
	if v := r.Value(iperf3Retransmits); v != nil {
		protocol = "TCP" // nothing else has any
		if n, ok := count(v.Value); ok {
			out.End.Sent.Retransmits = &n
		}
	}
	if protocol != "" {
		t.Protocol = &protocol
	}
	t.Streams = number(iperf3Streams)
	if protocol == "UDP" {
		t.Block, out.End.Sum = number("payload_size"), datagramsOf(r, out.End.Sent)
	}
	return out, true
}

// wholeSeconds is d as iperf3 is asked for it.
func wholeSeconds(d time.Duration) *int {
	s := int(math.Round(d.Seconds()))
	return &s
}

// datagramsOf is the sum of a trial with UDP. Records of older versions count no
// datagrams: their lost_percent is of octets.
func datagramsOf(r result.Record, sent iperf3Sum) *iperf3Datagrams {
	d := &iperf3Datagrams{iperf3Sum: sent}
	percent := func(v float64) {
		if v >= 0 && v <= 100 {
			d.Share = &v
		}
	}
	if v := r.Value(iperf3Share); v != nil {
		percent(100 * v.Value)
	}
	packets, lost, jitter := r.Value(iperf3Packets), r.Value(iperf3Lost), r.Value(iperf3Jitter)
	if packets == nil || lost == nil || jitter == nil {
		return d
	}
	all, ok := count(packets.Value)
	gone, known := count(lost.Value)
	if ms := jitter.Value * 1e3; ok && known && all > 0 && ms >= 0 && !math.IsInf(ms, 0) {
		d.Packets, d.Lost, d.Jitter = &all, &gone, &ms
		percent(100 * float64(gone) / float64(all))
	}
	return d
}

// count is v as a number of events; false: it is none, or more than the type can hold.
func count(v float64) (int64, bool) {
	if !(v >= 0 && v < 1<<63) {
		return 0, false
	}
	return int64(v), true
}
