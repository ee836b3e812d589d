// SPDX-License-Identifier: Apache-2.0

package link

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
)

// FuzzReplies is a tester whose box answers anything: every error is a short sentence, and
// what is no answer to a call is dropped.
func FuzzReplies(f *testing.F) {
	f.Add("reply.1", []byte(`{"reply":7,"done":true}`))
	f.Add("reply.1", []byte(`{"error":{"kind":"missing","what":"a","remedy":[["b"],[]],"hint":"c"},"done":true}`))
	f.Add("reply.1", []byte(`{"error":{"kind":"other","text":"`+strings.Repeat("long ", 2000)+`"}}`))
	f.Add("reply.1", []byte(`{"error":{"kind":"missing","what":"a","remedy":[["`+strings.Repeat("rm ", 9000)+`"]`+strings.Repeat(`,["b"]`, 9000)+`]},"done":true}`))
	f.Add("reply.18446744073709551616", []byte("null"))
	f.Add("reply.1", []byte("\x1b[2J\xff"))
	f.Fuzz(func(t *testing.T, subject string, data []byte) {
		c := &Conn{Name: "box", ended: make(chan struct{}), calls: map[uint64]chan envelope{1: make(chan envelope, 1)}}
		c.take(&nats.Msg{Subject: subject, Data: data})
		select {
		case e := <-c.calls[1]:
			if e.Error != nil {
				if err := e.Error.err("box"); len(err.Error()) > map[bool]int{false: 1100, true: 10_200}[e.Error.Kind == "missing"] {
					t.Errorf("%d octets", len(err.Error()))
				}
			}
		default:
			if strings.TrimLeft(strings.TrimPrefix(subject, "reply."), "0") == "1" {
				t.Errorf("%q is not an answer to call 1", subject)
			}
		}
	})
}

// FuzzTester is an agent that anybody talks to: it ends with its input, and nothing panics.
func FuzzTester(f *testing.F) {
	const info = "INFO {\"server_id\":\"x\",\"version\":\"2.15.2\",\"max_payload\":1048576,\"headers\":true}\r\n"
	f.Add([]byte(""))
	f.Add([]byte(info + "PONG\r\nMSG box.call.x 1 reply.1 4\r\nnull\r\n"))
	f.Add([]byte(info + "PONG\r\nMSG box.ack 1 34\r\n{\"reply\":\"reply.1\",\"n\":-99999999}\r\n\r\nMSG box.cancel 1 7\r\nreply.1\r\n"))
	f.Add([]byte("INFO {}\r\n-ERR 'x'\r\n"))
	f.Fuzz(func(t *testing.T, said []byte) {
		var out lockedBuffer
		_ = Serve(t.Context(), bytes.NewReader(said), &out, "test", func(string) Handler {
			return func(ctx context.Context, r *Request) (any, error) { return r.Args, r.Send(ctx, 1) }
		})
		if line, _, ok := bytes.Cut(out.Bytes(), []byte("\n")); !ok || !bytes.Contains(line, []byte(Name)) {
			t.Errorf("%q", line)
		}
	})
}

type lockedBuffer struct {
	bytes.Buffer
	io.Closer
}

func (*lockedBuffer) Close() error { return nil }
