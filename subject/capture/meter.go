// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"

	"boxdyno/engine"
	"boxdyno/engine/catalog"
	"boxdyno/host"
	"boxdyno/subject"
	"boxdyno/subject/internal/program"
	"boxdyno/unit"
)

// Our own meters run like any other program: as a child, this program once more.
// af_packet counts frames of UDP, as others with that filter do; xdp and af_xdp those
// with the engine's signature; of an Env's foreign traffic all count all frames.
var (
	afPacket = meterTool("af_packet", "packet", PacketBuffer, "this program's meter over a TPACKET_V3 ring (as boxdyno meter --backend packet --count-udp)")
	xdp      = meterTool("xdp", "xdp", AsItIs, "this program's meter in an XDP program (as boxdyno meter --backend xdp); signed frames end there")
	afXDP    = meterTool("af_xdp", "afxdp", AsItIs, "this program's meter over AF_XDP sockets (as boxdyno meter --backend afxdp); signed frames end there")
)

// The streams that are counted: a procedure's, and the highest number for the frames
// with which it tries whether a subject counts.
const (
	meterStreams = 15
	meterProbes  = 1<<16 - 1
)

// PacketBuffer is the ring of backend packet.
const PacketBuffer = 16 << 20

// A metering is what a child meters.
type metering struct {
	Backend, Port string
	UDP           bool // frames of UDP, without a look into them
	All           bool // frames without a signature, too
}

// A meterLine is what a child prints, ten times a second and at its end.
type meterLine struct {
	Clock float64 `json:"clock_s"` // since it listens
	Count *uint64 `json:"count"`
	Drops *uint64 `json:"drops,omitempty"` // by the kernel; at its end
}

func meterTool(name, backend string, buffer uint64, doc string) Tool {
	return Tool{
		Name: name, Work: Count, doc: doc, Fixed: buffer, Unseen: backend != "packet", redirected: backend == "afxdp", ends: backend == "xdp", prompt: true, Filters: []string{DefaultFilter, ""},
		Argv: func(c *Capture, e Place) ([]string, error) {
			udp := backend == "packet" && c.Filter == DefaultFilter && !e.Foreign
			return program.Child(meterWord, metering{Backend: backend, Port: e.Port.Name, UDP: udp, All: e.Foreign || c.Filter == "" || udp})
		},
		Said: func(*Capture, subject.Env) (Parser, Parser) { return parseMeter, nil },
	}
}

// parseMeter reads what a meter's child prints.
func parseMeter(line string) Told {
	s := Nothing
	var l meterLine
	if err := json.Unmarshal([]byte(line), &l); err != nil || l.Count == nil || *l.Count > 1<<62 || l.Drops != nil && *l.Drops > 1<<62 || !(l.Clock >= 0 && l.Clock < 1e9) {
		s.Garbage = true
		return s
	}
	s.Ready, s.Counted, s.clock = true, int64(*l.Count), time.Duration(l.Clock*1e9)
	if l.Drops != nil {
		s.Kernel = int64(*l.Drops)
	}
	return s
}

// meterWord is the first argument of a meter's child, a metering the second.
const meterWord = "count-frames"

// Main does the work of a meter's child where this process is one, and then does not
// return.
func Main() { program.ChildMain(meterWord, (*metering).run) }

// run meters until SIGINT.
func (m *metering) run() (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT)
	defer stop()
	b, err := catalog.Open(m.Backend)
	if err != nil {
		return err
	}
	open := b.OpenMeter
	if s, ok := b.(engine.Sparer); ok {
		open = s.OpenSparing
	}
	meter, err := open(ctx, host.Port{Name: m.Port})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, meter.Close()) }()
	ids := []uint16{meterProbes}
	for n := range uint16(meterStreams) {
		ids = append(ids, n)
	}
	if m.UDP {
		c, ok := meter.(engine.PlainCounter)
		if !ok {
			return fmt.Errorf("backend %s has no filter for UDP", m.Backend)
		}
		if err := c.CountUDP(); err != nil {
			return err
		}
		ids = nil
	}
	if err := meter.Arm(ctx, false, ids...); err != nil {
		return err
	}
	begin := unit.Now()
	out := json.NewEncoder(os.Stdout)
	tell := func(last bool) error {
		now := unit.Now()
		rep, err := meter.Read(context.WithoutCancel(ctx))
		if err != nil && len(rep.Streams) < len(ids) {
			return err
		}
		n := uint64(0)
		if m.All {
			n = rep.Foreign
		}
		for _, s := range rep.Streams {
			n += s.Frames
		}
		l := meterLine{Clock: time.Duration(now - begin).Seconds(), Count: &n}
		if last || err != nil {
			l.Drops = &rep.Drops
		}
		return errors.Join(err, out.Encode(l))
	}
	t := time.NewTicker(AskPause)
	defer t.Stop()
	for err == nil {
		if err = tell(false); err != nil {
			break
		}
		select {
		case <-ctx.Done():
			return tell(true)
		case <-t.C:
		}
	}
	return err
}
