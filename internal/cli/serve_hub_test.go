// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"boxdyno/fleet/hub"
	"boxdyno/serve"
)

// One process shows runs and carries the hub, with a NATS server in it or another one: browsers
// see what fleet ls sees, but for whom ssh reaches.
func TestServeWithHub(t *testing.T) {
	for _, external := range []bool{false, true} {
		t.Run(map[bool]string{false: "embedded", true: "external"}[external], func(t *testing.T) {
			folder := filepath.Join(t.TempDir(), "hub")
			at := []string{"--hub", "127.0.0.1:0"}
			if external {
				url, ca := natsServer(t, folder)
				at = []string{"--hub", url, "--hub-ca", ca}
			}
			serveWithHub(t, folder, at)
		})
	}
}

// natsServer is a NATS server of an operator, with the rules of the hub in a folder. It returns
// its URL, and the file of its certificate.
func natsServer(t *testing.T, folder string) (url, ca string) {
	var rules, errs bytes.Buffer
	if code := Main(t.Context(), []string{"fleet", "hub", "--rules", "--folder", folder}, &rules, &errs); code != exitOK {
		t.Fatalf("%d: %s", code, &errs)
	}
	dir := t.TempDir()
	if _, _, err := serve.OwnCertificate(dir, nil, nil); err != nil {
		t.Fatal(err)
	}
	ca = filepath.Join(dir, "cert.pem")
	config := filepath.Join(dir, "nats.conf")
	text := fmt.Sprintf("%slisten: 127.0.0.1:-1\ntls { cert_file: %q, key_file: %q }\n", &rules, ca, filepath.Join(dir, "key.pem"))
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	o, err := server.ProcessConfigFile(config)
	if err != nil {
		t.Fatal(err)
	}
	o.NoLog, o.NoSigs = true, true
	srv, err := server.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
	if !srv.ReadyForConnections(time.Minute) {
		t.Fatal("the server does not start")
	}
	return "tls://" + srv.Addr().String(), ca
}

func serveWithHub(t *testing.T, folder string, at []string) {
	t.Setenv("XDG_STATE_HOME", filepath.Join(t.TempDir(), "state"))
	t.Setenv("SUDO_UID", "")
	var out bytes.Buffer
	if code := Main(t.Context(), []string{"serve", "--hub", "127.0.0.1:0", "--hub-ca", "ca.pem"}, &out, &out); code != exitUsage || !strings.Contains(out.String(), "--hub-ca: the hub at 127.0.0.1:0 has a certificate of its own") {
		t.Fatalf("%d: %s", code, out.Bytes())
	}
	out.Reset()
	if code := Main(t.Context(), []string{"serve", "--hub-folder", folder}, &out, &out); code != exitUsage || !strings.Contains(out.String(), "without --hub") {
		t.Fatalf("%d: %s", code, out.Bytes())
	}
	ctx, stop := context.WithCancel(t.Context())
	said, notes, ended := new(lockedBuffer), new(lockedBuffer), make(chan int)
	go func() {
		ended <- Main(ctx, append([]string{"serve", "--listen", "127.0.0.1:0", "--hub-folder", folder, "--hub-boards", "tls://hub.example:4222"}, at...), said, notes)
	}()
	t.Cleanup(func() {
		stop()
		if code := <-ended; code != exitOK {
			t.Errorf("serve ends with %d: %s", code, notes)
		}
	})
	for begin := time.Now(); !strings.Contains(said.String(), "\n"); time.Sleep(5 * time.Millisecond) {
		if time.Since(begin) > time.Minute {
			t.Fatalf("serve does not listen: %s%s", said, notes)
		}
	}
	address, _, _ := strings.Cut(said.String(), "#")
	if !strings.Contains(notes.String(), "the hub is at tls://127.0.0.1:") {
		t.Errorf("it does not say where the hub is: %s", notes)
	}
	out.Reset()
	if code := Main(t.Context(), []string{"fleet", "token", "pi1", "--folder", folder}, &out, &out); code != exitOK || !strings.Contains(out.String(), "boxdyno-agent join tls://hub.example:4222 ") {
		t.Fatalf("%d: %s", code, out.Bytes())
	}
	type boards struct {
		Boards    []hub.Entry    `json:"boards"`
		Strangers []hub.Stranger `json:"strangers"`
	}
	var web, ls boards
	answer, err := http.Get(address + "api/fleet")
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(answer.Body)
	answer.Body.Close()
	if err != nil || json.Unmarshal(data, &web) != nil || web.Boards == nil || web.Strangers == nil {
		t.Fatalf("%v: %s", err, data)
	}
	out.Reset()
	if code := Main(t.Context(), []string{"fleet", "ls", "--json", "--folder", folder}, &out, &out); code != exitOK || json.Unmarshal(out.Bytes(), &ls) != nil || len(ls.Boards) != len(web.Boards) {
		t.Fatalf("%d: %s", code, out.Bytes())
	}
	out.Reset()
	if code := Main(t.Context(), []string{"fleet", "hub", "--listen", "127.0.0.1:0", "--folder", folder}, &out, &out); code != exitMissing || !strings.Contains(out.String(), "no other hub") {
		t.Errorf("a second hub: %d: %s", code, out.Bytes())
	}
}

// What browsers are shown of boards has each state's number, and nobody's ssh.
func TestShownFleet(t *testing.T) {
	all := []hub.Entry{{Board: hub.Board{Name: "b1", SSH: "root@192.0.2.1"}, State: "ready"}, {State: "silent"}, {State: "trial"}, {State: "ready"}}
	f := shownFleet(all, nil)
	data, err := json.Marshal(f)
	if err != nil || strings.Contains(string(data), "192.0.2.1") || !strings.Contains(string(data), `"strangers":[]`) || all[0].SSH == "" {
		t.Errorf("%v: %s", err, data)
	}
	counted := 0
	for _, s := range f.States {
		counted += s.Boards
		if want := map[string]int{"ready": 2, "silent": 1, "trial": 1}[s.Name]; s.Boards != want {
			t.Errorf("%d boards are %s, want %d", s.Boards, s.Name, want)
		}
	}
	if counted != len(all) {
		t.Errorf("%d of %d boards are in a state", counted, len(all))
	}
}

// Boards' words do nothing to the terminal of a hub, and are no lines of its own.
func TestHubNote(t *testing.T) {
	var out bytes.Buffer
	(&app{err: &out}).hubNote("board b1: \x1b]0;x\a\nboard b2: \u009b2J")
	if got := out.String(); strings.ContainsAny(got, "\x1b\a\u009b") || strings.Count(got, "\n") != 1 {
		t.Errorf("%q", got)
	}
}

// An address that is taken, or none, and a folder of runs that is not there end serve in
// one sentence.
func TestServeRefuses(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, c := range []struct {
		want int
		said string
		args []string
	}{
		{exitOther, "another serve may use the address", []string{"--listen", taken.Addr().String()}},
		{exitUsage, "--listen: ", []string{"--listen", "127.0.0.1:99999"}},
		{exitUsage, "--runs: there is no folder /nonexistent", []string{"--runs", "/nonexistent"}},
	} {
		var out bytes.Buffer
		if code := Main(t.Context(), append([]string{"serve"}, c.args...), &out, &out); code != c.want || !strings.Contains(out.String(), c.said) || strings.Count(out.String(), "\n") != 1 {
			t.Errorf("%s: exit code %d, %q", c.args, code, out.String())
		}
	}
}
