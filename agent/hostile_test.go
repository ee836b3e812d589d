// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"boxdyno/host"
	"boxdyno/internal/testutil"
	"boxdyno/link"
	"boxdyno/link/hub"
	"boxdyno/result"
	"boxdyno/service"
	"boxdyno/subject"
	"boxdyno/subject/capture"
	"boxdyno/subject/catalog"
)

// A box that answers every call with the same, and one that never answers. The answer to
// the clock is link's own.
func TestHostileChild(t *testing.T) {
	answer := os.Getenv("AGENT_TEST_HOSTILE")
	if answer == "" {
		return // it is a child of others
	}
	in, out := link.Streams()
	_ = link.Serve(context.Background(), in, out, "test", func(string) link.Handler {
		return func(ctx context.Context, r *link.Request) (any, error) {
			switch answer {
			case "never":
				<-ctx.Done()
				return nil, ctx.Err()
			case "long":
				return strings.Repeat("x", mostAnswer), nil
			case "items":
				for {
					if err := r.Send(ctx, 1); err != nil {
						return nil, err
					}
				}
			}
			return json.RawMessage(answer), nil
		}
	})
	os.Exit(0)
}

func hostile(t *testing.T, answer string) *link.Conn {
	t.Helper()
	c, err := hub.Dial(t.Context(), link.Agent{Name: "box", Version: "test", Argv: []string{"env", "AGENT_TEST_HOSTILE=" + answer, os.Args[0], "-test.run=^TestHostileChild$"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// Whatever a box answers is one short error, or plain data; nothing waits without end.
func TestHostileAnswers(t *testing.T) {
	testutil.NoLeaks(t)
	was := answering
	answering = 2 * time.Second
	defer func() { answering = was }()
	file := []byte("some rules")
	for answer, want := range map[string]string{
		"never":                        "has not answered",
		"long":                         "at most 1048576 are taken",
		"items":                        "a stream where one answer",
		"[]":                           "cannot be read",
		`{"machine":{"cpus":1e400}}`:   "cannot be read",
		`{"have":0}`:                   "has 0 octets where",
		`{"have":-5}`:                  "has -5 octets where 0 were sent",
		`{"have":9223372036854775807}`: "has 9223372036854775807 octets where",
	} {
		c := hostile(t, answer)
		_, err := Put(t.Context(), c, bytes.NewReader(file))
		if err == nil || !strings.Contains(err.Error(), want) && !strings.HasPrefix(answer, `{"machine"`) || len(err.Error()) > 2000 || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.40s: %v does not say %q", answer, err, want)
		}
		if _, err := Identify.Call(t.Context(), c, IdentifyArgs{Ports: []string{"eth0"}}); err == nil && !strings.HasPrefix(answer, `{"have"`) || err != nil && len(err.Error()) > 2000 {
			t.Errorf("%.40s: %v", answer, err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A subject on such a box has no figures, and its errors are short.
func TestHostileSubject(t *testing.T) {
	testutil.NoLeaks(t)
	c := hostile(t, `{"id":-9223372036854775808,"rare_ns":-1,"counted":-1,"at":-9223372036854775808,"ended":"`+strings.Repeat(`\u001b[2J`, 5000)+`"}`)
	spec, err := catalog.All.Find("tcpdump")
	if err != nil {
		t.Fatal(err)
	}
	run, err := Machine{c}.Start(t.Context(), subject.Named{Name: spec.Name, Subject: spec.New()}, subject.Env{})
	if err != nil {
		t.Fatal(err)
	}
	if err := run.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if err := run.(subject.Ender).Ended(); err != nil && len(err.Error()) > 1100 {
		t.Errorf("an error of %d octets", len(err.Error()))
	}
	far := run.(*far)
	far.state = SubjectState{Ended: strings.Repeat("x", 9000)}
	if err := far.Ended(); err == nil || len(err.Error()) > 1100 {
		t.Errorf("an error of %d octets", len(err.Error()))
	}
}

// A FIFO among a subject's files is refused; nothing waits for it.
func TestFilesThatAreNone(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "rules")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { _, err := Machine{}.send(t.Context(), fifo); ended <- err }()
	select {
	case err := <-ended:
		if err == nil || !strings.Contains(err.Error(), "it is not a regular file") {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("it waits")
	}
}

// What another user, or an agent that was killed, has put into the agent's folder is not
// followed, and the folder is the agent's own.
func TestPlantedFolder(t *testing.T) {
	parent := t.TempDir()
	folder, away := filepath.Join(parent, "agent"), filepath.Join(parent, "away")
	session := func() *Session { return newSession(t.Context(), folder, "test", catalog.All) }
	if err := errors.Join(os.Mkdir(folder, 0o700), os.Mkdir(away, 0o700)); err != nil {
		t.Fatal(err)
	}
	s := session()
	if err := os.Symlink(away, s.filesDir()); err != nil {
		t.Fatal(err)
	}
	part := FileChunk{SHA256: "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881", Size: 1, Data: []byte("x")}
	if state, err := s.putFile(t.Context(), part); err != nil || state.Path == "" {
		t.Errorf("%+v, %v", state, err)
	}
	if err := s.end(); err != nil {
		t.Error(err)
	}
	if names := append(left(t, away), left(t, folder)...); len(names) > 0 {
		t.Errorf("%q were written by a link, or stay", names)
	}
	var missing *host.Missing
	refused := func(what string) {
		t.Helper()
		if err := session().ownFolder(); !errors.As(err, &missing) || !strings.Contains(err.Error(), folder) {
			t.Errorf("%s: %v", what, err)
		}
		if _, err := session().putFile(t.Context(), part); !errors.As(err, &missing) {
			t.Errorf("%s: %v", what, err)
		}
		if _, err := session().hold(t.Context(), HoldArgs{}); !errors.As(err, &missing) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := os.Chmod(folder, 0o777); err != nil {
		t.Fatal(err)
	}
	refused("a folder of everybody's")
	if os.Geteuid() != 0 {
		t.Skip("needs root to make a folder of another user: run script/test with sudo")
	}
	if err := errors.Join(os.Chmod(folder, 0o700), os.Chown(folder, 12345, 12345)); err != nil {
		t.Fatal(err)
	}
	refused("a folder of another user")
	if err := errors.Join(os.Remove(folder), os.Symlink(away, folder), os.Lchown(folder, 12345, 12345)); err != nil {
		t.Fatal(err)
	}
	refused("a link of another user")
	if err := os.Lchown(folder, 0, 0); err != nil {
		t.Fatal(err)
	}
	if err := session().ownFolder(); err != nil {
		t.Errorf("a link of root's: %v", err)
	}
}

// An agent of another process namespace may live: its files stay.
func TestSweepIsOfThisNamespace(t *testing.T) {
	folder := t.TempDir()
	const gone = 1 << 30 // above any process ID
	mine, others := fmt.Sprint(filesPrefix(), gone), fmt.Sprint("files-1-", gone)
	if err := errors.Join(os.Mkdir(filepath.Join(folder, mine), 0o700), os.Mkdir(filepath.Join(folder, others), 0o700)); err != nil {
		t.Fatal(err)
	}
	sweep(folder)
	if names := left(t, folder); len(names) != 1 || names[0] != others {
		t.Errorf("%q stay, want %q", names, others)
	}
}

// An address whose network holds most others would take the box's own traffic.
func TestShortNetworksAreRefused(t *testing.T) {
	s := newSession(t.Context(), filepath.Join(t.TempDir(), "agent"), "test", catalog.All)
	for _, a := range []string{"198.18.3.1/0", "198.18.3.1/1", "198.18.3.1/7", "2001:2::1/0", "2001:2::1/31"} {
		at := netip.MustParsePrefix(a)
		_, err := s.manage(t.Context(), ManageArgs{Ports: []service.Port{{Name: "none9", Addresses: []netip.Prefix{at}, Hops: []netip.Addr{at.Addr().Next()}}}})
		if err == nil || !strings.Contains(err.Error(), "its network would have the machine's other traffic") {
			t.Errorf("%s: %v", a, err)
		}
	}
}

// A tester opens no more than a box can bear, and runs no command of a file that it sent.
func TestSessionIsBounded(t *testing.T) {
	s := newSession(t.Context(), filepath.Join(t.TempDir(), "agent"), "test", catalog.All)
	for i := range mostBooks {
		s.books[i] = nil
	}
	if _, err := s.openLedger(t.Context(), LedgerArgs{}); err == nil || !strings.Contains(err.Error(), "too many ledgers") {
		t.Error(err)
	}
	for i := range mostSubjects {
		s.subjects[i] = nil
	}
	if _, err := s.startSubject(t.Context(), SubjectArgs{Name: "tcpdump"}); err == nil || !strings.Contains(err.Error(), "too many subjects") {
		t.Error(err)
	}
	clear(s.subjects)
	text := "name: x\nwork: count\ncommand: [/bin/true]\ncount: '(\\d+)'\n"
	sum := sha256.Sum256([]byte(text))
	part := FileChunk{SHA256: hex.EncodeToString(sum[:]), Size: int64(len(text)), Data: []byte(text)}
	if state, err := s.putFile(t.Context(), part); err != nil || state.Path == "" {
		t.Fatalf("%+v, %v", state, err)
	}
	for _, a := range []SubjectArgs{{Name: capture.Own, Files: []result.Pair{{Key: "file", Value: part.SHA256}}}, {Name: capture.Own, Options: []result.Pair{{Key: "file", Value: "/tmp/own.yaml"}}}} {
		if _, err := s.startSubject(t.Context(), a); err == nil || !strings.Contains(err.Error(), "runs no commands") {
			t.Error(err)
		}
	}
}
