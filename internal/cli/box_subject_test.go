// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"encoding/binary"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"boxdyno/host"
	"boxdyno/internal/netns"
	"boxdyno/internal/testutil"
	"boxdyno/result"
)

// oneCable is a tester's namespace and a box at its port e0 that is reached by a real
// sshd, added under the name box.
func oneCable(t *testing.T) (tester, box *netns.Namespace) {
	t.Helper()
	tester, box = stranger(t)
	for _, ns := range []*netns.Namespace{tester, box} { // its own frames are none of the books
		if _, err := (&host.Local{Netns: ns.Path()}).Run(t.Context(), "", "sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1"); err != nil {
			t.Fatal(err)
		}
	}
	addBox(t, box, "e0=i0")
	return tester, box
}

// runBox runs a procedure on the box and returns its records. A machine
// that holds the tester up makes trials invalid.
func runBox(t *testing.T, tester *netns.Namespace, words ...string) []result.Record {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	args := append([]string{"run"}, words...)
	args = append(args, "--box", "box", "--quick", "--quiet", "--out", dir, "--set", "netns="+tester.Path())
	var out bytes.Buffer
	// What the verdict is depends on the machine; the records are looked at.
	if code := Main(t.Context(), args, &out, &out); code != exitOK && code != exitFailed && code != exitInvalid {
		t.Fatalf("%q: exit code %d: %s", words, code, out.Bytes())
	}
	_, recs, err := result.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return recs
}

// A capture on a box at one cable counts every frame, and the box's counters are in the
// same books.
func TestBoxCaptures(t *testing.T) {
	testutil.Long(t)
	testutil.Alone(t)
	tester, _ := oneCable(t)
	points := 0
	for _, r := range runBox(t, tester, "capture", "--set", "subject=af_packet", "--set", "rate=2k", "--set", "duration=500ms") {
		a := r.Account
		if a == nil || r.Procedure != "capture" {
			continue
		}
		if a.Accepted == 0 || a.Received != a.Accepted || a.Unexplained != 0 || len(a.Drops) != 0 || r.Status == result.Failed {
			t.Errorf("%s: %s %s: %+v", r.ID, r.Status, r.Reason, a)
		}
		if r.Parent == "" {
			points++
			for _, name := range []string{"subject_cpu_s", "subject_memory_bytes", "subject_processes", "startup_s", "first_frame_s"} {
				if v := r.Value(name); v == nil || v.Value <= 0 {
					t.Errorf("%s: %+v", name, v)
				}
			}
		}
	}
	if points != 1 {
		t.Errorf("%d points", points)
	}
}

// An IDS on a box gets its rules from the tester, and tells what it detected.
func TestBoxDetects(t *testing.T) {
	testutil.Long(t)
	testutil.Alone(t)
	if err := host.Has("suricata"); err != nil {
		t.Skip(err)
	}
	tester, _ := oneCable(t)
	points := 0
	for _, r := range runBox(t, tester, "ids", "--set", "rate=10Mbps", "--set", "idle=5Mbps", "--set", "rules=50", "--set", "attacks=1", "--set", "duration=500ms") {
		a := r.Account
		if a == nil || r.Procedure != "ids" {
			continue
		}
		if a.Accepted == 0 || a.Received != a.Accepted || a.Unexplained != 0 || r.Status == result.Failed {
			t.Errorf("%s: %s %s: %+v", r.ID, r.Status, r.Reason, a)
		}
		if r.Parent == "" {
			points++
			if v := r.Value("rules_loaded"); v == nil || v.Value < 50 {
				t.Errorf("rules: %+v", v)
			}
			if v := r.Value("detected_ratio"); v == nil || v.Value != 1 {
				t.Errorf("detected: %+v", v)
			}
		}
	}
	if points != 1 {
		t.Errorf("%d points", points)
	}
}

// plant has an XDP program drop frames that come in at a port, but ARP: every second one, or with
// limit those above so many in each 10 ms.
func plant(t *testing.T, ns *netns.Namespace, port string, limit int32) {
	t.Helper()
	counts, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 16, MaxEntries: 1}) // the window, and frames
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { counts.Close() })
	const drop, pass, etherTypeARP = 1, 2, 0x0806
	arp := int32(binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, etherTypeARP)))
	decide := asm.Instructions{asm.And.Imm(asm.R2, 1), asm.JEq.Imm(asm.R2, 0, "out")}
	if limit > 0 {
		decide = asm.Instructions{asm.JLE.Imm(asm.R2, limit, "out")}
	}
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.XDP, License: "GPL", Instructions: slices.Concat(asm.Instructions{
		asm.Mov.Imm(asm.R0, pass),
		asm.LoadMem(asm.R2, asm.R1, 0, asm.Word), asm.LoadMem(asm.R3, asm.R1, 4, asm.Word), // where the frame begins and ends
		asm.Mov.Reg(asm.R4, asm.R2), asm.Add.Imm(asm.R4, 14), asm.JGT.Reg(asm.R4, asm.R3, "out"),
		asm.LoadMem(asm.R4, asm.R2, 12, asm.Half), asm.JEq.Imm(asm.R4, arp, "out"),
		asm.StoreImm(asm.RFP, -4, 0, asm.Word),
		asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, -4),
		asm.LoadMapPtr(asm.R1, counts.FD()), asm.FnMapLookupElem.Call(),
		asm.Mov.Reg(asm.R6, asm.R0), asm.Mov.Imm(asm.R0, pass),
		asm.JEq.Imm(asm.R6, 0, "out"),
		asm.FnKtimeGetNs.Call(), asm.Div.Imm(asm.R0, 10_000_000), asm.Mov.Reg(asm.R7, asm.R0),
		asm.LoadMem(asm.R2, asm.R6, 8, asm.DWord),
		asm.LoadMem(asm.R3, asm.R6, 0, asm.DWord), asm.JEq.Reg(asm.R3, asm.R7, "count"),
		asm.StoreMem(asm.R6, 0, asm.R7, asm.DWord),
	}, map[bool]asm.Instructions{true: {asm.Mov.Imm(asm.R2, 0)}}[limit > 0], asm.Instructions{
		asm.Add.Imm(asm.R2, 1).WithSymbol("count"), asm.StoreMem(asm.R6, 8, asm.R2, asm.DWord),
		asm.Mov.Imm(asm.R0, pass),
	}, decide, asm.Instructions{
		asm.Mov.Imm(asm.R0, drop),
		asm.Return().WithSymbol("out"),
	})})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	err = netns.Do(ns.Path(), func() error {
		l, err := net.InterfaceByName(port)
		if err != nil {
			return err
		}
		at, err := link.AttachXDP(link.XDPOptions{Program: p, Interface: l.Index})
		if err == nil {
			t.Cleanup(func() { at.Close() })
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A known limit of the box is found from the counts of software on it.
func TestBoxLimitsASubject(t *testing.T) {
	testutil.Long(t)
	testutil.Alone(t)
	tester, box := oneCable(t)
	plant(t, box, "i0", 50) // 5 kframe/s
	points := 0
	for _, r := range runBox(t, tester, "capture", "--set", "subject=af_packet", "--set", "rate=search") {
		if a := r.Account; a != nil && r.Procedure == "capture" && r.Parent != "" && (a.Unexplained < -2 || a.Unexplained > 2 || a.DroppedAt(result.XDP) < a.Accepted-a.Received-2) { // ARP
			t.Errorf("%s: %+v", r.ID, a)
		}
		if r.Procedure != "capture" || r.Parent != "" {
			continue
		}
		if r.Status == result.Invalid {
			t.Skipf("the tester was held up: %s", r.Reason)
		}
		// A sender that is held up and goes on fills a window sooner: it finds less, never more.
		if v := r.Value("lossless_fps"); v == nil || v.Value > 5050 || v.Value < 2500 {
			t.Errorf("%s %s: %+v", r.Status, r.Reason, v)
		}
		points++
	}
	if points != 1 {
		t.Errorf("%d points", points)
	}
}

// Frames that end in the box before the software are found where they end.
func TestBoxLosesBeforeTheSubject(t *testing.T) {
	testutil.Long(t)
	testutil.Alone(t)
	tester, box := oneCable(t)
	plant(t, box, "i0", 0)
	trials := 0
	for _, r := range runBox(t, tester, "capture", "--set", "subject=af_packet", "--set", "rate=2k", "--set", "packets=1000") {
		a := r.Account
		if a == nil || r.Procedure != "capture" || r.Parent == "" {
			continue
		}
		trials++
		lost := a.DroppedAt(result.XDP)
		if lost < a.Accepted/2-2 || lost > a.Accepted/2+2 || a.Unexplained < -2 || a.Unexplained > 2 || // ARP passes the program, too
			r.Status == result.Passed {
			t.Errorf("%s: %s %s: %+v", r.ID, r.Status, r.Reason, a)
		}
	}
	if trials == 0 {
		t.Error("no trials")
	}
}

// An agent that is killed while its subject runs aborts the trial; nothing is left of the
// subject, and --resume goes on.
func TestBoxBreaksWithASubject(t *testing.T) {
	tester, box := oneCable(t)
	const agent = "/var/lib/boxdyno-agent/boxdyno-agent "
	dir := filepath.Join(t.TempDir(), "run")
	var out bytes.Buffer
	ended := make(chan int)
	go func() {
		ended <- Main(t.Context(), []string{"run", "capture", "--box", "box", "--quick", "--quiet", "--out", dir, "--set", "subject=af_packet", "--set", "rate=1k", "--set", "duration=1s", "--set", "netns=" + tester.Path()}, &out, &out)
	}()
	for begin := time.Now(); len(inside(t, box.Path(), agent+"count-frames")) == 0; time.Sleep(10 * time.Millisecond) {
		if time.Since(begin) > 60*time.Second {
			t.Fatalf("no subject: %s", out.Bytes())
		}
	}
	for begin := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		_, recs, _ := result.Open(dir) // it may not be there yet
		if slices.ContainsFunc(recs, func(r result.Record) bool {
			return r.Procedure == "capture" && r.Parent != "" && r.Status == result.Running
		}) {
			break
		}
		if time.Since(begin) > time.Minute {
			t.Fatal("no trial runs")
		}
	}
	for _, pid := range inside(t, box.Path(), agent+"serve") {
		if err := unix.Kill(pid, unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	if code := <-ended; code != exitOther || !strings.Contains(out.String(), "the connection to testbox ended") {
		t.Fatalf("exit code %d: %s", code, out.Bytes())
	}
	for begin := time.Now(); len(inside(t, box.Path(), agent)) > 0; time.Sleep(50 * time.Millisecond) {
		if time.Since(begin) > time.Minute {
			t.Fatal("something of the agent is still there")
		}
	}
	statuses := func() (all []result.Status) {
		_, recs, err := result.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range recs {
			if r.Procedure == "capture" {
				all = append(all, r.Status)
			}
		}
		return all
	}
	if before := statuses(); !slices.Contains(before, result.Aborted) || slices.Contains(before, result.Failed) {
		t.Errorf("%q", before)
	}
	out.Reset()
	if code := Main(t.Context(), []string{"run", "--resume", dir, "--quiet"}, &out, &out); code != exitOK && code != exitInvalid {
		t.Fatalf("exit code %d: %s", code, out.Bytes())
	}
	if after := statuses(); !slices.Contains(after, result.Passed) && !slices.Contains(after, result.Invalid) {
		t.Errorf("%q", after)
	}
}

// A detector on a box evaluates its windows there.
func TestBoxInfers(t *testing.T) {
	testutil.Long(t)
	testutil.Alone(t)
	tester, _ := oneCable(t)
	evaluated := 0
	for _, r := range runBox(t, tester, "infer", "--set", "rate=2k", "--set", "duration=500ms") {
		a := r.Account
		if a == nil || r.Procedure != "infer" || r.Parent == "" {
			continue
		}
		if a.Accepted == 0 || a.Received != a.Accepted || a.Unexplained != 0 || r.Status == result.Failed {
			t.Errorf("%s: %s %s: %+v", r.ID, r.Status, r.Reason, a)
		}
		if v := r.Value("detected_windows_per_s"); v != nil {
			if evaluated++; v.Value < 50 {
				t.Errorf("windows: %+v", v)
			}
		}
	}
	if evaluated != 3 {
		t.Errorf("%d trials with a model", evaluated)
	}
}
