// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"strings"
	"testing"

	"boxdyno/engine"
	"boxdyno/host"
	"boxdyno/result"
)

// queued has so many queues at each port.
type queued struct {
	engine.Backend
	queues map[string]int
}

func (q queued) Name() string                        { return "afxdp/copy" }
func (q queued) SendQueues(p host.Port) (int, error) { return q.queues[p.Name], nil }

// A backend that gives each sender a queue leaves as many senders as its narrowest port has.
func TestNarrow(t *testing.T) {
	ports := []host.Port{{Name: "e0"}, {Name: "e1"}}
	for _, c := range []struct {
		queues map[string]int
		cpus   string // that send, in the record
		why    string
	}{
		{map[string]int{"e0": 4, "e1": 4}, "7,6,5,4", ""},
		{map[string]int{"e0": 8, "e1": 2}, "7,6", "port e1 has 2 queues to send by, and each sender of backend afxdp/copy needs its own"},
		{map[string]int{"e0": 3, "e1": 1}, "", "port e1 has 1 queue to send by"},
		{map[string]int{"e0": 0, "e1": 3}, "", "port e0 has 1 queue to send by"},
	} {
		tb := &Testbed{Facts: Facts{TesterCPU: 7, Senders: []int{6, 5, 4}}, Engine: queued{nil, c.queues}}
		if err := narrow(tb, ports); err != nil {
			t.Fatal(err)
		}
		if got := result.Get(senderSettings(tb.Facts), "sender_cpus"); got != c.cpus || !strings.HasPrefix(tb.Narrow, c.why) || (c.why == "") != (tb.Narrow == "") {
			t.Errorf("%v: CPUs %q send: %q", c.queues, got, tb.Narrow)
		}
	}
	tb := &Testbed{Facts: Facts{Senders: []int{6}}}
	if err := narrow(tb, ports); err != nil || len(tb.Senders) != 1 {
		t.Errorf("%v, %v", tb.Senders, err)
	}
}
