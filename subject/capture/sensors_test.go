// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"boxdyno/host"
	"boxdyno/subject"
)

func recorded(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// The texts are not from a run: they follow the documentation of Zeek 7 (policy/misc/stats,
// invoking Zeek) and of Snort 3 (statistics at its end).
func TestZeekAndSnortSay(t *testing.T) {
	for _, piece := range []int{1, 7, 1 << 20} {
		r := replay(parseZeek, recorded(t, "zeek.txt"), piece)
		if want := (Totals{Captured: 2963, Kernel: 37, Own: -1, Port: -1}); r.Totals() != want || !r.ready || r.wrong != nil {
			t.Errorf("zeek: %+v, %v", r.Totals(), r.wrong)
		}
		logs := zeek.Logs()
		r = replay(logs[0].Said, recorded(t, "zeek-stats.jsonl"), piece)
		if want := (Totals{Captured: 2700, Kernel: 37, Own: -1, Port: -1}); r.Totals() != want || r.wrong != nil {
			t.Errorf("zeek's log: %+v, %v", r.Totals(), r.wrong)
		}
		out, _ := snort.Said(nil, subject.Env{})
		r = replay(out, recorded(t, "snort.txt"), piece)
		if want := (Totals{Captured: 2963, Kernel: 37, Own: -1, Port: -1}); r.Totals() != want || !r.ready || r.wrong != nil {
			t.Errorf("snort: %+v, %v", r.Totals(), r.wrong)
		}
		if said := r.Log.String(); strings.Contains(said, "2963") || !strings.Contains(said, "snort.lua") {
			t.Errorf("snort's log:\n%s", said)
		}
	}
	var s snortStats
	s.line("daq")
	if got := s.line("                 analyzed: 1290"); got.Counted != 1290 {
		t.Errorf("%+v", got)
	}
	if got := parseZeek("1 packets received on interface eth0, 0 dropped"); got.Counted != 1 || got.Kernel != 0 {
		t.Errorf("an older Zeek: %+v", got)
	}
	var z zeekStats
	if got := z.line(`{"ts":1,"pkts_proc":-4}`); !got.Garbage {
		t.Errorf("%+v", got)
	}
}

func TestZeekAndSnortRun(t *testing.T) {
	c := New(&zeek)
	argv, err := zeek.Argv(c, Place{subject.Env{Port: host.Port{Name: "lan"}}, "/tmp/x"})
	if want := strings.Fields("zeek -C -i lan -f udp policy/misc/stats LogAscii::use_json=T Stats::report_interval=1sec"); err != nil || !slices.Equal(argv, want) {
		t.Errorf("%q, %v", argv, err)
	}
	c = New(&snort)
	c.Buffer = 128 << 20
	argv, _ = snort.Argv(c, Place{subject.Env{Port: host.Port{Name: "lan"}, CPUs: []int{0, 3}}, "/tmp/x"}) // without its configuration: an error
	if all := strings.Join(argv, " "); !strings.HasSuffix(all, "-i lan --daq afpacket -k none -l /tmp/x -A none -z 2 --daq-var buffer_size_mb=128 --bpf udp") {
		t.Errorf("%q", argv)
	}
	t.Setenv("PATH", t.TempDir())
	for _, tool := range []*Tool{&zeek, &snort} {
		var missing *host.Missing
		if err := tool.check(t.Context(), c); err != nil && (!errors.As(err, &missing) || missing.Hint == "" || !strings.Contains(err.Error(), tool.Name)) {
			t.Errorf("%s: %v", tool.Name, err)
		}
	}
}
