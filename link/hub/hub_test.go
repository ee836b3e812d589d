// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"boxdyno/host"
	"boxdyno/internal/testutil"
	"boxdyno/link"
)

var handlers = map[string]link.Handler{
	"double": func(_ context.Context, r *link.Request) (any, error) {
		var n int
		err := json.Unmarshal(r.Args, &n)
		return 2 * n, err
	},
	"echo": func(_ context.Context, r *link.Request) (any, error) { return r.Args, nil },
	"long": func(context.Context, *link.Request) (any, error) { return strings.Repeat("x", link.MaxMessage), nil },
	"missing": func(context.Context, *link.Request) (any, error) {
		return nil, fmt.Errorf("open: %w", &host.Missing{What: "nft", Remedy: [][]string{{"apt-get", "install", "nftables"}}, Hint: "or not"})
	},
	"unsupported": func(context.Context, *link.Request) (any, error) {
		return nil, fmt.Errorf("probe: %w", host.ErrNotSupported)
	},
	"exit": func(context.Context, *link.Request) (any, error) { os.Exit(7); return nil, nil },
	"waits": func(ctx context.Context, _ *link.Request) (any, error) {
		waiting.Add(1)
		defer waiting.Add(-1)
		<-ctx.Done()
		return nil, ctx.Err()
	},
	"waiting": func(context.Context, *link.Request) (any, error) { return waiting.Load(), nil },
	"count": func(ctx context.Context, r *link.Request) (any, error) {
		var n int
		if err := json.Unmarshal(r.Args, &n); err != nil {
			return nil, err
		}
		for i := range n {
			if err := r.Send(ctx, i); err != nil {
				return nil, err
			}
		}
		return n, nil
	},
	"stop": func(ctx context.Context, _ *link.Request) (any, error) {
		if err := syscall.Kill(os.Getpid(), syscall.SIGSTOP); err != nil {
			return nil, err
		}
		<-ctx.Done() // another thread may stop first: this one must not answer meanwhile
		return nil, ctx.Err()
	},
}

var waiting atomic.Int64

// The box's end of the tests below.
func TestAgentChild(t *testing.T) {
	how := os.Getenv("HUB_TEST")
	hello := func(protocol int, version string) {
		fmt.Printf("{\"agent\":\"boxdyno-agent\",\"protocol\":%d,\"version\":%q}\n", protocol, version)
	}
	switch how {
	case "":
		return // it is a child of others
	case "serve":
		fmt.Fprintln(os.Stderr, "first line")
		fmt.Fprintln(os.Stderr, "the last thing it said")
		in, out := link.Streams()
		if err := link.Serve(context.Background(), in, out, "v1", func(m string) link.Handler { return handlers[m] }); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	case "protocol":
		hello(1, "v1")
	case "version":
		hello(link.Protocol, "v0")
	case "babble":
		fmt.Println("Welcome to the box!")
	case "endless":
		io.Copy(os.Stdout, zeros{})
	case "other":
		fmt.Printf("{\"agent\":\"other\",\"protocol\":%d,\"version\":\"v1\"}\n", link.Protocol)
	case "drip":
		for {
			fmt.Print(" ")
			time.Sleep(50 * time.Millisecond)
		}
	case "banner": // of ssh, and of a shell's start
		fmt.Fprintln(os.Stderr, "Welcome!\x1b[2J")
		hello(link.Protocol, "v0")
	case "dead":
		fmt.Fprintln(os.Stderr, "Connection refused")
		os.Exit(255)
	case "nonsense": // greets, and then says what no NATS client does
		hello(link.Protocol, "v1")
		fmt.Print("GET / HTTP/1.1\r\n\r\n")
	case "listener", "caller": // wants to hear what is not for the box, or to call
		hello(link.Protocol, "v1")
		in := bufio.NewReader(os.Stdin)
		in.ReadString('\n') // INFO
		fmt.Print("CONNECT {\"verbose\":false}\r\nPUB reply.0 2\r\n{}\r\n")
		if how == "listener" {
			fmt.Print("SUB > 1\r\n")
		} else {
			fmt.Print("PUB box.call.double reply.1 1\r\n1\r\n")
		}
		for {
			line, err := in.ReadString('\n')
			if err != nil {
				os.Exit(0)
			}
			if strings.HasPrefix(line, "MSG") || strings.HasPrefix(line, "-ERR") {
				fmt.Fprint(os.Stderr, line)
				os.Exit(9)
			}
			if strings.HasPrefix(line, "PING") {
				fmt.Print("PONG\r\n")
			}
		}
	case "deaf", "mute": // reads nothing but says that it lives, or reads and says nothing more
		fmt.Printf("{\"agent\":\"boxdyno-agent\",\"protocol\":%d,\"version\":\"v1\"}\nCONNECT {\"verbose\":false}\r\nSUB box.> 1\r\nPUB reply.0 2\r\n{}\r\n", link.Protocol)
		for how == "deaf" {
			fmt.Print("PING\r\n")
			stdin := []unix.PollFd{{Fd: 0}} // POLLHUP once nobody writes to it
			if n, err := unix.Poll(stdin, 50); n > 0 && err == nil {
				os.Exit(0)
			}
		}
	case "flood": // sends items without end to a call that asked for one answer
		hello(link.Protocol, "v1")
		fmt.Print("CONNECT {\"verbose\":false}\r\nSUB box.> 1\r\nPUB reply.0 2\r\n{}\r\n")
		go func() { io.Copy(io.Discard, os.Stdin); os.Exit(0) }()
		for {
			if _, err := fmt.Print("PUB reply.1 11\r\n{\"item\":12}\r\n"); err != nil {
				os.Exit(0)
			}
		}
	}
	io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

func box(how string) link.Agent {
	return link.Agent{Name: "user@box", Version: "v1", Argv: []string{"env", "HUB_TEST=" + how, os.Args[0], "-test.run=^TestAgentChild$"}}
}

func dial(t *testing.T, how string) *link.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := Dial(ctx, box(how))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestCalls(t *testing.T) {
	testutil.NoLeaks(t)
	c := dial(t, "serve")
	if c.Hello != (link.Hello{Agent: link.Name, Protocol: link.Protocol, Version: "v1"}) {
		t.Errorf("%+v", c.Hello)
	}
	for n := range 3 {
		var got int
		if err := c.Call(t.Context(), "double", n, &got); err != nil || got != 2*n {
			t.Errorf("%d, %v", got, err)
		}
	}
	var missing *host.Missing
	if err := c.Call(t.Context(), "missing", nil, nil); !errors.As(err, &missing) || missing.What != "on user@box: nft" || missing.Hint != "or not" || len(missing.Remedy) != 1 {
		t.Errorf("%v", err)
	}
	if err := c.Call(t.Context(), "unsupported", nil, nil); !errors.Is(err, host.ErrNotSupported) || err.Error() != "user@box: probe: not supported" {
		t.Errorf("%v", err)
	}
	if err := c.Call(t.Context(), "nonsense", nil, nil); !errors.Is(err, host.ErrNotSupported) || !strings.Contains(err.Error(), `"nonsense"`) {
		t.Errorf("%v", err)
	}
	if err := c.Call(t.Context(), "double", "two", nil); err == nil || errors.Is(err, host.ErrNotSupported) {
		t.Errorf("%v", err)
	}
	long := strings.Repeat("y", 4<<20)
	var back string
	if err := c.Call(t.Context(), "echo", long, &back); err != nil || back != long {
		t.Errorf("%d octets, %v", len(back), err)
	}
	if err := c.Call(t.Context(), "echo", strings.Repeat("y", link.MaxMessage), nil); err == nil || !strings.Contains(err.Error(), "at most") {
		t.Errorf("%v", err)
	}
	if err := c.Call(t.Context(), "long", nil, nil); err == nil || !strings.Contains(err.Error(), "at most") {
		t.Errorf("%v", err)
	}
	clock, err := c.Clock(t.Context(), 16)
	if err != nil || clock.Error <= 0 || clock.Offset < -clock.Error || clock.Offset > clock.Error { // one machine, one clock
		t.Errorf("offset %v, at most %v off, %v", clock.Offset, clock.Error, err)
	}
	t.Logf("quickest round trip %v", 2*clock.Error)
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if err := c.Call(t.Context(), "double", 1, nil); err == nil || !strings.Contains(err.Error(), "was closed") {
		t.Errorf("%v", err)
	}
}

func TestStreams(t *testing.T) {
	testutil.NoLeaks(t)
	c := dial(t, "serve")
	next, total := 0, 0
	err := c.Stream(t.Context(), "count", 1000, &total, func(item json.RawMessage) error {
		if string(item) != fmt.Sprint(next) {
			t.Errorf("%s after %d", item, next)
		}
		if next++; next == 10 {
			time.Sleep(50 * time.Millisecond) // the box waits
		}
		return nil
	})
	if err != nil || next != 1000 || total != 1000 {
		t.Errorf("%d of %d, %v", next, total, err)
	}
	stop := errors.New("enough")
	if err := c.Stream(t.Context(), "count", 1_000_000, nil, func(json.RawMessage) error { return stop }); err != stop {
		t.Errorf("%v", err)
	}
	if err := c.Call(t.Context(), "count", 5, nil); err == nil {
		t.Error("a stream is taken for an answer")
	}
	var n int
	if err := c.Call(t.Context(), "double", 4, &n); err != nil || n != 8 {
		t.Errorf("%d, %v", n, err)
	}
}

// A call that is given up ends there, and the others go on.
func TestCancel(t *testing.T) {
	testutil.NoLeaks(t)
	c := dial(t, "serve")
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	if err := c.Call(ctx, "waits", nil, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	n := 1
	for begin := time.Now(); n > 0 && time.Since(begin) < time.Minute; time.Sleep(5 * time.Millisecond) {
		if err := c.Call(t.Context(), "waiting", nil, &n); err != nil {
			t.Fatal(err)
		}
	}
	if n != 0 {
		t.Errorf("%d still wait", n)
	}
}

// A box answers so many calls side by side, and no more.
func TestCallsAreBounded(t *testing.T) {
	testutil.NoLeaks(t)
	c := dial(t, "serve")
	ctx, cancel := context.WithCancel(t.Context())
	refused := make(chan error, 300)
	var all sync.WaitGroup
	for range 300 {
		all.Go(func() {
			if err := c.Call(ctx, "waits", nil, nil); !errors.Is(err, context.Canceled) {
				refused <- err
			}
		})
	}
	for range 300 - 256 {
		select {
		case err := <-refused:
			if err == nil || !strings.Contains(err.Error(), "256 calls are answered already") {
				t.Error(err)
			}
		case <-time.After(time.Minute):
			t.Error("300 calls are answered side by side")
		}
	}
	cancel()
	all.Wait()
	if len(refused) > 0 {
		t.Errorf("%d more are refused", len(refused))
	}
}

// What ends there says so here, with the last words of what carried it; also a call that
// is under way.
func TestBreaks(t *testing.T) {
	testutil.NoLeaks(t)
	c := dial(t, "serve")
	under := make(chan error)
	go func() { under <- c.Call(t.Context(), "waits", nil, nil) }()
	const want = "the connection to user@box ended: the last thing it said (exit status 7)"
	for range 2 {
		if err := c.Call(t.Context(), "exit", nil, nil); err == nil || err.Error() != want {
			t.Errorf("%v", err)
		}
	}
	if err := <-under; err == nil || err.Error() != want {
		t.Errorf("%v", err)
	}
}

// A connection that nobody uses stays, by its heartbeats.
func TestIdle(t *testing.T) {
	testutil.Long(t)
	testutil.NoLeaks(t)
	c := dial(t, "serve")
	select {
	case <-c.Ended():
		t.Error(c.Err())
	case <-time.After(3 * link.Silence / 2):
	}
	var n int
	if err := c.Call(t.Context(), "double", 4, &n); err != nil || n != 8 {
		t.Errorf("%d, %v", n, err)
	}
}

// A box that stops answering is given up within 10 s.
func TestStopped(t *testing.T) {
	testutil.Long(t)
	testutil.NoLeaks(t)
	c := dial(t, "serve")
	begin := time.Now()
	err := c.Call(t.Context(), "stop", nil, nil)
	if took := time.Since(begin); err == nil || !strings.Contains(err.Error(), "nothing was heard from it") || took > 10*time.Second {
		t.Errorf("%v after %v", err, took)
	}
	c.Close() // kills it
}

// A box that reads nothing, and one that says nothing more, are given up while their ends
// stay open.
func TestBoxThatStops(t *testing.T) {
	testutil.NoLeaks(t)
	was := silence
	defer func() { silence = was }()
	const short, patient = 500 * time.Millisecond, time.Minute
	for how, want := range map[string]string{"deaf": "reads nothing", "mute": "nothing was heard from it for 500ms"} {
		if silence.says, silence.reads = short, patient; how == "deaf" {
			silence.says, silence.reads = patient, short
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*patient)
		defer cancel()
		c, err := Dial(ctx, box(how)) // it may be given up there already
		if err == nil {
			err = c.Call(ctx, "echo", strings.Repeat("y", 4<<20), nil)
			c.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v does not say %q", how, err, want)
		}
	}
}

func TestDialRefuses(t *testing.T) {
	testutil.NoLeaks(t)
	for how, want := range map[string]string{
		"protocol": "it has v1 (protocol 1)",
		"version":  "it has v0 (protocol 2), and this machine v1",
		"other":    "something else",
		"banner":   "it has v0 (protocol 2), and this machine v1",
		"babble":   `something else: "Welcome to the box!"`,
		"endless":  "does not end",
		"dead":     "Connection refused (exit status 255)",
	} {
		c, err := Dial(t.Context(), box(how))
		var missing *host.Missing
		if c != nil || !errors.As(err, &missing) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v does not say %q", how, err, want)
		}
	}
	if _, err := Dial(t.Context(), link.Agent{Name: "box", Argv: []string{"no-such-program"}}); !errors.As(err, new(*host.Missing)) {
		t.Errorf("%v", err)
	}
	if _, err := Dial(t.Context(), box("nonsense")); err == nil {
		t.Error("nonsense is taken for an agent")
	}
}

// A first line that comes octet by octet is given up, too.
func TestFirstLineIsTimed(t *testing.T) {
	testutil.NoLeaks(t)
	was := firstLine
	firstLine = 500 * time.Millisecond
	defer func() { firstLine = was }()
	var missing *host.Missing
	if _, err := Dial(t.Context(), box("drip")); !errors.As(err, &missing) || !strings.Contains(err.Error(), "does not end") {
		t.Errorf("%v", err)
	}
}

// The box hears only what is said to it, and cannot call anybody.
func TestIntruder(t *testing.T) {
	testutil.NoLeaks(t)
	for how, want := range map[string]string{"listener": `Permissions Violation for Subscription to ">"`, "caller": `Permissions Violation for Publish to "box.call.double"`} {
		c, err := Dial(t.Context(), box(how))
		if err == nil {
			select {
			case <-c.Ended():
				err = c.Err()
			case <-time.After(time.Minute):
				t.Errorf("%s: the server lets it", how)
			}
			c.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", how, err)
		}
	}
}

// A box that sends without end ends its own connection, and nothing else: neither a call
// nor a stream waits for it, or keeps what it sends.
func TestFlood(t *testing.T) {
	testutil.NoLeaks(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := dial(t, "flood").Call(ctx, "double", 1, nil); err == nil || ctx.Err() != nil {
		t.Errorf("%v", err)
	}
	slow := func(json.RawMessage) error { time.Sleep(10 * time.Millisecond); return nil }
	if err := dial(t, "flood").Stream(ctx, "double", 1, nil, slow); err == nil || !strings.Contains(err.Error(), "sends more than it was asked for") {
		t.Errorf("%v", err)
	}
}
