// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"boxdyno/subject/internal/program"
	"boxdyno/unit"
)

// replay is what a capture knows after a program has printed a file, written in
// pieces as a pipe may deliver them.
func replay(p Parser, text string, piece int) *Capturing {
	r := NewCapturing("x", nil)
	w := r.listener(p)
	for ; text != ""; text = text[min(piece, len(text)):] {
		_, _ = w.Write([]byte(text[:min(piece, len(text))])) // it takes all
	}
	return r
}

// The files are what tcpdump 4.99.3, dumpcap and tshark 4.0.17 and this program
// printed on Debian 12 while 3,000 frames came, and of those with drops 20,000 while
// they were stopped, until SIGINT.
func TestParsers(t *testing.T) {
	for _, c := range []struct {
		file   string
		parser Parser
		want   Totals
	}{
		{"tcpdump.txt", parseTcpdump, Totals{Captured: 2530, Kernel: 0, Own: -1, Port: -1}}, // the rest waited in the kernel
		{"tcpdump-drops.txt", parseTcpdump, Totals{Captured: 1320, Kernel: 18680, Own: -1, Port: -1}},
		{"dumpcap.txt", parseDumpcap, Totals{Captured: 3000, Kernel: 0, Own: 0, Port: 0}},
		{"dumpcap-drops.txt", parseDumpcap, Totals{Captured: 1320, Kernel: 18680, Own: 0, Port: 0}},
		{"tshark.txt", parseTshark, Totals{Captured: -1, Kernel: 0, Own: -1, Port: -1}},
		{"meter.jsonl", parseMeter, Totals{Captured: 3000, Kernel: 0, Own: -1, Port: -1}},
		{"count.jsonl", ParseCounter, Totals{Captured: 3000, Kernel: 0, Own: -1, Port: 0}},
	} {
		data, err := os.ReadFile(filepath.Join("testdata", c.file))
		if err != nil {
			t.Error(err)
			continue
		}
		for _, piece := range []int{1, 7, 1 << 20} {
			r := replay(c.parser, string(data), piece)
			if got := r.Totals(); got != c.want || r.wrong != nil {
				t.Errorf("%s in pieces of %d: %+v, %v; want %+v", c.file, piece, got, r.wrong, c.want)
			}
			if !r.ready {
				t.Errorf("%s: ready is %v", c.file, r.ready)
			}
		}
	}
	if s := parseDumpcapDrops("Packets captured: 9"); s != Nothing {
		t.Errorf("dumpcap's count is taken for pyshark's: %+v", s)
	}
	if s := parseDumpcap("Packets received/dropped on interface 'a b': 5/9 (pcap:2/dumpcap:3/flushed:4/ps_ifdrop:1) (35.7%)"); s.Kernel != 2 || s.Own != 7 || s.port != 1 {
		t.Errorf("%+v", s)
	}
	if s := parseTcpdump("tcpdump: 1 packet captured, 3 packets received by filter, 1 packet dropped by kernel, 2 packets dropped by interface"); s.Counted != 1 || s.Kernel != 1 || s.port != 2 || s.waiting != 1 {
		t.Errorf("%+v", s)
	}
	if s := parseTshark("17 packets dropped from lan"); s.Kernel != 17 {
		t.Errorf("%+v", s)
	}
	if s := parseMeter(`{"clock_s":0.5,"count":9}`); s.Counted != 9 || s.clock != 5e8 || s.Kernel != -1 {
		t.Errorf("%+v", s)
	}
}

func TestRows(t *testing.T) {
	r := &Capturing{Name: "x", counted: -1}
	w := &rows{r: r}
	for _, piece := range []string{"1\t15", "6\n2\t156\n3", "\t156\n", "4\t156"} {
		if n, err := w.Write([]byte(piece)); n != len(piece) || err != nil {
			t.Error(n, err)
		}
	}
	if r.counted != 3 || r.wrong != nil {
		t.Errorf("%d, %v", r.counted, r.wrong)
	}
	_, _ = w.Write([]byte("\nWarning: oops\n"))
	if r.wrong == nil || !strings.Contains(r.wrong.Error(), "Warning: oops") {
		t.Errorf("%v", r.wrong)
	}
}

func TestLongLines(t *testing.T) {
	var got []int
	w := &program.Lines{Take: func(line string) { got = append(got, len(line)) }}
	_, _ = w.Write([]byte(strings.Repeat("x", 3*program.LongestLine/2) + "\r\n\nab\rc\n"))
	if len(got) != 4 || got[0] != program.LongestLine || got[1] != program.LongestLine/2 || got[2] != 2 || got[3] != 1 {
		t.Errorf("%v", got)
	}
}

// No output, however broken, makes a count fall or be negative.
func FuzzTold(f *testing.F) {
	files, _ := filepath.Glob("testdata/*")
	for _, name := range files {
		if data, err := os.ReadFile(name); err == nil && len(data) < 8<<10 {
			f.Add(string(data))
		}
	}
	o, err := parseOwn("own.yaml", []byte("name: x\nwork: count\ncommand: [x]\ncount_key: a.b\ndropped: 'd=(\\d+)'\n"))
	if err != nil {
		f.Fatal(err)
	}
	parsers := []Parser{parseTcpdump, parseDumpcap, parseDumpcapDrops, parseTshark, ParseCounter, parseMeter, o.parse, parseZeek}
	f.Fuzz(func(t *testing.T, text string) {
		var z zeekStats
		var n snortStats
		for _, p := range append(slices.Clone(parsers), z.line, n.line) {
			r := NewCapturing("x", nil)
			last := r.Totals()
			w := &program.Lines{Take: func(line string) {
				r.Take(p(line), line)
				now := r.Totals()
				if now.Captured < last.Captured || now.Kernel < last.Kernel || now.Own < last.Own || now.Port < last.Port {
					t.Errorf("%q: %+v after %+v", line, now, last)
				}
				last = now
			}}
			_, _ = w.Write([]byte(text))
		}
		r := &Capturing{Name: "x", counted: -1}
		_, _ = (&rows{r: r}).Write([]byte(text))
		if r.counted < -1 || r.counted > int64(strings.Count(text, "\n")) {
			t.Errorf("%d rows", r.counted)
		}
	})
}

func TestPacketSockets(t *testing.T) {
	const table = "sk               RefCnt Type Proto  Iface R Rmem   User   Inode\n" +
		"ffff888004a8d000 3      3    0003   4     1 0      0      25413\n" +
		"ffff888004a8d800 3      3    0003   5     0 0      0      25414\n"
	link := func(target string) *fstest.MapFile {
		return &fstest.MapFile{Data: []byte(target), Mode: os.ModeSymlink | 0o777}
	}
	root := fstest.MapFS{
		"proc/7/net/packet": {Data: []byte(table)}, "proc/7/fd/0": link("/dev/null"),
		"proc/8/net/packet": {Data: []byte(table)}, "proc/8/fd/3": link("socket:[25413]"), "proc/8/fd/4": link("socket:[25414]"),
	}
	for _, c := range []struct {
		pids  []int
		index int
		want  []heldSocket
	}{
		{[]int{7, 8}, 4, []heldSocket{{8, 3}}},
		{[]int{6, 8}, 4, []heldSocket{{8, 3}}}, // 6 has ended
		{[]int{7}, 4, nil},                     // another's socket
		{[]int{8}, 5, nil},                     // not running yet
		{[]int{8}, 6, nil},
		{nil, 4, nil},
	} {
		if got := packetSockets(root, c.pids, c.index); !slices.Equal(got, c.want) {
			t.Errorf("processes %v, port %d: %v", c.pids, c.index, got)
		}
	}
}

// A line that is read late tells of when the program had counted, where it says that.
func TestClockOfTheProgram(t *testing.T) {
	r := &Capturing{counted: -1, begun: unit.Now()}
	say := func(clock time.Duration) unit.Instant {
		s := Nothing
		s.more, s.clock = 1, clock
		r.Take(s, "")
		return r.at
	}
	first := say(time.Second)
	time.Sleep(20 * time.Millisecond)
	if late := say(1005 * time.Millisecond); late-first != 5e6 {
		t.Errorf("5 ms later by its clock is %d ns later", late-first)
	}
	time.Sleep(20 * time.Millisecond)
	again := unit.Now()
	if soon := say(2 * time.Second); soon < again { // its start was told late before, too
		t.Errorf("a count of %v before it was said", again-soon)
	} else if time.Sleep(time.Millisecond); say(2000200*time.Microsecond)-soon != 200e3 {
		t.Errorf("200 us later by its clock is %d ns later", r.at-soon)
	}
}
