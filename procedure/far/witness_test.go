// SPDX-License-Identifier: Apache-2.0

package far

import (
	"encoding/json"
	"testing"

	"boxdyno/link"
	"boxdyno/result"
)

// What one board says came of frames is compared with what the other one's port has counted in the
// same trial, as the tester hears it from that board.
func TestContradiction(t *testing.T) {
	reading := func(counter string, n uint64) (raw json.RawMessage) {
		raw, err := json.Marshal(map[string]any{"tallies": []map[string]any{
			{"term": result.Term{Place: result.DUTNIC, From: "eth1 " + counter}, "value": n, "passed": true},
			{"term": result.Term{Place: result.DUTNIC, From: "eth1 rx_dropped"}, "value": 1 << 40},
		}})
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	const no, yes = "", "b1 and b2 contradict each other: b1 says that 1000 frames came back from there, and b2 that 600 left its port"
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
		if got := p.Contradiction("b1", c.account); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
