// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/vishvananda/netlink"

	"boxdyno/engine"
	"boxdyno/internal/netns"
	"boxdyno/internal/testutil"
	"boxdyno/runner"
)

// The scripts in testdata/lab send and meter in a namespace of their own:
//
//	v0 ==== veth ==== v1      d0 ==== veth ==== d1      below -- above (bridge)    down ==== veth
//	                          default route by d0       default route
//	half ==== veth ==== h1    taken ==== veth ==== t1
//	128.0.0.0/1 by half       an address of taken
func TestLabScripts(t *testing.T) {
	testutil.Alone(t)
	testutil.Privileged(t)
	cpus := testutil.TwoCPUs(t)
	commands := maps.Clone(scriptCommands)
	commands["listen"], commands["hangup"], commands["finish"] = scriptListen, scriptHangup, scriptFinish
	commands["interrupt"], commands["json"] = scriptInterrupt, scriptJSON
	testscript.Run(t, testscript.Params{
		Dir:  "testdata/lab",
		Cmds: commands,
		Setup: func(env *testscript.Env) error {
			ns, err := netns.New()
			if err != nil {
				return err
			}
			env.Defer(func() { ns.Close() })
			if err := netns.Do(ns.Path(), furnish); err != nil {
				return err
			}
			env.Setenv("NS", ns.Path())
			env.Setenv("CPUS", fmt.Sprintf("%d,%d", cpus[0], cpus[1]))
			env.Values[listeners{}] = map[string]*exec.Cmd{}
			sum := engine.NewDigest()
			sum.Add(onWire(60))
			sum.Add(onWire(1000))
			env.Setenv("HASH", sum.Sum())
			return errors.Join(
				os.WriteFile(filepath.Join(env.WorkDir, "two.pcap"), pcapOf(60, 1000), 0o644),
				os.WriteFile(filepath.Join(env.WorkDir, "talk.pcap"), datagram(), 0o644),
				os.WriteFile(filepath.Join(env.WorkDir, "long.pcap"), pcapOf(60, 1600), 0o644))
		},
	})
}

// furnish makes the links of this thread's namespace.
func furnish() error {
	add := func(name, peer string) error {
		return netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name, NumTxQueues: 2, NumRxQueues: 2}, PeerName: peer})
	}
	for _, pair := range [][2]string{{"v0", "v1"}, {"d0", "d1"}, {"down", "low"}, {"below", "b1"}, {"half", "h1"}, {"taken", "t1"}} {
		if err := add(pair[0], pair[1]); err != nil {
			return fmt.Errorf("make %s: %w", pair[0], err)
		}
	}
	bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "above"}}
	if err := netlink.LinkAdd(bridge); err != nil {
		return fmt.Errorf("make a bridge: %w", err)
	}
	for _, name := range []string{"v0", "v1", "d0", "d1", "below", "b1", "above", "half", "h1", "taken", "t1"} {
		l, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		// No router solicitations: every frame here is the test's.
		if err := os.WriteFile("/proc/sys/net/ipv6/conf/"+name+"/disable_ipv6", []byte("1"), 0); err != nil && !os.IsNotExist(err) {
			return err
		}
		if name == "below" {
			if err := netlink.LinkSetMaster(l, bridge); err != nil {
				return err
			}
		}
		if err := netlink.LinkSetUp(l); err != nil {
			return err
		}
	}
	l, err := netlink.LinkByName("half")
	if err != nil {
		return err
	}
	// What a VPN sets.
	if err := netlink.RouteAdd(&netlink.Route{LinkIndex: l.Attrs().Index, Scope: netlink.SCOPE_LINK, Dst: &net.IPNet{IP: net.IPv4(128, 0, 0, 0), Mask: net.CIDRMask(1, 32)}}); err != nil {
		return err
	}
	for i, name := range []string{"d0", "above", "taken"} {
		l, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		own := net.IPv4(192, 0, byte(2+i), 1)
		if err := netlink.AddrAdd(l, &netlink.Addr{IPNet: &net.IPNet{IP: own, Mask: net.CIDRMask(24, 32)}}); err != nil {
			return err
		}
		if name == "taken" {
			continue
		}
		if err := netlink.RouteAdd(&netlink.Route{LinkIndex: l.Attrs().Index, Gw: net.IPv4(192, 0, byte(2+i), 2), Priority: 10 + i}); err != nil {
			return err
		}
	}
	return nil
}

// pcapOf is a pcap file of frames of the local experimental Ethernet type.
func pcapOf(lengths ...int) []byte {
	le := binary.LittleEndian
	b := le.AppendUint32(nil, 0xa1b2c3d4)
	b = le.AppendUint16(b, 2)
	b = le.AppendUint16(b, 4)
	b = append(b, make([]byte, 8)...)
	b = le.AppendUint32(b, 65535)
	b = le.AppendUint32(b, 1) // Ethernet
	for i, n := range lengths {
		b = le.AppendUint32(b, 1)
		b = le.AppendUint32(b, uint32(i*1000)) // us
		b = le.AppendUint32(b, uint32(n))
		b = le.AppendUint32(b, uint32(n))
		b = append(b, onWire(n)...)
	}
	return b
}

// datagram is a capture of one frame of UDP over IPv4.
func datagram() []byte {
	b := pcapOf(60)
	copy(b[len(b)-60+12:], "\x08\x00\x45\x00\x00\x1c\x00\x00\x00\x00\x40\x11\x00\x00\x0a\x00\x00\x01\x0a\x00\x00\x02\x04\x00\x00\x35\x00\x08")
	return b
}

func onWire(n int) []byte {
	frame := make([]byte, n)
	frame[0], frame[6], frame[12], frame[13] = 2, 2, 0x88, 0xb5
	return frame
}

// A whole send and a whole meter leave no goroutine and no descriptor behind,
// however they end.
func TestTrafficLeavesNothing(t *testing.T) {
	testutil.Alone(t)
	testutil.Privileged(t)
	ns, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	if err := netns.Do(ns.Path(), furnish); err != nil {
		t.Fatal(err)
	}
	call(t.Context(), runner.Catalogue{}, "send", "--netns", ns.Path(), "-i", "v0", "--rate", "1k", "--count", "1", "--quiet") // what stays once stays
	testutil.NoLeaks(t)
	for _, c := range []struct {
		args  string
		lines int // after which it is interrupted; 0: it ends
		code  int
	}{
		{"send -i v0 --rate 10k --count 100", 0, 0},
		{"send -i v0 --rate 1k --duration 0 --flood udp --stats 0.1", anInterval, 130},
		{"replay -i v0 nothere.pcap", 0, 2},
		{"meter -i v1 --timing --stats 0.1", anInterval, 0},
		{"send -i v0 --rate 1k --apps --cpus 0 --stats 0.1", anInterval, 130},
	} {
		ctx, stop := context.WithCancel(t.Context())
		code, out, errw := whenPrinted(ctx, c.lines, stop, append(strings.Fields(c.args), "--netns", ns.Path(), "--quiet")...)
		stop()
		if code != c.code || (code != 2) != strings.Contains(out, "mean frame") {
			t.Errorf("%s: exit code %d, want %d\n%s%s", c.args, code, c.code, out, errw)
		}
	}
}

// anInterval is how many lines sender and meter have printed after the first interval of
// --stats: what they do in one or two, the table's head, and the interval.
const anInterval = 4

// whenPrinted is call, and has f called once so many lines were printed.
func whenPrinted(ctx context.Context, lines int, f func(), args ...string) (code int, stdout, stderr string) {
	out := &lineCounter{want: lines, then: f}
	var errw bytes.Buffer
	code = run(ctx, &app{out: out, err: &errw, argv: append([]string{"boxdyno"}, args...)}, args)
	return code, out.text.String(), errw.String()
}

type lineCounter struct {
	text bytes.Buffer
	want int
	then func()
}

func (c *lineCounter) Write(b []byte) (int, error) {
	before := bytes.Count(c.text.Bytes(), []byte("\n"))
	n, err := c.text.Write(b)
	if before < c.want && bytes.Count(c.text.Bytes(), []byte("\n")) >= c.want {
		c.then()
	}
	return n, err
}

// A port that vanishes ends both commands, with the account of what was before.
func TestPortGone(t *testing.T) {
	testutil.Privileged(t)
	for args, lines := range map[string]int{
		"send -i v0 --rate 1k --duration 600 --json --stats 0.2":  1,
		"meter -i v1 --duration 600 --json --stats 0.2":           1,
		"meter -i v1 --duration 600 --stats 0.2 --backend packet": anInterval,
	} {
		ns, err := netns.New()
		if err != nil {
			t.Fatal(err)
		}
		defer ns.Close()
		if err := netns.Do(ns.Path(), furnish); err != nil {
			t.Fatal(err)
		}
		remove := func() {
			if err := netns.Do(ns.Path(), func() error {
				l, err := netlink.LinkByName("v0")
				return errors.Join(err, netlink.LinkDel(l))
			}); err != nil {
				t.Error(err)
			}
		}
		code, out, errw := whenPrinted(t.Context(), lines, remove, append(strings.Fields(args), "--netns", ns.Path())...)
		if code != exitOther || !strings.Contains(out, "it ended early: ") {
			t.Errorf("%s: exit code %d, want %d and an account\n%s%s", args, code, exitOther, out, errw)
		}
		if strings.HasPrefix(args, "meter") && !strings.Contains(out, "vanished: what came is known up to") {
			t.Errorf("%s does not say up to when it counted:\n%s", args, out)
		}
	}
}

// listeners are the meters of a script, by name.
type listeners struct{}

// boxdyno is the program under test as a command of the script.
func boxdyno(ts *testscript.TestScript, args ...string) *exec.Cmd {
	for _, dir := range filepath.SplitList(ts.Getenv("PATH")) {
		if path := filepath.Join(dir, "boxdyno"); exec.Command(path).Err == nil {
			cmd := exec.Command(path, args...)
			cmd.Dir = ts.Getenv("WORK")
			cmd.Env = append(os.Environ(), "PATH="+ts.Getenv("PATH"))
			return cmd
		}
	}
	ts.Fatalf("there is no boxdyno in the script's PATH")
	return nil
}

// listen NAME ARGS... starts boxdyno meter and waits until it listens; what it
// prints goes to the file NAME.
func scriptListen(ts *testscript.TestScript, neg bool, args []string) {
	cmd := boxdyno(ts, append([]string{"meter"}, args[1:]...)...)
	out, err := os.Create(ts.MkAbs(args[0]))
	ts.Check(err)
	cmd.Stdout = out
	said, err := cmd.StderrPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	ts.Value(listeners{}).(map[string]*exec.Cmd)[args[0]] = cmd
	ts.Defer(func() {
		cmd.Process.Kill()
		cmd.Wait()
		out.Close()
	})
	lines := bufio.NewReader(said)
	line, err := lines.ReadString('\n')
	if err != nil || !strings.Contains(line, "listening on ") {
		rest, _ := io.ReadAll(lines)
		ts.Fatalf("the meter says %q%s: %v", line, rest, err)
	}
}

// hangup NAME ends a meter as Ctrl-C does: exit code 0.
func scriptHangup(ts *testscript.TestScript, neg bool, args []string) {
	ts.Check(ts.Value(listeners{}).(map[string]*exec.Cmd)[args[0]].Process.Signal(os.Interrupt))
	scriptFinish(ts, neg, args)
}

// finish NAME waits for a meter to end by itself.
func scriptFinish(ts *testscript.TestScript, neg bool, args []string) {
	if err := ts.Value(listeners{}).(map[string]*exec.Cmd)[args[0]].Wait(); err != nil {
		ts.Fatalf("the meter ends with %v:\n%s", err, ts.ReadFile(args[0]))
	}
}

// interrupt N boxdyno ARGS... presses Ctrl-C once the program has printed a line;
// it must exit with N.
func scriptInterrupt(ts *testscript.TestScript, neg bool, args []string) {
	cmd := boxdyno(ts, args[2:]...)
	out, err := cmd.StdoutPipe()
	ts.Check(err)
	var errw strings.Builder
	cmd.Stderr = &errw
	ts.Check(cmd.Start())
	lines := bufio.NewReader(out)
	first, err := lines.ReadString('\n')
	ts.Check(err)
	ts.Check(cmd.Process.Signal(os.Interrupt))
	rest, err := io.ReadAll(lines)
	ts.Check(err)
	err = cmd.Wait()
	fmt.Fprint(ts.Stdout(), first+string(rest))
	fmt.Fprint(ts.Stderr(), errw.String())
	checkCode(ts, args[0], err)
}

// json FILE PATH VALUE looks a value up in a JSON document; stdout is the last
// command's.
func scriptJSON(ts *testscript.TestScript, neg bool, args []string) {
	var v any
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &v))
	for key := range strings.SplitSeq(args[1], ".") {
		switch at := v.(type) {
		case map[string]any:
			v = at[key]
		case []any:
			i, err := strconv.Atoi(key)
			ts.Check(err)
			if i >= len(at) {
				ts.Fatalf("%s has %d elements at %s:\n%s", args[0], len(at), args[1], ts.ReadFile(args[0]))
			}
			v = at[i]
		default:
			ts.Fatalf("%s has nothing at %s:\n%s", args[0], args[1], ts.ReadFile(args[0]))
		}
	}
	if got := fmt.Sprint(v); got != args[2] {
		ts.Fatalf("%s of %s is %s, want %s:\n%s", args[1], args[0], got, args[2], ts.ReadFile(args[0]))
	}
}
