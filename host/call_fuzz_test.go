// SPDX-License-Identifier: Apache-2.0

package host

import (
	"bytes"
	"io"
	"os/exec"
	"strings"
	"testing"
)

// FuzzAnswers is a tester whose DUT answers anything: it ends with a sentence, and no
// answer is taken for that to another question.
func FuzzAnswers(f *testing.F) {
	f.Add([]byte(`{"id":1,"reply":{"protocol":1,"version":"x"}}` + "\n" + `{"id":2,"reply":7}`))
	f.Add([]byte(`{"id":1,"error":{"kind":"missing","what":"a","remedy":[["b"],[]],"hint":"c"}}` + "\n" + `{"id":2,"error":{"kind":"unsupported"}}`))
	f.Add([]byte(`{"id":2,"reply":7}`))
	f.Add([]byte(`{"id":1,"error":{"kind":"other","text":"` + strings.Repeat("long ", 2000) + `"}}`))
	f.Add([]byte("null\n[]\n\x1b[2J\xff\n{}"))
	f.Fuzz(func(t *testing.T, said []byte) {
		r := &Remote{Name: "box", cmd: exec.Command("true"), stdin: deaf{}, stdout: io.NopCloser(bytes.NewReader(said)),
			stderr: &lastLine{}, lines: make(chan []byte), ended: make(chan struct{})}
		go r.read()
		for id := range uint64(3) {
			var reply any
			err := r.Call(t.Context(), "x", nil, &reply)
			if err != nil && (len(err.Error()) > 5000 || strings.Contains(err.Error(), "%!") && !bytes.Contains(said, []byte("%!"))) {
				t.Errorf("%q", err)
			}
			if n := strings.Count(string(said), "\n"); err == nil && int(id) > n {
				t.Errorf("%d answers of %d lines", id+1, n+1)
			}
		}
		_, _ = r.Clock(t.Context(), 2)
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
}

// deaf is a DUT that reads nothing.
type deaf struct{}

func (deaf) Write(b []byte) (int, error) { return len(b), nil }
func (deaf) Close() error                { return nil }
