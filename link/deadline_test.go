// SPDX-License-Identifier: Apache-2.0

package link

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"boxdyno/internal/testutil"
)

// A tester that stops saying anything, or stops reading, while its end stays open is given
// up, and what it asked for ends.
func TestTesterThatStops(t *testing.T) {
	was := silence
	silence = 300 * time.Millisecond
	defer func() { silence = was }()
	const info = "INFO {\"server_id\":\"x\",\"version\":\"2.15.2\",\"max_payload\":1048576,\"headers\":true}\r\n"
	for how, c := range map[string]struct {
		says  string
		keeps bool // saying more
		reads bool
		call  string
	}{
		"says nothing":           {reads: true},
		"says half of a line":    {says: info[:20], reads: true},
		"greets and then stops":  {says: info, reads: true},
		"asks and then stops":    {says: info + "PONG\r\nMSG box.call.waits 1 reply.1 4\r\nnull\r\n", reads: true, call: "waits"},
		"does not read a stream": {says: info + "PONG\r\nMSG box.call.items 1 reply.1 4\r\nnull\r\n", keeps: true, call: "items"},
	} {
		t.Run(how, func(t *testing.T) {
			testutil.NoLeaks(t)
			in, say := pipe(t)
			hear, out := pipe(t)
			ended := make(chan error, 1)
			asked, over := "", false
			go func() {
				ended <- Serve(t.Context(), in, out, "test", func(method string) Handler {
					return func(ctx context.Context, r *Request) (any, error) {
						asked = method
						for method == "items" && r.Send(ctx, strings.Repeat("x", 100_000)) == nil {
						}
						<-ctx.Done()
						over = true
						return nil, ctx.Err()
					}
				})
			}()
			if _, err := io.WriteString(say, c.says); err != nil {
				t.Fatal(err)
			}
			if c.reads {
				go answer(hear, say)
			}
			pong := time.NewTicker(50 * time.Millisecond)
			defer pong.Stop()
			late := time.After(15 * time.Second)
			for {
				select {
				case err := <-ended:
					if !errors.Is(err, os.ErrDeadlineExceeded) {
						t.Errorf("%v is not %v", err, os.ErrDeadlineExceeded)
					}
					if asked != c.call || over != (c.call != "") {
						t.Errorf("it was asked for %q; that has ended: %v", asked, over)
					}
					return
				case <-pong.C:
					if c.keeps {
						io.WriteString(say, "PONG\r\n")
					}
				case <-late:
					t.Fatal("it waits")
				}
			}
		})
	}
}

// answer answers pings, as a NATS server does.
func answer(hear io.Reader, say io.Writer) {
	for lines := bufio.NewScanner(hear); lines.Scan(); {
		if lines.Text() == "PING" {
			io.WriteString(say, "PONG\r\n")
		}
	}
}

func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}
