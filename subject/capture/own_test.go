// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"boxdyno/host"
	"boxdyno/internal/testutil"
	"boxdyno/internal/yaml"
	"boxdyno/result"
	"boxdyno/subject"
	"boxdyno/subject/internal/subjecttest"
)

// The description on the page is one.
func TestOwnOnItsPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/subjects.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```yaml\n")
	text, _, ok := strings.Cut(rest, "```")
	if !ok {
		t.Fatal("docs/subjects.md shows no description")
	}
	o, err := parseOwn("subjects.md", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if s := o.parse("x captured=17 y"); s.Counted != 17 || s.Own != -1 {
		t.Errorf("%+v", s)
	}
	if s := o.parse(`{"drops": {"queue": 4}}`); s.Counted != -1 || s.Own != 4 {
		t.Errorf("%+v", s)
	}
	if s := o.parse("listening on a"); !s.Ready {
		t.Errorf("%+v", s)
	}
	if argv, err := o.tool().Argv(&Capture{}, Place{Env: subject.Env{Port: host.Port{Name: "lan"}, CPUs: []int{0, 2}}}); err != nil || strings.Join(argv, " ") != "taskset -c 0,2 my-sniffer --interface lan" {
		t.Errorf("%v, %v", argv, err)
	}
}

func TestOwnErrors(t *testing.T) {
	const good = "name: x\nwork: count\ncommand: [x]\n"
	for text, want := range map[string]string{
		"[1]":                             "f:1:1",
		good:                              "count is missing",
		good + "count: x\n":               `f:4:8: count "x": want one group`,
		good + "count: '('\n":             "f:4:8: count: error parsing regexp",
		good + "count: (x)\ncount_key: y": "leave one out",
		good + "count_key: y\nshell: x":   "shell",
		good + "count_key: y\npacket_socket: perhaps":                          "want true or false",
		"name: X\nwork: count\ncommand: [x]\ncount_key: x\n":                   `name "X"`,
		"name: x\nwork: much\ncommand: [x]\ncount_key: x\n":                    `work "much": want count, decode`,
		"name: x\nwork: count\ncommand: x -i\ncount_key: x\n":                  "command is missing",
		"name: x\nwork: count\ncommand: [x, '{interface}']\ncount_key: x\n":    "f:3:14: {interface}: the placeholders are {port}",
		"name: x\nwork: count\ncommand: [x]\ncount_key: x\nready: [a]\n":       "ready",
		"name: x\nwork: count\ncommand: [x]\ncount_key: x\ndropped: 'a(b)(c)'": "want one group",
	} {
		if _, err := parseOwn("f", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// A file is read once, and not without end.
func TestOwnIsReadOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "own.yaml")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	c := New(&own)
	c.File = file
	write("name: mine\nwork: count\ncommand: [x]\ncount_key: seen\n")
	first, err := c.resolve()
	if err != nil || first.Name != "mine" {
		t.Fatal(first, err)
	}
	write("name: other\nwork: count\ncommand: [y]\ncount_key: seen\n")
	if again, err := c.resolve(); again != first || err != nil {
		t.Errorf("the file was read again: %+v, %v", again, err)
	}
	write(strings.Repeat("#", yaml.MaxSize+1))
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{file: "has more than 65536 octets", "/dev/zero": "not a regular file", pipe: "not a regular file"} {
		c := New(&own)
		c.File = name
		if _, err := c.resolve(); err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A program from a file runs like any other.
func TestOwnRuns(t *testing.T) {
	testutil.NoLeaks(t)
	_, port := subjecttest.Pair(t)
	dir := t.TempDir()
	script, file := filepath.Join(dir, "sniffer"), filepath.Join(dir, "own.yaml")
	program := "#!/bin/sh\ntrap 'echo \"{\\\"seen\\\": 9, \\\"lost\\\": 2}\"; exit 0' INT\ntest \"$1\" = b || exit 3\ntest -d \"$2\" || exit 4\nn=0\nwhile :; do n=$((n+1)); test $n -gt 7 && n=7; echo \"{\\\"seen\\\": $n}\"; sleep 0.05; done\n"
	if err := errors.Join(os.WriteFile(script, []byte(program), 0o755),
		os.WriteFile(file, []byte("name: mine\nwork: count\ncommand: ["+script+", '{port}', '{dir}']\ncount_key: seen\ndropped_key: lost\npacket_socket: false\n"), 0o644)); err != nil {
		t.Fatal(err)
	}
	c := New(&own)
	c.File = file
	r, err := c.Run(t.Context(), subject.Env{Port: port})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Ready(t.Context()); err != nil {
		t.Error(err)
	}
	subjecttest.Eventually(t, "it counts to 7", func() bool { n, _, _ := r.Progress(); return n == 7 || r.Ended() != nil })
	if err := errors.Join(r.Stop(t.Context()), r.Ended()); err != nil {
		t.Fatal(err)
	}
	if got := r.Totals(); got.Captured != 9 || got.Own != 2 || got.Kernel != -1 {
		t.Errorf("%+v", got)
	}
	if u, err := r.Usage(); err != nil || u.Subject != "mine" {
		t.Errorf("%+v, %v", u, err)
	}
}

// What a program of one's own does not tell is read at its socket: frames are those that
// it counted, that were dropped for want of room, and that it left in its buffer; of one
// that has to be killed, too.
func TestOwnSocketsAreRead(t *testing.T) {
	for _, onSignal := range []string{"lambda *_: os._exit(0)", "signal.SIG_IGN"} {
		t.Run(onSignal, func(t *testing.T) { readOwnSockets(t, onSignal) })
	}
}

func readOwnSockets(t *testing.T, onSignal string) {
	testutil.NoLeaks(t)
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("needs python3: install it")
	}
	from, to := subjecttest.Pair(t)
	dir := t.TempDir()
	script, file := filepath.Join(dir, "sniffer.py"), filepath.Join(dir, "own.yaml")
	program := `import os, signal, socket, sys, time
signal.signal(signal.SIGINT, ` + onSignal + `)
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32768)
s.bind((sys.argv[1], 0x0800))
print("listening", flush=True)
for n in range(10):
    s.recv(2048)
    print("seen=%d" % (n + 1), flush=True)
time.sleep(60)
`
	if err := errors.Join(os.WriteFile(script, []byte(program), 0o644),
		os.WriteFile(file, []byte("name: mine\nwork: count\ncommand: ["+python+", "+script+", '{port}']\nready: listening\ncount: 'seen=([0-9]+)'\n"), 0o644)); err != nil {
		t.Fatal(err)
	}
	c := New(&own)
	c.File = file
	r, err := c.Run(t.Context(), subject.Env{Port: to})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Ready(t.Context()); err != nil {
		t.Error(err)
	}
	const sent = 1000
	subjecttest.Send(t, from, sent, 10_000)
	subjecttest.Eventually(t, "it counts to 10", func() bool { n, _, _ := r.Progress(); return n == 10 || r.Ended() != nil })
	if !r.Untold() {
		t.Error("it tells what was dropped")
	}
	if err := errors.Join(r.ReadSockets(), r.Stop(t.Context())); err != nil {
		t.Fatal(err)
	}
	if err := r.Ended(); (err != nil) != (onSignal == "signal.SIG_IGN") {
		t.Errorf("it ended: %v", err)
	}
	terms, err := r.Count(t.Context())
	if err != nil || len(terms) != 3 {
		t.Fatalf("%+v, %v", terms, err)
	}
	kernel, left := terms[0], terms[2]
	if kernel.Place != result.Socket || kernel.N < 100 || left.Place != result.SubjectAt || left.N < 1 || 10+kernel.N+left.N != sent {
		t.Errorf("of %d frames: %+v", sent, terms)
	}
}
