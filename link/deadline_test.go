// SPDX-License-Identifier: Apache-2.0

package link

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"boxdyno/internal/testutil"
)

// A tester that stops saying anything, or stops reading, while its end stays open is given
// up, and what it asked for ends.
func TestTesterThatStops(t *testing.T) {
	const patient, short = time.Minute, 200 * time.Millisecond
	var lasts atomic.Int64
	was := silence
	silence = func() time.Duration { return time.Duration(lasts.Load()) }
	defer func() { silence = was }()
	const info = "INFO {\"server_id\":\"x\",\"version\":\"2.15.2\",\"max_payload\":1048576,\"headers\":true}\r\n"
	for how, c := range map[string]struct {
		says string
		call string // once the agent hears calls
		deaf bool   // from then on, but it says that it lives
	}{
		"says nothing":           {},
		"says half of a line":    {says: info[:20]},
		"greets and then stops":  {says: info},
		"asks and then stops":    {says: info, call: "waits"},
		"does not read a stream": {says: info, call: "items", deaf: true},
	} {
		t.Run(how, func(t *testing.T) {
			testutil.NoLeaks(t)
			in, say := pipe(t)
			hear, out := pipe(t)
			ended := make(chan error, 1)
			asked, over := "", false
			called := make(chan struct{})
			if lasts.Store(int64(short)); c.call != "" { // there is time until it is called
				lasts.Store(int64(patient))
			}
			go func() {
				ended <- Serve(t.Context(), in, out, "test", func(method string) Handler {
					return func(ctx context.Context, r *Request) (any, error) {
						asked = method
						lasts.Store(int64(short))
						close(called)
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
			go func() {
				pings := 0
				for lines := bufio.NewScanner(hear); lines.Scan(); {
					if lines.Text() != "PING" {
						continue
					}
					io.WriteString(say, "PONG\r\n")
					if pings++; pings < 2 || c.call == "" { // before the second it has subscribed
						continue
					}
					fmt.Fprintf(say, "MSG box.call.%s 1 reply.1 4\r\nnull\r\n", c.call)
					<-called
					for _, err := io.WriteString(say, "PONG\r\n"); c.deaf && err == nil; _, err = io.WriteString(say, "PONG\r\n") {
						time.Sleep(short / 10)
					}
					return
				}
			}()
			select {
			case err := <-ended:
				if !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("%v is not %v", err, os.ErrDeadlineExceeded)
				}
				if asked != c.call || over != (c.call != "") {
					t.Errorf("it was asked for %q; that has ended: %v", asked, over)
				}
			case <-time.After(time.Minute):
				t.Fatal("it waits")
			}
		})
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
