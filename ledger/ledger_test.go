// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"boxdyno/host"
	"boxdyno/result"
)

// A tree is a recorded machine that can be exchanged for a later one.
type tree struct{ fs.FS }

func recorded(name string) fs.FS { return os.DirFS("testdata/" + name) }

// onTree is a path through a DUT that stands on a recorded tree.
func onTree(root fs.FS) []Path {
	dut := &host.Local{Label: "dut", Root: root}
	return []Path{{Hops: []Hop{{Place: result.Tester}, {Place: result.DUTNIC, Host: dut}, {Place: result.DUTNIC, Host: dut}, {Place: result.MeterAt}}}}
}

// begun opens a book and begins a trial.
func begun(ctx context.Context, paths []Path, more ...Source) (*Book, error) {
	b, err := Open(paths, more...)
	if err != nil {
		return nil, err
	}
	return b, b.Begin(ctx)
}

// TestRecorded closes the books of the trials in testdata/README.
func TestRecorded(t *testing.T) {
	machine := &tree{recorded("before")}
	book, err := begun(t.Context(), onTree(machine))
	if err != nil {
		t.Fatal(err)
	}
	machine.FS = recorded("after")
	a, err := book.Balance(t.Context(), func(context.Context) (Ends, error) {
		return Ends{Intended: 145, Accepted: 145, Received: 26}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, d := range a.Drops {
		got = append(got, fmt.Sprintf("%s %s: %s %d", d.Place, d.From, d.Name, d.N))
	}
	want := []string{
		"routing Ip.InHdrErrors: TTL expired or bad header 11",
		"routing Ip6.InHdrErrors: TTL expired or bad header 17",
		"routing TcpExt.IPReversePathFilter: reverse path filter 13",
		"routing IpExt.InNoRoutes: no route 12",
		"routing Ip6.InNoRoutes: no route, or one that refuses 19",
		"routing Ip.InDelivers: delivered to the DUT itself 14",
		"routing Ip.FragFails: larger than the MTU 15",
		"routing Ip6.FragFails: larger than the MTU 18",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if a.Unexplained != 0 || !a.Settled {
		t.Errorf("want closed books:\n%s", describe(a))
	}
	if i := slices.IndexFunc(a.Passed, func(t result.Term) bool { return t.From == "Ip.InReceives" }); i < 0 || a.Passed[i].N != 75 {
		t.Errorf("want 75 frames received by IPv4:\n%s", describe(a))
	}
}

func TestMissingCountersAreAbsent(t *testing.T) {
	book, err := begun(t.Context(), onTree(fstest.MapFS{}))
	if err != nil {
		t.Fatal(err)
	}
	book.Virtual = true // nothing comes of waiting
	a, err := book.Balance(t.Context(), func(context.Context) (Ends, error) { return Ends{Accepted: 7, Received: 5}, nil })
	if err != nil || a.Unexplained != 2 || len(a.Drops)+len(a.Passed) != 0 {
		t.Errorf("want 2 unexplained and no term: %v\n%s", err, describe(a))
	}
}

func TestBadFiles(t *testing.T) {
	for name, c := range map[string]struct{ file, text, want string }{
		"odd":      {"thread-self/net/snmp", "Ip: A B\n", "no values"},
		"mismatch": {"thread-self/net/snmp", "Ip: A B\nIp: 1\n", "do not belong together"},
		"word":     {"thread-self/net/netstat", "IpExt: A\nIpExt: x\n", `no number: "x"`},
		"snmp6":    {"thread-self/net/snmp6", "Ip6InReceives\n", "want a name and a number"},
		"hex":      {"thread-self/net/stat/nf_conntrack", "entries drop\n0 zz\n", "no hexadecimal number"},
		"short":    {"self/net/softnet_stat", "00000001\n", "at least 2 columns"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := begun(t.Context(), onTree(fstest.MapFS{"proc/" + c.file: {Data: []byte(c.text)}}))
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), c.file) {
				t.Errorf("want an error that names /proc/%s and says %q, not %v", c.file, c.want, err)
			}
		})
	}
}

func TestColumnsSumCPUs(t *testing.T) {
	root := fstest.MapFS{
		"proc/thread-self/net/stat/nf_conntrack": {Data: []byte("entries insert_failed drop early_drop\n1 2 0000000a 4\n1 2 00000010 4\n")},
		"proc/self/net/softnet_stat":             {Data: []byte("00000005 00000001 0\n00000005 000000ff 0\n")},
		"proc/self/net/stat/arp_cache":           {Data: []byte("entries unresolved_discards\n1 2\n1 3\n")},
	}
	stack, machine := counters{}, counters{}
	if err := errors.Join(readStack(root, stack), readMachine(root, machine)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(counters{"conntrack.drop": 26}, stack); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(counters{"softnet.dropped": 256, "arp.unresolved_discards": 5}, machine); diff != "" {
		t.Error(diff)
	}
}

// TestPatternsAreNumbers keeps rx_queue_0_xdp_drops out of rx_queue_*_drops.
func TestPatternsAreNumbers(t *testing.T) {
	c := counters{}
	sumPatterns(counters{
		"ethtool rx_queue_0_drops": 1, "ethtool rx_queue_11_drops": 2, "ethtool rx_queue_0_xdp_drops": 4, "ethtool rx_queue__drops": 8, "ethtool drops": 16, "ethtool total_drops": 32,
	}, []string{"ethtool rx_queue_*_drops", "ethtool drops"}, c)
	if diff := cmp.Diff(counters{"ethtool rx_queue_*_drops": 3, "ethtool drops": 16}, c); diff != "" {
		t.Error(diff)
	}
}

func TestParseNFT(t *testing.T) {
	attr := func(kind int, value []byte) []byte { return nl.NewRtAttr(kind, value).Serialize() }
	object := func(kind uint32) []byte {
		data := append(attr(1, binary.BigEndian.AppendUint64(nil, 900)), attr(nftaPackets, binary.BigEndian.AppendUint64(nil, 15))...)
		return slices.Concat([]byte{unix.NFPROTO_INET, 0, 0, 0}, attr(nftaTable, []byte("fw\x00")), attr(nftaName, []byte("drop_all\x00")),
			attr(nftaType, binary.BigEndian.AppendUint32(nil, kind)), attr(nftaData|unix.NLA_F_NESTED, data))
	}
	c, ok, err := parseNFT(object(nftIsCounter))
	if err != nil || !ok || c.key() != "nft inet fw drop_all" || c.packets != 15 {
		t.Errorf("got %+v %v %v", c, ok, err)
	}
	if _, ok, err := parseNFT(object(2)); ok || err != nil {
		t.Errorf("a quota was taken for a counter (%v)", err)
	}
	if _, _, err := parseNFT([]byte{1}); err == nil {
		t.Error("an answer cut short was accepted")
	}
}

// A source is a Source of one term.
type source struct{ n int64 }

func (s *source) Count(context.Context) ([]result.Term, error) {
	return []result.Term{{Place: result.Link, Host: "dut", Name: "lost on the wire", From: "wire", N: s.n}}, nil
}

// TestNothingIsClamped shows growth of either sign, sources, the meter's own
// losses, and the equation.
func TestNothingIsClamped(t *testing.T) {
	s := &source{n: 100}
	book, err := begun(t.Context(), onTree(fstest.MapFS{}), s)
	if err != nil {
		t.Fatal(err)
	}
	s.n = 97
	a, err := book.Balance(t.Context(), func(context.Context) (Ends, error) {
		return Ends{Intended: 20, Accepted: 10, Refused: 4, NotSent: 6, Received: 12, LocalDrops: 5}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(a.Drops) != 2 || a.Drops[0].N != -3 || a.Drops[0].Place != result.Link || a.Drops[1].N != 5 || a.Drops[1].Place != result.MeterAt || a.Unexplained != -4 {
		t.Errorf("want -3 on the link, 5 at the meter, -4 unexplained:\n%s", describe(a))
	}
	if a.Intended != a.Accepted+a.Refused+a.NotSent {
		t.Errorf("the ends were not taken over: %+v", a)
	}
}

// restless is a machine one of whose counters grows for a time.
type restless struct{ until time.Time }

func (r restless) Open(name string) (fs.File, error) {
	n := time.Now().UnixMilli()
	if now := time.Now(); now.After(r.until) {
		n = r.until.UnixMilli()
	}
	return fstest.MapFS{"proc/self/net/softnet_stat": {Data: fmt.Appendf(nil, "0 %x\n", uint32(n))}}.Open(name)
}

func TestSettle(t *testing.T) {
	for name, c := range map[string]struct {
		grows, least, min, max time.Duration
		settled                bool
	}{
		"at once":      {0, 0, 20 * time.Millisecond, 21 * time.Millisecond, true},
		"after a time": {300 * time.Millisecond, 0, 300 * time.Millisecond, 350 * time.Millisecond, true},
		"never":        {time.Hour, 0, 2 * time.Second, 2100 * time.Millisecond, false},
		"at least":     {0, 2 * time.Second, 2020 * time.Millisecond, 2021 * time.Millisecond, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				book, err := begun(t.Context(), onTree(restless{time.Now().Add(c.grows)}))
				if err != nil {
					t.Fatal(err)
				}
				book.Settle = c.least
				start := time.Now()
				asked := time.Duration(0)
				a, err := book.Balance(t.Context(), func(context.Context) (Ends, error) { asked = time.Since(start); return Ends{}, nil })
				if err != nil {
					t.Fatal(err)
				}
				if a.Settled != c.settled || asked < c.min || asked > c.max {
					t.Errorf("settled %v, ends read after %v; want %v after %v to %v", a.Settled, asked, c.settled, c.min, c.max)
				}
			})
		})
	}
}

// TestSettleWithoutCounters still reads twice: what is on the wire of a source
// arrives meanwhile.
func TestSettleWithoutCounters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		book, err := begun(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		a, err := book.Balance(t.Context(), func(context.Context) (Ends, error) { return Ends{}, nil })
		if err != nil || !a.Settled || time.Since(start) != readGap {
			t.Errorf("settled %v after %v (%v), want true after %v", a.Settled, time.Since(start), err, readGap)
		}
	})
}

// In memory one read is enough, though frames are missing.
func TestVirtualReadsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		book, err := begun(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		book.Virtual = true
		start := time.Now()
		a, err := book.Balance(t.Context(), func(context.Context) (Ends, error) { return Ends{Intended: 9, Accepted: 9, Received: 7}, nil })
		if err != nil || !a.Settled || a.Unexplained != 2 || time.Since(start) != 0 {
			t.Errorf("settled %v after %v (%v), %d unexplained", a.Settled, time.Since(start), err, a.Unexplained)
		}
	})
}

func TestBalanceGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		book, err := begun(t.Context(), onTree(restless{time.Now().Add(time.Hour)}))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err = book.Balance(ctx, func(context.Context) (Ends, error) { t.Error("the ends were read"); return Ends{}, nil })
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("want the context's error, not %v", err)
		}
	})
	book, err := begun(t.Context(), onTree(fstest.MapFS{}))
	if err != nil {
		t.Fatal(err)
	}
	broken := errors.New("meter is gone")
	if _, err := book.Balance(t.Context(), func(context.Context) (Ends, error) { return Ends{}, broken }); !errors.Is(err, broken) {
		t.Errorf("want the meter's error, not %v", err)
	}
}
