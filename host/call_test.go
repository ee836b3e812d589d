// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"boxdyno/internal/testutil"
)

var testMethods = map[string]Method{
	"double": func(_ context.Context, raw json.RawMessage) (any, error) {
		var n int
		err := json.Unmarshal(raw, &n)
		return 2 * n, err
	},
	"missing": func(context.Context, json.RawMessage) (any, error) {
		return nil, fmt.Errorf("open: %w", &Missing{What: "nft", Remedy: [][]string{{"apt-get", "install", "nftables"}}, Hint: "or not"})
	},
	"unsupported": func(context.Context, json.RawMessage) (any, error) {
		return nil, fmt.Errorf("probe: %w", ErrNotSupported)
	},
	"exit":  func(context.Context, json.RawMessage) (any, error) { os.Exit(7); return nil, nil },
	"waits": func(ctx context.Context, _ json.RawMessage) (any, error) { <-ctx.Done(); return nil, ctx.Err() },
}

// The other end of the tests below.
func TestCallChild(t *testing.T) {
	switch os.Getenv("HOST_TEST_CALL") {
	case "":
		return // it is a child of others
	case "serve":
		fmt.Fprintln(os.Stderr, "first line")
		fmt.Fprintln(os.Stderr, "the last thing it said")
		if err := Serve(context.Background(), os.Stdin, os.Stdout, "v1", testMethods); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	case "older":
		fmt.Println(`{"id":1,"reply":{"protocol":0,"version":"v0"}}`)
		io.Copy(io.Discard, os.Stdin)
	case "babble":
		fmt.Println("Welcome to the box!")
		io.Copy(io.Discard, os.Stdin)
	case "dead":
		fmt.Fprintln(os.Stderr, "Connection refused")
		os.Exit(255)
	}
	os.Exit(0)
}

func dial(t *testing.T, how string) (*Remote, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	return Dial(ctx, "user@box", "env", "HOST_TEST_CALL="+how, os.Args[0], "-test.run=^TestCallChild$")
}

func TestCall(t *testing.T) {
	testutil.NoLeaks(t)
	r, err := dial(t, "serve")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if r.Hello != (Hello{CallProtocol, "v1"}) {
		t.Errorf("%+v", r.Hello)
	}
	for n := range 3 {
		var got int
		if err := r.Call(t.Context(), "double", n, &got); err != nil || got != 2*n {
			t.Errorf("%d, %v", got, err)
		}
	}
	var missing *Missing
	if err := r.Call(t.Context(), "missing", nil, nil); !errors.As(err, &missing) || missing.What != "on user@box: nft" || missing.Hint != "or not" || len(missing.Remedy) != 1 {
		t.Errorf("%v", err)
	}
	if err := r.Call(t.Context(), "unsupported", nil, nil); !errors.Is(err, ErrNotSupported) || err.Error() != "user@box: probe: not supported" {
		t.Errorf("%v", err)
	}
	if err := r.Call(t.Context(), "nonsense", nil, nil); !errors.Is(err, ErrNotSupported) || !strings.Contains(err.Error(), `"nonsense"`) {
		t.Errorf("%v", err)
	}
	if err := r.Call(t.Context(), "double", "two", nil); err == nil || errors.Is(err, ErrNotSupported) {
		t.Errorf("%v", err)
	}
	c, err := r.Clock(t.Context(), 16)
	if err != nil || c.Error <= 0 || c.Offset < -c.Error || c.Offset > c.Error { // one machine, one clock
		t.Errorf("offset %v, at most %v off, %v", c.Offset, c.Error, err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if !r.cmd.ProcessState.Success() {
		t.Errorf("it did not end by itself: %v", r.cmd.ProcessState)
	}
}

// What ends there says so here, with the last words of what carried it.
func TestCallBreaks(t *testing.T) {
	testutil.NoLeaks(t)
	r, err := dial(t, "serve")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for range 2 {
		err := r.Call(t.Context(), "exit", nil, nil)
		if err == nil || !strings.Contains(err.Error(), "the connection to user@box ended: the last thing it said (exit status 7)") {
			t.Errorf("%v", err)
		}
	}
}

func TestCallIsGivenUp(t *testing.T) {
	testutil.NoLeaks(t)
	r, err := dial(t, "serve")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	if err := r.Call(ctx, "waits", nil, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if err := r.Call(t.Context(), "double", 1, nil); err == nil || !strings.Contains(err.Error(), "given up") {
		t.Errorf("an answer to another question could be taken for this one's: %v", err)
	}
	begin := time.Now()
	r.Close()
	if !r.cmd.ProcessState.Success() { // the method saw that nobody waits
		t.Errorf("it did not end by itself within %v: %v", time.Since(begin), r.cmd.ProcessState)
	}
}

func TestDialRefuses(t *testing.T) {
	testutil.NoLeaks(t)
	for how, want := range map[string]string{
		"older":  "protocol 0 (version v0)",
		"babble": `something else than boxdyno does: "Welcome to the box!"`,
		"dead":   "Connection refused (exit status 255)",
	} {
		r, err := dial(t, how)
		var missing *Missing
		if r != nil || !errors.As(err, &missing) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v does not say %q", how, err, want)
		}
	}
	if _, err := Dial(t.Context(), "box", "no-such-program"); !errors.As(err, new(*Missing)) {
		t.Errorf("%v", err)
	}
}

func TestServeRefusesNonsense(t *testing.T) {
	if err := Serve(t.Context(), strings.NewReader("hello\n"), io.Discard, "", nil); err == nil {
		t.Error("taken")
	}
	if err := Serve(t.Context(), strings.NewReader(""), io.Discard, "", nil); err != nil {
		t.Error(err)
	}
}
