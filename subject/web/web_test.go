// SPDX-License-Identifier: Apache-2.0

package web

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"boxdyno/host"
	"boxdyno/internal/testutil"
)

func TestMain(m *testing.M) {
	host.KeepMain()
	os.Exit(m.Run())
}

// No worker of a server outlives SIGKILL of what started it.
func TestWorkersEnd(t *testing.T) {
	testutil.Privileged(t) // a process namespace
	l := Local{Host: &host.Local{}, Dir: t.TempDir()}
	var missing *host.Missing
	if err := l.HasWeb(t.Context()); errors.As(err, &missing) {
		t.Skip(missing)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := netip.MustParseAddrPort(free.Addr().String())
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	s, err := l.ServeWeb(t.Context(), at, nil)
	if err != nil {
		t.Fatal(err)
	}
	p := s.(*serving)
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID))
	_, after, _ := strings.Cut(string(stat), ") ")
	var state string
	var keeper int
	if _, serr := fmt.Sscan(after, &state, &keeper); err != nil || serr != nil {
		t.Fatal(err, serr)
	}
	workers := p.PIDs()
	if len(workers) < 2 {
		t.Fatalf("processes %d: a master and workers are wanted", workers)
	}
	if err := unix.Kill(keeper, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for begin := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		there, err := l.listens(at)
		if err != nil {
			t.Fatal(err)
		}
		if !there {
			break
		}
		if time.Since(begin) > time.Minute {
			for _, pid := range workers {
				_ = unix.Kill(pid, unix.SIGKILL) // the master is gone
			}
			t.Fatal("workers still listen")
		}
	}
}

// A server listens at one address, never at all of them.
func TestListensAtOneAddress(t *testing.T) {
	for _, at := range []string{"0.0.0.0:80", "198.18.0.1:0", "[::]:80", "[2001:2::1]:80"} {
		if s, err := (Local{}).ServeWeb(t.Context(), netip.MustParseAddrPort(at), nil); err == nil {
			t.Errorf("%s is taken", at)
			_ = s.Kill()
		}
	}
}
