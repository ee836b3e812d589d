// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"strconv"
	"strings"
	"time"

	"boxdyno/engine/catalog"
	memory "boxdyno/engine/mem"
	"boxdyno/frame"
	"boxdyno/host"
	"boxdyno/ledger"
	"boxdyno/result"
	"boxdyno/unit"
)

// A mem testbed is in memory, in virtual time, and needs no privilege: wires to a DUT that
// routes, filters or drops, and a wire that carries everything for the self-test. The
// transmitter's ceiling holds on both.
type mem struct {
	cfg   memory.Config
	mtu   int
	rate  unit.BitRate
	plant Plant
}

func newMem() Topology {
	return &mem{mtu: defaultMTU, cfg: memory.Config{Capacity: 200e3, Queue: 256, Ceiling: 1e6, ReorderDepth: 1}}
}

func (m *mem) Flags(fs *flag.FlagSet) {
	c := &m.cfg
	fs.Var(frameRate(&c.Capacity), "capacity", "frames that the DUT forwards, both directions together, such as 200k; 0: no limit")
	fs.IntVar(&c.Queue, "queue", c.Queue, "frames that may be in the DUT at once; 0: 256")
	fs.DurationVar(&c.Wake, "wake", c.Wake, "how long the DUT takes to wake up; it falls asleep after 5 ms without a frame")
	fs.Var(frameRate(&c.Asleep), "asleep", "frames that it forwards meanwhile, such as 50k")
	fs.Var(frameRate(&c.Ceiling), "ceiling", "frames that the tester can send, such as 1M; 0: 1M")
	fs.DurationVar(&c.Delay, "delay", c.Delay, "from the DUT to the meter")
	fs.Var(ratio(&c.Loss), "loss", "ratio of frames that are lost at random on their way to the DUT, 0 to 1")
	fs.Uint64Var(&c.Seed, "loss_seed", c.Seed, "seed of that chance")
	fs.Uint64Var(&c.LoseEvery, "lose_every", c.LoseEvery, "each Nth frame is lost on its way to the DUT; 0: none")
	fs.Uint64Var(&c.DuplicateEvery, "duplicate_every", c.DuplicateEvery, "each Nth frame arrives twice; 0: none")
	fs.Uint64Var(&c.AlterEvery, "alter_every", c.AlterEvery, "each Nth frame arrives with a bit of its type of service changed; 0: none")
	fs.Uint64Var(&c.ReorderEvery, "reorder_every", c.ReorderEvery, "each Nth frame lets others pass; 0: none")
	fs.IntVar(&c.ReorderDepth, "reorder_depth", c.ReorderDepth, "how many frames pass it")
	m.plant.policerFlags(fs)
	addLinkFlags(fs, &m.mtu, &m.rate)
}

// ratio is a flag whose value lies in [0, 1].
func ratio(p *unit.LossRatio) parsed[unit.LossRatio] {
	return parsed[unit.LossRatio]{p, plainFloat[unit.LossRatio], func(s string) (unit.LossRatio, error) {
		v, err := strconv.ParseFloat(s, 64)
		if err != nil || !(v >= 0 && v <= 1) {
			return 0, fmt.Errorf("%q is not a ratio from 0 to 1", s)
		}
		return unit.LossRatio(v), nil
	}}
}

// frameRate is a flag whose value is a frame rate or 0.
func frameRate(p *unit.FrameRate) parsed[unit.FrameRate] {
	return parsed[unit.FrameRate]{p, plainFloat[unit.FrameRate], func(s string) (unit.FrameRate, error) {
		if s == "0" {
			return 0, nil
		}
		return unit.ParseFrameRate(s)
	}}
}

var memDrops = map[string]result.Place{"route": "", "filter": "", "drop-xdp": result.XDP, "drop-tc": result.TC, "drop-nft": result.NFT}

// config is what the memory backend is made with.
func (m *mem) config() memory.Config {
	cfg := m.cfg
	if cfg.Policer = m.plant.Policer; cfg.Policer > 0 {
		cfg.PolicerBurst = m.plant.bucket()
	}
	return cfg
}

func (m *mem) Sketch() (f Facts, err error) {
	if err := m.config().Check(); err != nil {
		return f, err
	}
	f = Facts{Topology: "mem", Kind: result.KindMemory, TesterCPU: -1, Services: memServices, Planted: m.plant.planted(m.mtu)}
	loops := [2]string{memory.LoopA, memory.LoopB}
	for i, name := range [2]string{memory.LAN, memory.WAN} {
		mine, other := sides[i], sides[1-i]
		f.Ports = append(f.Ports, Port{
			Port: memPort(name), MAC: mine.testerMAC, GatewayMAC: mine.dutMAC, MTU: m.mtu, Link: m.rate,
			Addr4: mine.net4.Addr().Next(), Gateway4: mine.net4.Addr(),
			Addr6: mine.net6.Addr().Next(), Gateway6: mine.net6.Addr(),
		})
		f.Loop = append(f.Loop, Port{
			Port: memPort(loops[i]), MAC: mine.testerMAC, GatewayMAC: other.testerMAC, MTU: m.mtu, Link: m.rate,
			Addr4: mine.net4.Addr().Next(), Gateway4: other.net4.Addr().Next(),
			Addr6: mine.net6.Addr().Next(), Gateway6: other.net6.Addr().Next(),
		})
	}
	return f, nil
}

func (m *mem) Build(context.Context) (*Testbed, error) {
	facts, err := m.Sketch()
	if err != nil {
		return nil, err
	}
	wire, err := memory.New(m.config())
	if err != nil {
		return nil, err
	}
	tb := &Testbed{Facts: facts, Engine: wire, Tried: []catalog.Tried{{Name: wire.Name()}}, Sources: []ledger.Source{wire}, Means: &memMeans{wire, facts}}
	fs := flag.NewFlagSet("mem", flag.ContinueOnError)
	m.Flags(fs)
	fs.VisitAll(func(f *flag.Flag) {
		if v := f.Value.String(); v != "" && v != "0" && v != "0s" && !strings.HasPrefix(f.Name, "dut.") {
			tb.Settings = append(tb.Settings, result.Pair{Key: f.Name, Value: v})
		}
	})
	tb.Settings = append(tb.Settings, m.plant.settings(m.mtu)...)
	if m.rate > 0 {
		tb.Settings = append(tb.Settings, result.Pair{Key: "link_rate", Value: m.rate.String()})
	}
	return tb, nil
}

// memMeans are those of a testbed in memory.
type memMeans struct {
	wire  *memory.Backend
	facts Facts
}

// Path implements Pather.
func (m *memMeans) Path(from, to int, loop bool) ledger.Path {
	ports := m.facts.Ports
	if loop {
		ports = m.facts.Loop
	}
	a, b := ports[from].Port, ports[to].Port
	hops := []ledger.Hop{{Place: result.Tester, Port: a}}
	if !loop {
		hops = append(hops, ledger.Hop{Place: result.DUTNIC, Port: a}, ledger.Hop{Place: result.DUTNIC, Port: b})
	}
	return ledger.Path{Name: a.Name + "-to-" + b.Name, Hops: append(hops, ledger.Hop{Place: result.MeterAt, Port: b})}
}

// Serve implements Server.
func (m *memMeans) Serve(_ context.Context, s Service) error {
	place, ok := memDrops[s.Kind]
	if !ok {
		return fmt.Errorf("topology mem cannot serve %q: %w", s.Kind, host.ErrNotSupported)
	}
	m.wire.Drop(place)
	m.wire.Block(nil)
	if s.Block {
		m.wire.Block(knownBad)
	}
	return nil
}

// Rest implements Rester.
func (m *memMeans) Rest(d time.Duration) { m.wire.Rest(d) }

// knownBad says whether a UDP frame's source port is a known-bad one.
func knownBad(frm []byte) bool {
	at := 14 + 20
	if frm[14]>>4 == 6 {
		at = 14 + 40
	}
	port := binary.BigEndian.Uint16(frm[at:])
	return port >= frame.BadPort && port < frame.BadPort+frame.BadPorts
}

func memPort(name string) host.Port { return host.Port{Host: "tester", Name: name} }
