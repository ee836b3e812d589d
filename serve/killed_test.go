// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"boxdyno/result"
)

// serving is a server of its own process, which says where it listens.
func serving(runs, addr string) int {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 5
	}
	fmt.Println(l.Addr())
	_ = New(opts(runs)).Serve(context.Background(), l)
	return 5
}

// Three viewers of a run see each trial once and in order, while the server is killed and
// started again.
func TestKilledInMidRun(t *testing.T) {
	const trials, kills = 60, 3
	runs := t.TempDir()
	b := bundle(t, runs, "one")
	addr := "127.0.0.1:0"
	start := func() *exec.Cmd {
		t.Helper()
		cmd := exec.Command("/proc/self/exe", "serving", runs, addr)
		cmd.Stderr = os.Stderr
		said, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
		line, err := bufio.NewReader(said).ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		addr = strings.TrimSpace(line)
		return cmd
	}
	server := start()
	at := addr
	seen := make(chan []string)
	ended := make(chan bool, 2*kills*trials) // connections
	begun := make(chan bool, 2*kills*trials)
	for range 3 {
		go func() { // a browser that comes back
			var got []string
			last := ""
			for end := time.Now().Add(time.Minute); len(got) < trials && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
				r, _ := http.NewRequest("GET", "http://"+at+"/api/events?run=one", nil) // it is a good one
				if last != "" {
					r.Header.Set("Last-Event-ID", last)
				}
				res, err := http.DefaultClient.Do(r)
				if err != nil {
					continue
				}
				begun <- true
				l := &listener{t: t, res: res, in: bufio.NewScanner(res.Body), last: last}
				l.in.Buffer(nil, 16<<20)
				for len(got) < trials {
					e, ok := l.next()
					if !ok {
						ended <- true
						break
					}
					if e.name == "anew" && last != "" {
						got = append(got, "anew")
					}
					if e.name == "records" {
						for _, part := range strings.Split(e.data, `"id":"forward/route/64#1/`)[1:] {
							n, _, _ := strings.Cut(part, `"`)
							got = append(got, n)
						}
						last = l.last
					}
				}
				res.Body.Close()
			}
			seen <- got
		}()
	}
	for n := 1; n <= trials; n++ {
		trial(t, b, n, result.Passed)
		time.Sleep(25 * time.Millisecond)
		if n%(trials/(kills+1)) == 0 && n < trials {
			for range 3 { // all are watching
				select {
				case <-begun:
				case <-time.After(time.Minute):
					t.Fatal("a viewer does not come back")
				}
			}
			_ = server.Process.Kill()
			_ = server.Wait()
			server = start()
		}
	}
	for range 3 {
		if got := <-seen; !slices.Equal(got, numbers(1, trials)) {
			t.Errorf("a viewer saw %v", got)
		}
	}
	if len(ended) < kills {
		t.Errorf("%d connections were cut: the server was not killed before viewers' eyes", len(ended))
	}
}
