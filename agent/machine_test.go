// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"boxdyno/host"
	"boxdyno/internal/netns"
	"boxdyno/internal/testutil"
	"boxdyno/link"
	"boxdyno/link/hub"
	"boxdyno/result"
	"boxdyno/subject"
	"boxdyno/subject/capture"
	"boxdyno/subject/catalog"
	"boxdyno/subject/ids"
	"boxdyno/unit"
)

func TestMain(m *testing.M) {
	catalog.Main()
	beProgram()
	os.Exit(m.Run())
}

func values(s subject.Subject) (all []string) {
	fs := flag.NewFlagSet("", flag.ContinueOnError)
	s.Flags(fs)
	fs.VisitAll(func(f *flag.Flag) { all = append(all, f.Name+"="+f.Value.String()) })
	return all
}

// Every subject arrives with the parameters that it was sent with.
func TestSubjectsAreDescribed(t *testing.T) {
	s := newSession(t.Context(), filepath.Join(t.TempDir(), "agent"), "test", catalog.All)
	for _, spec := range catalog.All {
		if spec.Name == capture.Own {
			continue
		}
		sub := spec.New()
		switch c := sub.(type) {
		case *capture.Capture:
			c.Buffer, c.Filter = 1<<20, "udp[8:4] = 0x1"
		case *ids.IDS:
			c.Threads, c.Ring = 3, 4096
		}
		a, err := Machine{}.describe(t.Context(), subject.Named{Name: spec.Name, Subject: sub})
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.chosen(a)
		if err != nil || !slices.Equal(values(got), values(sub)) {
			t.Errorf("%s: %q, want %q; %v", spec.Name, values(got), values(sub), err)
		}
	}
}

// A tester names no file of the box, and no command.
func TestSubjectsReadWhatWasSent(t *testing.T) {
	c := dial(t, filepath.Join(t.TempDir(), "agent"))
	for what, a := range map[string]SubjectArgs{
		"a file of the box":         {Name: "suricata", Options: []result.Pair{{Key: "rules", Value: "/etc/passwd"}}},
		"a file that was not sent":  {Name: "suricata", Files: []result.Pair{{Key: "rules", Value: "../../../../etc/passwd"}}},
		"a command":                 {Name: capture.Own, Options: []result.Pair{{Key: "file", Value: "/etc/passwd"}}},
		"no subject":                {Name: "sh"},
		"a parameter of another":    {Name: "tcpdump", Options: []result.Pair{{Key: "rules", Value: ""}}},
		"a value out of its bounds": {Name: "tcpdump", Options: []result.Pair{{Key: "buffer", Value: "-1"}}},
	} {
		if _, err := SubjectCheck.Call(t.Context(), c, a); err == nil {
			t.Errorf("%s: it can run", what)
		}
		if started, err := SubjectStart.Call(t.Context(), c, a); err == nil {
			t.Errorf("%s: it runs: %+v", what, started)
		}
	}
	rules := filepath.Join(t.TempDir(), "x.rules")
	if err := os.WriteFile(rules, []byte("alert udp any any -> any any (msg:\"x\"; sid:1;)\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := ids.NewSuricata()
	s.Rules = rules
	a, err := Machine{c}.describe(t.Context(), subject.Named{Name: "suricata", Subject: s})
	if err != nil || len(a.Files) != 1 || len(a.Files[0].Value) != 64 {
		t.Fatalf("%+v, %v", a, err)
	}
	for _, o := range a.Options {
		if strings.Contains(o.Value, rules) {
			t.Errorf("%+v", o)
		}
	}
}

// cabled is an agent in a namespace with the port b, and a function that sends n frames
// of UDP there.
func cabled(t *testing.T, folder string) (c *link.Conn, send func(n int)) {
	t.Helper()
	testutil.Privileged(t)
	ns, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ns.Close() })
	socket := -1
	err = netns.Do(ns.Path(), func() error {
		attrs := netlink.NewLinkAttrs()
		attrs.Name = "a"
		if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "b"}); err != nil {
			return err
		}
		for _, name := range []string{"a", "b"} {
			l, err := netlink.LinkByName(name)
			if err == nil {
				err = netlink.LinkSetUp(l)
			}
			if err != nil {
				return err
			}
		}
		port, err := net.InterfaceByName("a")
		if err != nil {
			return err
		}
		if socket, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err != nil {
			return err
		}
		return unix.Bind(socket, &unix.SockaddrLinklayer{Ifindex: port.Index})
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(socket) })
	frame := make([]byte, 60)
	copy(frame, []byte{2, 0xbd, 0, 0, 0, 0xff, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 198, 18, 0, 2, 198, 18, 0, 1})
	binary.BigEndian.PutUint16(frame[36:], 9)
	binary.BigEndian.PutUint16(frame[38:], 26)
	c, err = hub.Dial(t.Context(), link.Agent{Name: "box", Version: "test", Argv: []string{"nsenter", "--net=" + ns.Path(), "env", "AGENT_TEST=" + folder, os.Args[0], "-test.run=^TestAgentChild$"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c, func(n int) {
		t.Helper()
		for range n {
			if _, err := unix.Write(socket, frame); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func captures(t *testing.T, name string) subject.Named {
	t.Helper()
	spec, err := catalog.Captures.Find(name)
	if err != nil {
		t.Fatal(err)
	}
	return subject.Named{Name: name, Subject: spec.New()}
}

func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for begin := time.Now(); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Since(begin) > time.Minute {
			t.Fatal(what)
		}
	}
}

// A capture on a box counts, is accounted and stopped as one here is.
func TestCaptureThere(t *testing.T) {
	testutil.NoLeaks(t)
	folder := filepath.Join(t.TempDir(), "agent")
	c, send := cabled(t, folder)
	m := Machine{c}
	s := captures(t, "af_packet")
	if err := m.Check(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	run, err := m.Start(t.Context(), s, subject.Env{Port: host.Port{Name: "b"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := run.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := unit.Now()
	send(500)
	live := run.(subject.Progresser)
	await(t, "it does not count", func() bool { n, _, _ := live.Progress(); return n == 500 })
	if _, at, ok := live.Progress(); !ok || at < before-unit.Instant(50*time.Millisecond) || at > unit.Now() {
		t.Errorf("it counted them at %v, after %v", at, before)
	}
	if cpu, peak, ok := run.(interface {
		Main() (time.Duration, uint64, bool)
	}).Main(); !ok || peak < 1<<20 || cpu > time.Minute {
		t.Errorf("its main process: %v, %d octets, %v", cpu, peak, ok)
	}
	u, err := run.Usage()
	if err != nil || u.CPU <= 0 || u.Subject != "af_packet" {
		t.Errorf("%+v, %v", u, err)
	}
	for range 2 {
		if err := run.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if err := run.(subject.Ender).Ended(); err != nil {
		t.Error(err)
	}
	total := run.(interface{ Totals() capture.Totals }).Totals()
	terms, err := run.(subject.Counter).Count(t.Context())
	if err != nil || total.Captured != 500 || total.Kernel != 0 || len(terms) == 0 || terms[0].Place != result.Socket || terms[0].Host != Label {
		t.Errorf("%+v, %+v, %v", total, terms, err)
	}
	if after, err := run.Usage(); err != nil || after.CPU < u.CPU {
		t.Errorf("%+v, %v", after, err)
	}
	if names := left(t, folder); len(names) != 0 {
		t.Errorf("%q stay", names)
	}
}

// What goes wrong with a subject there is its own fault; what goes wrong with the box is
// not, and nothing is left there.
func TestFaultsThere(t *testing.T) {
	for _, c := range []struct {
		name string
		kill func(t *testing.T, c *link.Conn, counter int)
		lost bool
	}{
		{"subject", func(t *testing.T, _ *link.Conn, counter int) {
			if err := unix.Kill(counter, unix.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}, false},
		{"connection", func(t *testing.T, c *link.Conn, _ int) { c.Close() }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			testutil.NoLeaks(t)
			folder := filepath.Join(t.TempDir(), "agent")
			conn, _ := cabled(t, folder)
			run, err := Machine{conn}.Start(t.Context(), captures(t, "af_packet"), subject.Env{Port: host.Port{Name: "b"}})
			if err == nil {
				err = run.Ready(t.Context())
			}
			if err != nil {
				t.Fatal(err)
			}
			pids := counters(folder)
			if len(pids) != 1 {
				t.Fatalf("%v work in %s", pids, folder)
			}
			c.kill(t, conn, pids[0])
			ended := run.(subject.Ender)
			await(t, "it is not said to have ended", func() bool { return ended.Ended() != nil })
			if err := ended.Ended(); errors.Is(err, subject.ErrLost) != c.lost {
				t.Errorf("%v", err)
			}
			if _, err := run.Usage(); c.lost && !errors.Is(err, subject.ErrLost) {
				t.Errorf("%v", err)
			}
			if err := run.Stop(t.Context()); errors.Is(err, subject.ErrLost) != c.lost || !c.lost && err != nil {
				t.Errorf("%v", err)
			}
			await(t, "a subject is left", func() bool { return len(counters(folder)) == 0 && len(left(t, folder)) == 0 })
		})
	}
}

// counters are the processes that work below a folder.
func counters(folder string) (pids []int) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		cwd, lerr := os.Readlink("/proc/" + e.Name() + "/cwd")
		words, _ := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		if err == nil && lerr == nil && strings.HasPrefix(cwd, folder+"/") && strings.Contains(string(words), "count-frames") {
			pids = append(pids, pid)
		}
	}
	return pids
}

func TestSubjectsThatAreMissing(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	s := newSession(t.Context(), filepath.Join(t.TempDir(), "agent"), "test", catalog.All)
	a, err := Machine{}.describe(t.Context(), captures(t, "dumpcap"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.checkSubject(t.Context(), a); err == nil {
		t.Error("it can run")
	}
}

// Clocks are compared while a subject runs, and not at its start alone.
func TestFarClockIsComparedAgain(t *testing.T) {
	testutil.NoLeaks(t)
	every := clockEvery
	clockEvery = 10 * time.Millisecond
	defer func() { clockEvery = every }()
	r := &far{on: Machine{dial(t, t.TempDir())}, clock: link.ClockOffset{Offset: time.Hour}}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); r.compare(ctx) }()
	defer func() { cancel(); <-ended }()
	for begin := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		r.mu.Lock()
		c := r.clock
		r.mu.Unlock()
		if c.Offset.Abs() <= c.Error && c.Error > 0 { // it is this machine's
			return
		}
		if time.Since(begin) > time.Minute {
			t.Fatalf("%+v", c)
		}
	}
}

// A port that cannot be put back costs a trial nothing: the subject's totals come beside the
// port's error, which the tester tells.
func TestTotalsBesideAPortsError(t *testing.T) {
	s := newSession(t.Context(), t.TempDir(), "test", catalog.All)
	s.subjects[1] = &running{Running: counted{}, over: make(chan struct{}), release: func() error { return errors.New("busy") }, forget: s.atEnd(func() error { return nil })}
	told, err := s.stopSubject(t.Context(), 1)
	if err != nil || told.PortError != "busy" || told.Totals == nil || told.Totals.Captured != 7 || told.Usage.CPU != time.Second {
		t.Fatalf("%+v, %v", told, err)
	}
	if _, err := s.stopSubject(t.Context(), 1); err == nil {
		t.Error("it is stopped twice")
	}
	if len(s.ends) > 0 {
		t.Error("a subject that was stopped is kept until the connection ends")
	}
	r := &far{on: Machine{&link.Conn{Name: "box"}}, told: &told}
	if err := r.Stop(t.Context()); err != nil || r.Totals().Captured != 7 {
		t.Errorf("%+v, %v", r.Totals(), err)
	}
	if err := r.PortError(); err == nil || !strings.Contains(err.Error(), "the port of box was not put back") || !strings.Contains(err.Error(), "busy") {
		t.Errorf("%v", err)
	}
	told.PortError = ""
	if err := r.PortError(); err != nil {
		t.Errorf("%v", err)
	}
}

// counted is a subject that has counted seven frames.
type counted struct{}

func (counted) Ready(context.Context) error  { return nil }
func (counted) Stop(context.Context) error   { return nil }
func (counted) Usage() (result.Usage, error) { return result.Usage{CPU: time.Second}, nil }
func (counted) Totals() capture.Totals       { return capture.Totals{Captured: 7} }
