// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/gopacket/gopacket/afpacket"

	"boxdyno/internal/infer"
	"boxdyno/subject/capture"
	"boxdyno/subject/internal/program"
)

// The way of a frame, all on one thread:
//
//	port > TPACKET_V3 ring (kernel; no room: dropped by the kernel)
//	     > Decode > Cutter > batch of windows > evaluator > counted
//
// The thread waits for the evaluator: while it does, the ring fills.

const (
	detectorBlock = 256 << 10
	// detectorRetire is how long the kernel may keep a block that is not full.
	detectorRetire = 10 * time.Millisecond
	detectorPoll   = 20 * time.Millisecond
	wordPause      = 100 * time.Millisecond // between two words about counts
	wordFrames     = 64                     // between two looks at the clock
)

// listen detects on the port until it is told to end.
func (d *detection) listen() (err error) {
	e, err := d.evaluator()
	if err != nil {
		return err
	}
	c, err := infer.NewCutter(d.Window)
	if err != nil {
		return err
	}
	over := make(chan os.Signal, 1)
	signal.Notify(over, os.Interrupt, syscall.SIGTERM)
	debug.FreeOSMemory() // of what the model was made from
	ring, err := afpacket.NewTPacket(
		afpacket.OptInterface(d.Port), afpacket.TPacketVersion3, afpacket.OptFrameSize(2048), afpacket.OptBlockSize(detectorBlock),
		afpacket.OptNumBlocks(max(cmp.Or(d.Buffer, capture.PacketBuffer)/detectorBlock, 2)), afpacket.OptBlockTimeout(detectorRetire), afpacket.OptPollTimeout(detectorPoll),
	)
	if err != nil {
		return fmt.Errorf("open a packet ring on %s: %w", d.Port, err)
	}
	defer ring.Close()
	l := &listening{detection: d, ring: ring, cutter: c, evaluator: e, ready: true}
	if err := l.say(); err != nil {
		return err
	}
	for {
		select {
		case <-over:
			return errors.Join(l.flush(), l.say(), e.close())
		default:
		}
		if err := l.some(); err != nil {
			return err
		}
	}
}

// evaluator is the model's, made ready.
func (d *detection) evaluator() (evaluator, error) {
	if d.Model == Bare || d.Model == infer.None {
		return none{}, nil
	}
	_, _, windows, err := d.pool()
	if err != nil {
		return nil, err
	}
	m, err := infer.New(d.Model, d.Seed, windows)
	switch {
	case err != nil:
		return nil, err
	case d.Python != "":
		return d.serve(m)
	}
	return &builtin{Detector: m}, nil
}

type listening struct {
	*detection
	ring      *afpacket.TPacket
	cutter    *infer.Cutter
	evaluator evaluator
	batch     []infer.Vector

	ready  bool // has not been said yet
	count  int64
	kernel int64
	told   Detections
	due    time.Time
}

// some handles a few frames, or waits for the first.
func (l *listening) some() error {
	for range wordFrames {
		b, info, err := l.ring.ZeroCopyReadPacketData()
		if errors.Is(err, afpacket.ErrTimeout) {
			if err := l.flush(); err != nil { // nothing else is to be done
				return err
			}
			break
		}
		if err != nil {
			return fmt.Errorf("read frames of %s: %w", l.Port, err)
		}
		at := float64(info.Timestamp.Unix()%86400) + float64(info.Timestamp.Nanosecond())/1e9 // exact to some ten ns
		p := infer.Decode(b, info.Length, at)
		if !p.UDP() {
			continue // neighbour discovery
		}
		if l.Model != Bare {
			if x, done := l.cutter.Add(&p); done && l.Model != infer.None {
				if l.batch = append(l.batch, x); len(l.batch) >= l.Batch {
					if err := l.flush(); err != nil {
						return err
					}
				}
			} else if done {
				l.told.Windows++
			}
		}
		l.count++
	}
	if time.Now().Before(l.due) {
		return nil
	}
	return l.say()
}

// flush evaluates the windows that wait.
func (l *listening) flush() error {
	if len(l.batch) == 0 {
		return nil
	}
	begin := time.Now()
	if err := l.evaluator.evaluate(l.batch); err != nil {
		return err
	}
	l.told.Model += time.Since(begin)
	l.told.Windows += int64(len(l.batch))
	l.batch = l.batch[:0]
	return nil
}

// say prints the counts.
func (l *listening) say() error {
	_, s, err := l.ring.SocketStats()
	if err != nil {
		return fmt.Errorf("read the ring's drops on %s: %w", l.Port, err)
	}
	l.kernel = int64(s.Drops())
	l.due = time.Now().Add(wordPause)
	word := struct {
		Ready  bool  `json:"ready,omitempty"`
		Count  int64 `json:"count"`
		Kernel int64 `json:"kernel"`
		Detections
	}{l.ready, l.count, l.kernel, l.told}
	l.ready = false
	return program.Say(word)
}
