// SPDX-License-Identifier: Apache-2.0

package far

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"boxdyno/agent"
	"boxdyno/lab"
	"boxdyno/link"
	"boxdyno/result"
	"boxdyno/service"
	"boxdyno/unit"
)

func paths(hops ...agent.Hop) []agent.Path { return []agent.Path{{Hops: hops}} }

// What a board asks of another one is passed on as far as it is of the procedure.
func TestPairAllows(t *testing.T) {
	at := netip.MustParseAddr("10.0.0.2")
	options := []result.Pair{{Key: "buffer", Value: "4096"}}
	p := &Pair{
		Software: agent.SubjectArgs{Name: "tcpdump", Options: options}, Cable: lab.BoardCable{Port: "eth1", To: "eth2", Other: at},
		begun: map[begun]bool{{string(agent.SubjectStop), 3}: true, {string(agent.LedgerClose), 4}: true},
	}
	hop := agent.Hop{Place: result.DUTNIC, Host: "dut", Port: "eth2", Mine: true}
	tester := agent.Hop{Place: result.Tester, Host: "tester", Port: "eth1"}
	other := hop
	other.Port = "eth0"
	for _, c := range []struct {
		method string
		args   any
		want   bool
	}{
		{"clock", nil, true},
		{"hold", agent.HoldArgs{}, true},
		{"subject.start", agent.SubjectArgs{Name: "tcpdump", Options: options, Port: "eth2"}, true},
		{"subject.check", agent.SubjectArgs{Name: "tcpdump", Options: options}, true},
		{"subject.start", agent.SubjectArgs{Name: "stress", Options: options, Port: "eth2"}, false},
		{"subject.start", agent.SubjectArgs{Name: "tcpdump", Options: options, Port: "eth0"}, false},
		{"subject.start", agent.SubjectArgs{Name: "tcpdump", Options: options}, false},
		{"subject.check", agent.SubjectArgs{Name: "tcpdump", Options: options, Port: "eth0"}, false},
		{"subject.start", agent.SubjectArgs{Name: "tcpdump", Port: "eth2"}, false},
		{"subject.check", agent.SubjectArgs{Name: "tcpdump", Options: []result.Pair{{Key: "buffer", Value: "1073741824"}}}, false},
		{"subject.start", agent.SubjectArgs{Name: "tcpdump", Options: options, Port: "eth2", Foreign: true}, false},
		{"subject.start", agent.SubjectArgs{Name: "tcpdump", Options: options, Port: "eth2", CPUs: []int{0}}, false},
		{"subject.start", agent.SubjectArgs{Name: "tcpdump", Options: options, Port: "eth2", Files: []result.Pair{{Key: "file", Value: "x"}}}, false},
		{"subject.begin", 1, false},
		{"subject.usage", 3, true},
		{"subject.usage", 4, false},
		{"subject.stop", 2, false},
		{"ledger.read", 4, true},
		{"ledger.read", 3, false},
		{"ledger.close", 1, false},
		{"identify", agent.IdentifyArgs{Ports: []string{"eth2"}}, true},
		{"identify", agent.IdentifyArgs{Ports: []string{"eth2", "eth0"}}, false},
		{"receive.read", []string{"eth2"}, true},
		{"receive.read", []string{"eth0"}, false},
		{"ledger.open", agent.LedgerArgs{Paths: paths(tester, hop), Bare: true}, true},
		{"ledger.open", agent.LedgerArgs{Paths: paths(tester, hop)}, false},
		{"ledger.open", agent.LedgerArgs{Paths: paths(tester, other), Bare: true}, false},
		{"ledger.open", agent.LedgerArgs{Paths: paths(hop, hop), Bare: true}, false},
		{"ledger.open", agent.LedgerArgs{Paths: paths(tester, hop, hop), Bare: true}, false},
		{"ledger.open", agent.LedgerArgs{Paths: append(paths(tester, hop), paths(tester, hop)...), Bare: true}, false},
		{"ledger.open", agent.LedgerArgs{Bare: true}, false},
		{"network.announce", agent.AnnounceArgs{Port: "eth2", Station: at}, true},
		{"network.announce", agent.AnnounceArgs{Port: "eth2", Station: at.Next()}, false},
		{"network.announce", agent.AnnounceArgs{Port: "eth0", Station: at}, false},
		{"network.pair", nil, false},
		{"network.run", nil, false},
		{"procedure.run", nil, false},
		{"iperf.send", nil, false},
		{"tune.apply", nil, false},
		{"service.manage", nil, false},
		{"file.put", nil, false},
		{"update.begin", nil, false},
	} {
		args, err := json.Marshal(c.args)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.allows(c.method, args); (err == nil) != c.want {
			t.Errorf("%s %s: %v", c.method, args, err)
		}
	}
	if p.allows("subject.usage", []byte("{}")) == nil || p.allows("receive.read", []byte("1")) == nil || p.allows("subject.start", []byte("[")) == nil || p.allows("ledger.open", []byte("1")) == nil || p.allows("network.announce", []byte(`""`)) == nil {
		t.Error("arguments that cannot be read are passed on")
	}
}

// What a board asks of another one that sends frames back is passed on as far as it is of the
// procedure, exactly, and is ended once.
func TestArmAllows(t *testing.T) {
	at := lab.BoardCable{Port: "eth1", To: "eth2", Address: netip.MustParseAddr("10.0.0.7")}
	asked := lab.Service{Kind: "filter", Rules: 100, Flows: 1, Networks: 1}
	p := &Pair{Cable: at, Routes: true, Service: asked}
	port := func(name, address, hop string) service.Port {
		return service.Port{Name: name, Addresses: []netip.Prefix{netip.MustParsePrefix(address)}, Hops: []netip.Addr{netip.MustParseAddr(hop)}}
	}
	one, two := port("eth2", "198.18.0.29/16", "198.18.0.30"), port("eth2", "198.19.0.29/16", "198.19.0.30")
	ports := agent.ManageArgs{Ports: []service.Port{one, two}}
	hop := agent.Hop{Port: "eth2", Mine: true}
	tester := agent.Hop{Port: "eth1"}
	check := func(want bool, method string, args any) {
		t.Helper()
		raw, err := json.Marshal(args)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.allows(method, raw); (err == nil) != want {
			t.Errorf("%s %s: %v", method, raw, err)
		}
	}
	check(true, "service.manage", ports)
	for _, bad := range [][]service.Port{
		nil, {one}, {two, one}, {one, two, one}, {one, one},
		{port("eth0", "198.18.0.29/16", "198.18.0.30"), two},
		{port("eth2", "198.18.0.33/16", "198.18.0.34"), two},
		{port("eth2", "10.0.0.1/24", "10.0.0.2"), two},
		{port("eth2", "198.18.0.29/1", "198.18.0.30"), two},
		{port("eth2", "198.18.0.29/15", "198.18.0.30"), two},
		{one, port("eth2", "198.19.0.29/0", "198.19.0.30")},
		{port("eth2", "198.18.0.29/16", "203.0.113.9"), two},
		{one, {Name: "eth2", Addresses: two.Addresses}},
		{one, {Name: "eth2", Addresses: append(two.Addresses, one.Addresses...), Hops: append(two.Hops, one.Hops...)}},
	} {
		check(false, "service.manage", agent.ManageArgs{Ports: bad})
	}
	check(false, "service.set", asked) // nothing is set up
	check(false, "service.close", agent.None{})
	check(true, "ledger.open", agent.LedgerArgs{Paths: paths(tester, hop, hop, tester), Bare: true})
	check(false, "ledger.open", agent.LedgerArgs{Paths: paths(tester, hop), Bare: true})
	check(false, "ledger.open", agent.LedgerArgs{Paths: paths(tester, hop, agent.Hop{Port: "eth0", Mine: true}, tester), Bare: true})
	ended := 0
	p.Conn = served(t, "b2", func(publish func(string, []byte) error) *link.Server {
		return link.NewServer(func(method string) link.Handler {
			return func(context.Context, *link.Request) (any, error) {
				if method == "service.close" {
					ended++
				}
				return agent.ManageReply{}, nil
			}
		}, publish)
	})
	through := func(method string, args any) error {
		raw, err := json.Marshal(args)
		if err != nil {
			t.Fatal(err)
		}
		_, err = p.through(t.Context(), method, raw, func(ctx context.Context) (reply json.RawMessage, err error) {
			return reply, p.Conn.Call(ctx, method, args, &reply)
		})
		return err
	}
	if err := through("service.manage", ports); err != nil {
		t.Fatal(err)
	}
	if through("service.manage", ports) == nil {
		t.Error("ports are set up twice at once")
	}
	check(true, "service.set", asked)
	for _, bad := range []lab.Service{
		{Kind: "drop-xdp", Rules: 100, Flows: 1, Networks: 1}, {Kind: "filter", Rules: 100_000, Flows: 1, Networks: 1},
		{Kind: "filter", Rules: 100, Flows: 1, Networks: 256}, {Kind: "filter", Rules: 100, Flows: 1, Networks: 1, AllCPUs: true},
		{Kind: "filter", Rules: 100, Flows: 1, Networks: 1, Connections: &service.Connections{}},
	} {
		check(false, "service.set", bad)
	}
	if err := through("service.close", agent.None{}); err != nil || ended != 1 {
		t.Error(ended, err)
	}
	p.end(t.Context())
	if ended != 1 {
		t.Error("what has ended is ended again")
	}
	if err := through("service.manage", ports); err != nil {
		t.Fatal(err)
	}
	if p.end(t.Context()); ended != 2 {
		t.Error("what a board had set up stays when it is gone")
	}
	p.Routes = false
	check(false, "service.manage", ports)
}

// A way is a link.Way to a server of this process.
type way struct {
	ctx    context.Context
	server *link.Server
	one    sync.Mutex
}

func (w *way) Publish(subject, reply string, data []byte) error {
	w.one.Lock()
	defer w.one.Unlock()
	w.server.Take(w.ctx, subject, reply, data)
	return nil
}
func (w *way) Octets() (sent, received uint64) { return 0, 0 }
func (w *way) Close()                          {}

// served is a connection to what answers.
func served(t *testing.T, name string, make func(publish func(string, []byte) error) *link.Server) *link.Conn {
	ctx, cancel := context.WithCancel(context.Background())
	w := &way{ctx: ctx}
	c := link.Over(name, link.Hello{}, w, func() error { return nil })
	w.server = make(func(subject string, data []byte) error { c.Deliver(subject, data); return nil })
	t.Cleanup(func() { cancel(); w.server.Wait() })
	return c
}

// Calls that are passed on have the answers, items, errors and clock of the board at the end.
func TestPass(t *testing.T) {
	there := served(t, "b2", func(publish func(string, []byte) error) *link.Server {
		s := link.NewServer(func(method string) link.Handler {
			return func(ctx context.Context, r *link.Request) (any, error) {
				if method == "bad" {
					return nil, errors.New("it is broken")
				}
				for i := range 500 { // more than may be on their way
					if err := r.Send(ctx, i); err != nil {
						return nil, err
					}
				}
				return method, nil
			}
		}, publish)
		s.Now = func() unit.Instant { return 1 << 60 }
		return s
	})
	here := served(t, "b2", func(publish func(string, []byte) error) *link.Server {
		return link.Pass(there, func(ctx context.Context, method string, _ json.RawMessage, ask func(context.Context) (json.RawMessage, error)) (json.RawMessage, error) {
			if method == "none" {
				return nil, errors.New("it may not be asked")
			}
			return ask(ctx)
		}, publish)
	})
	var reply string
	n := 0
	err := here.Stream(t.Context(), "some", nil, &reply, func(item json.RawMessage) error {
		var i int
		if err := json.Unmarshal(item, &i); err != nil || i != n {
			t.Fatalf("%d: %s, %v", n, item, err)
		}
		n++
		return nil
	})
	if err != nil || reply != "some" || n != 500 {
		t.Errorf("%v, %q, %d items", err, reply, n)
	}
	for method, want := range map[string]string{"bad": "b2: it is broken", "none": "b2: it may not be asked"} {
		if err := here.Call(t.Context(), method, nil, nil); err == nil || err.Error() != want {
			t.Errorf("%s: %v", method, err)
		}
	}
	if c, err := here.Clock(t.Context(), 3); err != nil || c.Here(1<<60) > unit.Now() || c.Here(1<<60) < unit.Now()-unit.Instant(1e10) {
		t.Errorf("%+v, %v", c, err)
	}
	there.Fail(errors.New("nothing was heard from b2"))
	if err := here.Call(t.Context(), "some", nil, nil); err == nil || !strings.Contains(err.Error(), "nothing was heard from b2") {
		t.Error(err)
	}
}

// What a board has begun on another one and not ended is ended for it, even if it was gone
// before it heard its number. One subject runs at once, and the tester alone holds the board.
func TestPairEndsWhatWasBegun(t *testing.T) {
	started := make(chan struct{})
	var mu sync.Mutex
	var ended []string
	there := served(t, "b2", func(publish func(string, []byte) error) *link.Server {
		next := 0
		return link.NewServer(func(method string) link.Handler {
			return func(ctx context.Context, r *link.Request) (any, error) {
				mu.Lock()
				defer mu.Unlock()
				switch method {
				case string(agent.SubjectStart):
					next++
					if next == 2 {
						close(started)
						time.Sleep(100 * time.Millisecond) // meanwhile the other one goes
					}
					return agent.SubjectStarted{ID: next}, nil
				case string(agent.LedgerOpen):
					return 10 + next, nil
				}
				ended = append(ended, method+" "+string(r.Args))
				return agent.None{}, nil
			}
		}, publish)
	})
	p := &Pair{Conn: there, Software: agent.SubjectArgs{Name: "tcpdump"}, Cable: lab.BoardCable{To: "eth2"}}
	ctx, gone := context.WithCancel(t.Context())
	w := &way{ctx: ctx}
	here := link.Over("b2", link.Hello{}, w, func() error { return nil })
	w.server = p.passing(func(subject string, data []byte) error { here.Deliver(subject, data); return nil })
	args := agent.SubjectArgs{Name: "tcpdump", Port: "eth2"}
	first, err := agent.SubjectStart.Call(ctx, here, args)
	opens := agent.LedgerArgs{Paths: paths(agent.Hop{Port: "eth1"}, agent.Hop{Port: "eth2", Mine: true}), Bare: true}
	book, berr := agent.LedgerOpen.Call(ctx, here, opens)
	if err != nil || berr != nil {
		t.Fatal(err, berr)
	}
	if _, err := agent.LedgerOpen.Call(ctx, here, opens); err == nil || err.Error() != "b2: a board may not ask another one for a second ledger at once" {
		t.Error(err)
	}
	if _, err := agent.LedgerClose.Call(ctx, here, book); err != nil {
		t.Error(err)
	}
	if book, err = agent.LedgerOpen.Call(ctx, here, opens); err != nil {
		t.Error(err)
	}
	if _, err := agent.SubjectStart.Call(ctx, here, args); err == nil || err.Error() != "b2: a board may not ask another one for a second subject at once" {
		t.Error(err)
	}
	if _, err := agent.Hold.Call(ctx, here, agent.HoldArgs{Boot: "another"}); err != nil { // there it would be in ended
		t.Error(err)
	}
	if _, err := agent.SubjectStop.Call(ctx, here, first.ID); err != nil {
		t.Fatal(err)
	}
	second := make(chan error, 1)
	go func() { _, err := agent.SubjectStart.Call(ctx, here, args); second <- err }()
	<-started
	gone()
	if err := <-second; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	w.server.Wait()
	p.end(ctx)
	slices.Sort(ended)
	if got := strings.Join(ended, ", "); got != fmt.Sprintf("ledger.close %d, ledger.close %d, subject.stop 1, subject.stop 2", book, book) {
		t.Error(got)
	}
}

// What a board cleans up on another one does not wait for a tester that is gone.
func TestPairWithoutATester(t *testing.T) {
	ctx, gone := context.WithCancel(t.Context())
	conn, end := other(ctx, pairArgs{Other: "b2"}, func(item) error { return nil })
	defer end()
	gone()
	waits, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	if _, err := agent.SubjectStop.Call(waits, conn, 1); err == nil || err.Error() != "the tester passes nothing on to b2 any more" {
		t.Error(err)
	}
}
