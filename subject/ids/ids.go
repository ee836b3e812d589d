// SPDX-License-Identifier: Apache-2.0

// Package ids holds the programs that look for attacks in the frames of a port, and
// the rules that they are given.
package ids

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"boxdyno/host"
	"boxdyno/internal/files"
	"boxdyno/subject"
	"boxdyno/subject/capture"
	"boxdyno/unit"
)

// How an IDS divides its work among threads (IDS.RunMode), in Suricata's words.
const (
	Workers = "workers" // each thread does all of it for its share of the flows
	AutoFP  = "autofp"  // one captures, the others detect, each its share of the flows
	Single  = "single"  // one thread does everything
)

// How an IDS gets frames (IDS.Mode).
const (
	AFPacket = "af-packet" // rings of TPACKET_V3, one a thread
	AFXDP    = "af-xdp"    // AF_XDP sockets, one a receive queue
)

// DefaultRing is how many frames a thread's ring has room for, by default.
const DefaultRing = 2048

// DefaultBlock is the octets of a ring's block, by default: Suricata's own.
const DefaultBlock = 32 << 10

const (
	leastBlock  = 16 << 10
	mostBlock   = 4 << 20
	leastRing   = 64
	mostRing    = 1 << 18
	mostThreads = 256
)

// An IDS is intrusion detection over the frames of a port: Suricata. What runs is a
// *Sensing. The row of All takes UDP alone, as the other captures do; NewSuricata takes
// every frame.
type IDS struct {
	Rules   string // file of rules, in plain text; "": none
	RunMode string // Workers, AutoFP or Single; AF_XDP has no AutoFP
	Mode    string // AFPacket or AFXDP
	Threads int    // that detect; 0: as many as it has CPUs (Env.CPUs); with AF_XDP at most one a queue
	Ring    int    // frames of 1514 octets that a thread's ring has room for, 64 to 262144; AF_XDP has its own
	Block   int    // octets of a block of that ring, 16384 to 4194304, a power of two
	Filter  string // of pcap-filter(7); "": every frame; AF_XDP: has none
}

// Specs are the subjects of this package.
func Specs() subject.Specs {
	return subject.Specs{{Name: "suricata", Work: capture.Application, Doc: "Suricata 7, by default without rules", New: func() subject.Subject {
		s := NewSuricata()
		s.Filter = capture.DefaultFilter
		return s
	}}}
}

// NewSuricata is Suricata without rules and without a filter.
func NewSuricata() *IDS {
	return &IDS{RunMode: Workers, Mode: AFPacket, Ring: DefaultRing, Block: DefaultBlock}
}

// Unmerged says that it counts frames of TCP from packet sockets, before which a port may
// merge them. As an installed Suricata does by itself, whoever starts it switches that off.
func (s *IDS) Unmerged() bool { return s.Mode == AFPacket && s.Filter != capture.DefaultFilter }

// An Alerter counts what it detects.
type Alerter interface {
	// Alerts are the alerts since its start by the rule's sid; final once it was stopped,
	// before that as far as it has written them. An error is Ended's.
	Alerts(ctx context.Context) (map[int]int64, error)
}

// Totals are an IDS's own figures since its start, as it last told them: every three
// seconds while it runs, and final once it was stopped. Those of frames are in Totals.
type Totals struct {
	RulesLoaded int64  // of its file; -1: it has not said
	RulesFailed int64  // that it could not load: it runs without them; -1: it has not said
	RulesError  string // why the first of those was not, in its words; "": none
	// RulesRefused are the sids of those, at most 40: "2013353, 2013354 and 11 more".
	RulesRefused string

	Alerts             int64 // that it says it raised (detect.alert)
	AlertQueueOverflow int64 // that it did not raise: a packet had more than 15, packet-alert-max
	AlertsSuppressed   int64 // by thresholds, of which none are configured but those within rules

	FlowMemcap     int64 // packets without a flow, for flow.memcap was reached (flow.memcap)
	SessionMemcap  int64 // TCP sessions not tracked, for stream.memcap was (tcp.ssn_memcap_drop)
	SegmentMemcap  int64 // TCP segments not reassembled, for stream.reassembly.memcap was (tcp.segment_memcap_drop)
	ReassemblyGaps int64 // holes in TCP streams, where data never came (tcp.reassembly_gap)
	DefragTrackers int64 // fragments for which there was no room (defrag.max_frag_hits)
	InvalidFrames  int64 // that it could not decode (decoder.invalid)

	KernelPackets int64 // that its sockets received, those dropped included (capture.kernel_packets); -1: it has not said
	LeftInRing    int64 // of them, neither dropped nor decoded; while it runs, kernel packets are up to a second older
}

// A Sensing is an IDS that runs: a Counter, a Progresser, an Ender and an Alerter. Its
// Startup.Sign is when its engine had started, with its rules. Of its Totals Captured is
// what it decoded, and Own what it left in its rings when it ended. Its Progress moves
// once a second where it has nothing left to do, and otherwise every three seconds (Rare),
// because Suricata's threads add up what they counted only that often.
type Sensing struct {
	*capture.Capturing
	eve      *eve
	rules    string      // its file
	port     string      // that it listens to
	control  string      // path of its command socket
	sockets  int         // packet sockets, each with a thread that reads its counters
	idle     func() bool // sleeps
	enough   func()      // ends follow
	followed chan struct{}

	mu      sync.Mutex
	taken   int64        // frames that it had decoded when it last slept
	takenAt unit.Instant // when it was asked
}

// Ready implements Running. That none of its rules could be loaded is an error; where
// some could not, Totals says how many.
func (s *Sensing) Ready(ctx context.Context) error {
	if err := s.Capturing.Ready(ctx); err != nil {
		return err
	}
	if s.eve.blind() { // AF_XDP: it starts, and sees nothing
		return fmt.Errorf("%s captures nothing: the port's driver does not say how many receive queues it has, which capture %s needs: use capture %s", s.Name, AFXDP, AFPacket)
	}
	if s.rules == "" {
		return nil
	}
	if s.eve.printed() > 0 {
		return nil
	}
	// Its first counters come a second later, and say whether there was any rule.
	for t := time.After(countersPatience); ; {
		totals := s.eve.totals()
		switch {
		case s.Ended() != nil:
			return s.Ended()
		case totals.RulesLoaded > 0:
			return nil
		case totals.RulesFailed > 0:
			return fmt.Errorf("%s loaded none of the %d rules in %s: it said %q", s.Name, totals.RulesFailed, s.rules, totals.RulesError)
		case totals.RulesLoaded == 0:
			return fmt.Errorf("%s found no rule in %s", s.Name, s.rules)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: it does not say whether it loaded rules (%w)", s.Name, ctx.Err())
		case <-t:
			return fmt.Errorf("%s was not ready within %v: it does not say whether it loaded rules", s.Name, countersPatience)
		case <-time.After(capture.ReadyPause):
		}
	}
}

// countersPatience is how long an engine that has started may take to write its first
// counters.
const countersPatience = 20 * time.Second

// Alerts implements Alerter.
func (s *Sensing) Alerts(context.Context) (map[int]int64, error) { return s.eve.bySID(), s.Ended() }

// Dropped is how many frames it threw away, read while none come: it does so with those that its
// sockets received before all of its threads ran. It is known only where Progress has the count of
// the same record: its command socket counts those frames, too.
func (s *Sensing) Dropped() (n int64, ok bool) {
	n, decoded, ok := s.eve.thrown()
	counted, _, told := s.Progress()
	return n, ok && told && counted == decoded
}

// IDS are its own figures.
func (s *Sensing) IDS() Totals { return s.eve.totals() }

// Flags implements Subject.
func (s *IDS) Flags(fs *flag.FlagSet) {
	fs.StringVar(&s.Rules, "rules", s.Rules, "`file` of rules; empty: none")
	fs.StringVar(&s.RunMode, "runmode", s.RunMode, "`how` its work is divided among threads: "+strings.Join(runModes, ", "))
	fs.StringVar(&s.Mode, "capture", s.Mode, "`how` it gets frames: "+strings.Join(captureModes, ", "))
	fs.IntVar(&s.Threads, "threads", s.Threads, "`threads` that detect; 0: as many as it has CPUs")
	fs.IntVar(&s.Ring, "ring", s.Ring, "`frames` that a thread's ring has room for")
	fs.IntVar(&s.Block, "block", s.Block, "`octets` of a block of that ring, a power of two")
	fs.StringVar(&s.Filter, "filter", s.Filter, "`expression` of pcap-filter(7) that frames must match; empty: every frame")
}

// Files implements subject.Reader.
func (s *IDS) Files() []string { return []string{"rules"} }

var (
	runModes     = []string{Workers, AutoFP, Single}
	captureModes = []string{AFPacket, AFXDP}
)

// Check implements Subject.
func (s *IDS) Check(ctx context.Context, h *host.Local) error {
	switch {
	case !slices.Contains(runModes, s.RunMode):
		return fmt.Errorf("runmode %q: want %s", s.RunMode, strings.Join(runModes, ", "))
	case !slices.Contains(captureModes, s.Mode):
		return fmt.Errorf("capture %q: want %s", s.Mode, strings.Join(captureModes, ", "))
	case s.Ring < leastRing || s.Ring > mostRing:
		return fmt.Errorf("ring %d: want %d to %d frames", s.Ring, leastRing, mostRing)
	case s.Block < leastBlock || s.Block > mostBlock || s.Block&(s.Block-1) != 0:
		return fmt.Errorf("block %d: want a power of two from %d to %d octets", s.Block, leastBlock, mostBlock)
	case s.Threads < 0 || s.Threads > mostThreads:
		return fmt.Errorf("threads %d: want 0 to %d", s.Threads, mostThreads)
	}
	if s.Mode == AFXDP && s.RunMode == AutoFP {
		return fmt.Errorf("runmode %s: with capture %s Suricata has %s and %s", AutoFP, AFXDP, Workers, Single)
	}
	if s.Mode == AFXDP && s.Filter != "" {
		return fmt.Errorf("filter %q: capture %s has none", s.Filter, AFXDP)
	}
	if s.RunMode == Single && s.Threads > 1 {
		return fmt.Errorf("threads %d: runmode %s has one", s.Threads, Single)
	}
	if strings.ContainsAny(s.Filter, "\x00\n") || len(s.Filter) > 4096 {
		return errors.New("filter: want one line of at most 4096 octets")
	}
	if err := readableRules(s.Rules); err != nil {
		return err
	}
	if err := host.ProbePacket(); err != nil {
		return err
	}
	return s.suricata(ctx)
}

// readableRules says what keeps a file from being one of rules, as far as its first
// octets tell; the rest is the IDS's to say.
func readableRules(name string) error {
	if name == "" {
		return nil
	}
	f, err := files.Open(name)
	if err != nil {
		return fmt.Errorf("read the rules: %w", err)
	}
	defer f.Close()
	head := make([]byte, 512)
	n, err := io.ReadFull(f, head)
	switch {
	case n == 0 && err == io.EOF:
		return fmt.Errorf("read the rules: %s is empty: leave rules out to run without any", name)
	case err != nil && err != io.ErrUnexpectedEOF:
		return fmt.Errorf("read the rules: %w", err)
	case bytes.IndexByte(head[:n], 0) >= 0 || bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		return fmt.Errorf("read the rules: %s is no text: unpack it", name)
	}
	return nil
}

// Start implements Subject.
func (s *IDS) Start(ctx context.Context, e subject.Env) (subject.Running, error) {
	return s.Run(ctx, e)
}

// Run is Start with what only an IDS has.
func (s *IDS) Run(ctx context.Context, e subject.Env) (*Sensing, error) {
	if err := s.Check(ctx, e.Host); err != nil {
		return nil, err
	}
	rules := s.Rules
	if rules != "" { // it works in another folder
		var err error
		if rules, err = filepath.Abs(rules); err != nil {
			return nil, fmt.Errorf("read the rules: %w", err)
		}
	}
	v := newEve()
	c := &capture.Capture{Filter: s.Filter, Tool: s.tool(v, rules)}
	r, err := c.Run(ctx, e)
	if err != nil {
		return nil, err
	}
	sensing := &Sensing{Capturing: r, eve: v, rules: s.Rules, port: e.Port.Name, sockets: s.capturing(e)}
	sensing.idle = sensing.sleeps
	if s.Mode == AFPacket {
		sensing.control = controlPath(r.Dir)
	}
	sensing.begin()
	return sensing, nil
}
