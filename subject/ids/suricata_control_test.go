// SPDX-License-Identifier: Apache-2.0

package ids

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"boxdyno/internal/testutil"
	"boxdyno/subject/capture"
)

// answering plays a command socket that says what it is given, one answer a question, and
// then closes.
func answering(t *testing.T, answers ...string) *Sensing {
	t.Helper()
	s := &Sensing{Capturing: capture.NewCapturing("suricata", nil), control: filepath.Join(t.TempDir(), "control"), port: "lan"}
	l, err := net.Listen("unix", s.control)
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		buf := make([]byte, 4096)
		for _, a := range answers {
			if _, err := conn.Read(buf); err != nil {
				return
			}
			if _, err := conn.Write([]byte(a)); err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-over
	})
	return s
}

// Whatever the command socket says, the conversation ends soon, and with what was wrong.
func TestSuricataControlAnswers(t *testing.T) {
	testutil.NoLeaks(t)
	const hello = `{"return": "OK"}` + "\n"
	for _, c := range []struct {
		answers []string
		want    string
		is      error
	}{
		{nil, "does not answer", errSilent},
		{[]string{""}, "does not answer", errSilent},
		{[]string{`{"retu`}, `answered by half: "{\"retu"`, nil},
		{[]string{hello, `{"message": {"pkts": 3, "drop"`}, "answered by half", nil},
		{[]string{"no JSON\n"}, `what is no answer: "no JSON\n"`, nil},
		{[]string{"{}\n"}, "what is no answer", nil},
		{[]string{strings.Repeat("x", controlMost+1)}, "more than 64 KiB", nil},
		{[]string{hello, `{"message": "Unknown command", "return": "NOK"}` + "\n"}, "refuses", errRefused},
		{[]string{hello, `{"message": {"pkts": -3, "drop": 0}, "return": "OK"}` + "\n"}, "what is no count", nil},
		{[]string{hello, `{"message": {"pkts": 3}, "return": "OK"}` + "\n"}, "without a count", nil},
		{[]string{hello, `{"message": 7, "return": "OK"}` + "\n"}, "what is no count", nil},
	} {
		begun := time.Now()
		err := answering(t, c.answers...).converse(t.Context(), time.After(0))
		if err == nil || !strings.Contains(err.Error(), c.want) || errors.Is(err, errSilent) != (c.is == errSilent) || errors.Is(err, errRefused) != (c.is == errRefused) {
			t.Errorf("%q: %v; want %q", c.answers, err, c.want)
		}
		if d := time.Since(begun); d > 2*controlPatience {
			t.Errorf("%q: the conversation took %v", c.answers, d)
		}
	}
	ctx, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stop()
	begun := time.Now()
	if err := answering(t, hello).converse(ctx, nil); !errors.Is(err, errSilent) || time.Since(begun) > controlPatience {
		t.Errorf("%v after %v: it is told to end, and waits", err, time.Since(begun))
	}
}

// What was decoded is what the sockets took and did not drop.
func TestSuricataControlCounts(t *testing.T) {
	s := answering(t, `{"message": {"pkts": 90, "invalid-checksums": 0, "drop": 20, "bypassed": 0}, "return": "OK"}`+"\n")
	conn, err := net.Dial("unix", s.control)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if n, err := newControl(conn).taken("lan"); n != 70 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	seen := capture.Nothing
	seen.Counted = 60
	s.Take(seen, "")
	_, then, _ := s.Capturing.Progress()
	if n, _, _ := s.Progress(); n != 60 || s.WorkedOff(then) {
		t.Errorf("%d before it is known to sleep", n)
	}
	s.decoded(70, then+4)
	if n, at, ok := s.Progress(); n != 70 || at != then+4 || !ok || !s.WorkedOff(then+4) || s.WorkedOff(then+5) {
		t.Errorf("%d at %v, %v", n, at, ok)
	}
}

// Only a Suricata all of whose capturing and detecting threads sleep has nothing to do.
func TestAsleep(t *testing.T) {
	for _, c := range []struct {
		threads map[string]string
		want    bool
	}{
		{map[string]string{"1": "1 (Suricata-Main) R 1", "2": "2 (W#01-lan) S 1", "3": "3 (W#02-lan) S 1"}, true},
		{map[string]string{"2": "2 (W#01-lan) S 1", "3": "3 (W#02-lan) R 1"}, false},
		{map[string]string{"2": "2 (RX#01-lan) D 1", "3": "3 (W#01) S 1"}, false},
		{map[string]string{"2": "2 (W) R) S 1", "3": "3 (W#01) S 1"}, true},
		{map[string]string{"1": "1 (Suricata-Main) S 1"}, false},
		{map[string]string{"1": "1 (W#01"}, false},
		{nil, false},
	} {
		root := fstest.MapFS{}
		for tid, text := range c.threads {
			root["proc/7/task/"+tid+"/stat"] = &fstest.MapFile{Data: []byte(text)}
		}
		if got := asleep(root, 7); got != c.want {
			t.Errorf("%v: %v", c.threads, got)
		}
	}
}
