// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"bytes"
	"encoding/json"
	"testing"
)

// FuzzQuestions is a DUT of topology pair that anybody asks: every answer is a line of
// JSON, and nothing panics.
func FuzzQuestions(f *testing.F) {
	for _, q := range []string{
		`{"id":1,"method":"hello"}`,
		`{"id":2,"method":"identify","args":{"ports":["lo","nowhere",""]}}`,
		`{"id":3,"method":"ledger.open","args":{"paths":[{"name":"x","hops":[{"place":"dut nic","port":"lo","mine":true},{"place":"meter"}]}],"bare":true}}` + "\n" + `{"id":4,"method":"ledger.read","args":1}` + "\n" + `{"id":5,"method":"ledger.close","args":1}`,
		`{"id":6,"method":"ledger.open","args":{"paths":[{"hops":[{"mine":true},{"mine":true},{"mine":true}]}]}}`,
		`{"id":7,"method":"ledger.read","args":-9223372036854775808}` + "\n" + `{"id":8,"method":"clock","args":[[]]}`,
		`{"id":9,"method":"ledger.close","args":{}}` + "\nnull\n[]",
	} {
		f.Add([]byte(q))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		var out bytes.Buffer
		_ = ServeCalls(t.Context(), bytes.NewReader(append(in, '\n')), &out, "test")
		for line := range bytes.Lines(out.Bytes()) {
			if !json.Valid(line) || line[len(line)-1] != '\n' {
				t.Errorf("%q", line)
			}
		}
	})
}
