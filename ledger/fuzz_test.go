// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"context"
	"encoding/json"
	"testing"
)

// FuzzReading books the counters that another machine answers with, whatever they are.
func FuzzReading(f *testing.F) {
	f.Add([]byte(`{"tallies":[{"term":{"place":"dut nic","host":"dut","name":"receive ring full","from":"p0 rx_dropped"},"value":7,"order":1}],"queued":3}`),
		[]byte(`{"tallies":[{"term":{"place":"dut nic","host":"dut","name":"receive ring full","from":"p0 rx_dropped"},"value":9,"order":1}],"queued":1}`))
	f.Add([]byte(`{}`), []byte(`{"tallies":[{"term":{"place":"nowhere","n":-9223372036854775808},"value":18446744073709551615,"bits":-1,"order":-9223372036854775808,"passed":true,"always":true}],"queued":18446744073709551615,"unread":[{"host":"x","n":9223372036854775807}]}`))
	f.Add([]byte(`{"tallies":null,"waiting":true}`), []byte(`{"tallies":[{},{},{"bits":16,"value":65536}],"unread":[{},{}]}`))
	f.Fuzz(func(t *testing.T, first, second []byte) {
		var there answers
		for i, text := range [][]byte{first, second} {
			if json.Unmarshal(text, &there[i]) != nil {
				return
			}
		}
		there[0].Waiting, there[1].Waiting = false, false // or it is waited for
		b := &Book{Virtual: true, remotes: []RemoteBook{&there}, label: "tester"}
		if err := b.Begin(t.Context()); err != nil {
			t.Fatal(err)
		}
		there[0] = there[1]
		a, err := b.Balance(t.Context(), func(context.Context) (Ends, error) { return Ends{Intended: 9, Accepted: 9, Received: 5}, nil })
		if err != nil {
			t.Fatal(err)
		}
		if a.Unexplained != a.Accepted-a.Received-a.Dropped()-a.InFlight {
			t.Errorf("the books do not close: %+v", a)
		}
		for _, d := range a.Drops {
			if d.N == 0 {
				t.Errorf("a drop of no frame: %+v", d)
			}
		}
		if _, err := json.Marshal(a); err != nil {
			t.Error(err)
		}
	})
}

type answers [2]Reading

func (a *answers) Read(context.Context) (Reading, error) { return a[0], nil }
func (*answers) Close()                                  {}
