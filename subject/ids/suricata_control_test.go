// SPDX-License-Identifier: Apache-2.0

package ids

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"boxdyno/host"
	"boxdyno/internal/testutil"
	"boxdyno/subject/capture"
	"boxdyno/unit"
)

// answering plays a command socket that says what it is given, one answer a question, and
// closes after each conversation.
func answering(t *testing.T, conversations ...[]string) *Sensing {
	t.Helper()
	s := &Sensing{Capturing: capture.NewCapturing("suricata", nil), control: filepath.Join(t.TempDir(), "control"), port: "lan", sockets: 1}
	s.Process, s.idle = &host.Process{}, func() bool { return true }
	l, err := net.Listen("unix", s.control)
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		for _, answers := range conversations {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			buf := make([]byte, 4096)
			for _, a := range answers {
				if _, err := conn.Read(buf); err != nil {
					break
				}
				if _, err := conn.Write([]byte(a)); err != nil {
					break
				}
			}
			conn.Close()
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-over
	})
	return s
}

const hello = `{"return": "OK"}` + "\n"

// counts is an answer with what its packet sockets received and dropped.
func counts(received, dropped uint64) string {
	return fmt.Sprintf(`{"message": {"pkts": %d, "drop": %d}, "return": "OK"}`+"\n", received, dropped)
}

// Whatever the command socket says, the conversation ends soon, and with what was wrong.
func TestSuricataControlAnswers(t *testing.T) {
	testutil.NoLeaks(t)
	was := controlPatience
	controlPatience = time.Minute
	defer func() { controlPatience = was }()
	for _, c := range []struct {
		answers []string
		want    string
		is      error
	}{
		{nil, "does not answer", errSilent},
		{[]string{""}, "does not answer", errSilent},
		{[]string{`{"retu`}, `answered by half: "{\"retu"`, errUnfit},
		{[]string{hello, `{"message": {"pkts": 3, "drop"`}, "answered by half", errUnfit},
		{[]string{hello, counts(2, 3)}, "received 2 frames and dropped 3", errUnfit},
		{[]string{hello, counts(math.MaxUint64, 1)}, "received 18446744073709551615 frames", errUnfit},
		{[]string{hello, counts(0, math.MaxUint64)}, "dropped 18446744073709551615", errUnfit},
		{[]string{"no JSON\n"}, `what is no answer: "no JSON\n"`, nil},
		{[]string{"{}\n"}, "what is no answer", nil},
		{[]string{strings.Repeat("x", controlMost+1)}, "more than 64 KiB", nil},
		{[]string{hello, `{"message": "Unknown command", "return": "NOK"}` + "\n"}, "refuses", errRefused},
		{[]string{hello, `{"message": {"pkts": -3, "drop": 0}, "return": "OK"}` + "\n"}, "what is no count", nil},
		{[]string{hello, `{"message": {"pkts": 3}, "return": "OK"}` + "\n"}, "without a count", nil},
		{[]string{hello, `{"message": 7, "return": "OK"}` + "\n"}, "what is no count", nil},
	} {
		begun := time.Now()
		_, err := answering(t, c.answers).converse(t.Context(), time.After(0))
		if err == nil || !strings.Contains(err.Error(), c.want) || errors.Is(err, errSilent) != (c.is == errSilent) || errors.Is(err, errRefused) != (c.is == errRefused) || errors.Is(err, errUnfit) != (c.is == errUnfit) {
			t.Errorf("%q: %v; want %q", c.answers, err, c.want)
		}
		if d := time.Since(begun); d > controlPatience {
			t.Errorf("%q: the conversation took %v", c.answers, d)
		}
	}
	ctx, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stop()
	begun := time.Now()
	if _, err := answering(t, []string{hello}).converse(ctx, nil); !errors.Is(err, errSilent) || time.Since(begun) > controlPatience {
		t.Errorf("%v after %v: it is told to end, and waits", err, time.Since(begun))
	}
}

// What was decoded is what the sockets took and did not drop.
func TestSuricataControlCounts(t *testing.T) {
	s := answering(t, []string{`{"message": {"pkts": 90, "invalid-checksums": 0, "drop": 20, "bypassed": 0}, "return": "OK"}` + "\n"})
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

// A count of several threads is as old as the oldest of theirs may be, whichever changed.
func TestSuricataControlAge(t *testing.T) {
	for _, c := range []struct {
		sockets int
		known   bool // that all was decoded which was there at the question before
	}{{1, true}, {2, false}} {
		s := answering(t, []string{hello, counts(10, 0), counts(30, 0)})
		s.sockets = c.sockets
		next := make(chan time.Time)
		close(next)
		begun := unit.Now()
		if counted, err := s.converse(t.Context(), next); !counted || !errors.Is(err, errSilent) {
			t.Fatal(counted, err)
		}
		if n, _, _ := s.Progress(); n != 30 || s.WorkedOff(begun) != c.known {
			t.Errorf("%d sockets: %d were decoded; those before the questions: %v, want %v", c.sockets, n, s.WorkedOff(begun), c.known)
		}
		if !s.WorkedOff(begun - unit.Instant(controlAge)) {
			t.Errorf("%d sockets: no counter is that old", c.sockets)
		}
	}
}

// What a program under load answers by half is asked again; what stays unfit is a fault.
func TestSuricataControlUnfit(t *testing.T) {
	testutil.NoLeaks(t)
	next := make(chan time.Time)
	close(next)
	half := []string{hello, `{"message": {"pkts"`}
	refuses := []string{hello, `{"return": "NOK"}` + "\n"}
	for _, c := range []struct {
		conversations [][]string
		counted       int64
		fault         bool
	}{
		{[][]string{half, {hello, counts(1, 2)}, {hello, counts(9, 2)}, refuses}, 7, false},
		{[][]string{half, half, {hello, counts(9, 2), `{"me`}, half, refuses}, 7, false},
		{[][]string{half, half, half, {hello, counts(9, 2)}, refuses}, 0, true},
	} {
		s := answering(t, c.conversations...)
		s.talk(t.Context(), next)
		if (s.Ended() != nil) != c.fault || s.taken != c.counted {
			t.Errorf("%q: %d counted, %v", c.conversations, s.taken, s.Ended())
		}
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
