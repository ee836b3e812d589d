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

// An iperf3Report has the names of iperf3 --json, as far as a trial's record knows what
// stands there: sums of all streams, and no octets and seconds that iperf3 counted.
type iperf3Report struct {
	Title string `json:"title"`
	Start struct {
		Version   string `json:"version,omitempty"`
		Timestamp struct {
			Time     string `json:"time"`
			Timesecs int64  `json:"timesecs"`
		} `json:"timestamp"`
		TestStart iperf3Test `json:"test_start"`
	} `json:"start"`
	Intervals []struct{} `json:"intervals"`
	End       struct {
		Sent     iperf3Sum `json:"sum_sent"`
		Received iperf3Sum `json:"sum_received"`
		Control  string    `json:"sender_tcp_congestion,omitempty"`
	} `json:"end"`
}

type iperf3Test struct {
	Protocol string `json:"protocol,omitempty"`
	Streams  int    `json:"num_streams,omitempty"`
	Block    int    `json:"blksize,omitempty"` // of datagrams
	Duration int    `json:"duration,omitempty"`
}

type iperf3Sum struct {
	Bits        float64 `json:"bits_per_second"`
	Retransmits *int64  `json:"retransmits,omitempty"`
}

// iperf3Said is the note on a trial of iperf3: its version, and how TCP was paced.
var iperf3Said = regexp.MustCompile(`^(iperf 3\.[0-9][0-9A-Za-z.+~-]*)(?:, TCP ([a-z0-9_-]+))?$`)

// Iperf3 writes each valid trial of iperf3 in the shape of iperf3 --json, one a line. Of
// one trial it is one document. What a record does not know is absent. Runs without such
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
	begin := r.Start
	for _, p := range r.Phases {
		if p.Name == iperf3Phase {
			begin = begin.Add(time.Duration(p.Begin - r.Begin))
		}
	}
	out.Start.Timestamp.Time, out.Start.Timestamp.Timesecs = begin.UTC().Format(http.TimeFormat), begin.Unix()
	for _, s := range r.Warnings {
		if m := iperf3Said.FindStringSubmatch(s); m != nil {
			out.Start.Version, out.End.Control = m[1], m[2]
		}
	}
	t := &out.Start.TestStart
	t.Protocol = strings.ToUpper(result.Get(r.Config, "protocol"))
	t.Streams, _ = strconv.Atoi(result.Get(r.Config, iperf3Streams)) // else it is not known
	if d, err := time.ParseDuration(result.Get(r.Config, "duration")); err == nil {
		t.Duration = int(d.Seconds())
	}
	if t.Protocol == "UDP" {
		t.Block, _ = strconv.Atoi(result.Get(r.Config, "payload_size"))
	}
	out.End.Sent.Bits, out.End.Received.Bits = sent.Value, received.Value
	if v := r.Value(iperf3Retransmits); v != nil {
		n := int64(v.Value)
		out.End.Sent.Retransmits = &n
		t.Protocol = "TCP" // nothing else has any
	}
	return out, true
}
