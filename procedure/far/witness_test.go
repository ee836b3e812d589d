// SPDX-License-Identifier: Apache-2.0

package far

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"boxdyno/agent"
	"boxdyno/link"
	"boxdyno/result"
)

// reading is what the other board has counted, as it says so.
func reading(t *testing.T, counter string, n uint64) (raw json.RawMessage) {
	t.Helper()
	raw, err := json.Marshal(map[string]any{"tallies": []map[string]any{
		{"term": result.Term{Place: result.DUTNIC, From: "eth1 " + counter}, "value": n, "passed": true},
		{"term": result.Term{Place: result.DUTNIC, From: "eth1 rx_dropped"}, "value": 1 << 40},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// What one board says came of frames is compared with what the other one's port has counted in the
// same trial, as the tester hears it from that board.
func TestContradiction(t *testing.T) {
	reading := func(counter string, n uint64) json.RawMessage { return reading(t, counter, n) }
	const no, yes = "", "b1 and b2 contradict each other: b1 says that 1000 frames came back from there, and the port of b2 counted 600 going out"
	for name, c := range map[string]struct {
		readings []json.RawMessage
		account  *result.Account
		want     string
	}{
		"alike":            {[]json.RawMessage{reading("tx_packets", 7), reading("tx_packets", 1007)}, &result.Account{Received: 1000}, no},
		"others' too":      {[]json.RawMessage{reading("tx_packets", 7), reading("tx_packets", 90_007)}, &result.Account{Received: 1000}, no},
		"too many":         {[]json.RawMessage{reading("tx_packets", 7), reading("tx_packets", 500), reading("tx_packets", 607)}, &result.Account{Accepted: 1000, Received: 1000}, yes},
		"twice":            {[]json.RawMessage{reading("tx_packets", 7), reading("tx_packets", 607)}, &result.Account{Received: 1200, Duplicate: 600}, no},
		"not read":         {nil, &result.Account{Accepted: 1000, Received: 900}, "b1 says where 1000 frames went, and has not asked b2 for its counters"},
		"nothing came":     {nil, &result.Account{Accepted: 1000}, no},
		"no account":       {nil, nil, no},
		"another counter":  {[]json.RawMessage{reading("rx_packets", 7), reading("rx_packets", 7)}, &result.Account{Received: 1000}, no},
		"counted anew":     {[]json.RawMessage{reading("tx_packets", 700), reading("tx_packets", 7)}, &result.Account{Received: 1000}, no},
		"cannot be read":   {[]json.RawMessage{json.RawMessage("[")}, &result.Account{Accepted: 5, Received: 5}, "b1 says where 5 frames went, and has not asked b2 for its counters"},
		"of another trial": {[]json.RawMessage{reading("tx_packets", 7), reading("tx_packets", 5007), nil, reading("tx_packets", 5007), reading("tx_packets", 5607)}, &result.Account{Accepted: 1000, Received: 1000}, yes},
	} {
		p := &Pair{Conn: link.Over("b2", link.Hello{}, &way{}, func() error { return nil }), Routes: true}
		p.Watch()
		for _, r := range c.readings {
			if r == nil {
				p.Watch()
				continue
			}
			p.Hear(r)
		}
		if got := p.Contradiction(t.Context(), "b1", c.account); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// A driver may bring its counters up to date once a second: before a contradiction is said, they are
// read once more, where the sending board has left them open.
func TestContradictionOfATardyDriver(t *testing.T) {
	was := tardy
	defer func() { tardy = was }()
	tardy = time.Millisecond
	for name, c := range map[string]struct {
		later uint64 // what is counted a while after the trial
		open  bool
		want  bool
	}{"tardy": {1007, true, false}, "a lie": {607, true, true}, "closed": {1007, false, true}} {
		asked := 0
		p := &Pair{Routes: true, Conn: served(t, "b2", func(publish func(string, []byte) error) *link.Server {
			return link.NewServer(func(method string) link.Handler {
				return func(context.Context, *link.Request) (any, error) {
					if asked++; method != string(agent.LedgerRead) {
						t.Errorf("%s: %s", name, method)
					}
					return reading(t, "tx_packets", c.later), nil
				}
			}, publish)
		})}
		if c.open {
			p.begun = map[begun]bool{{string(agent.SubjectStop), 3}: true, {string(agent.LedgerClose), 4}: true}
		}
		p.Watch()
		p.Hear(reading(t, "tx_packets", 7))
		p.Hear(reading(t, "tx_packets", 607))
		got := p.Contradiction(t.Context(), "b1", &result.Account{Accepted: 1000, Received: 1000})
		if (got != "") != c.want || (asked == 1) != c.open {
			t.Errorf("%s: %q, asked %d times", name, got, asked)
		}
	}
}
