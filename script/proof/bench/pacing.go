// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"boxdyno/engine"
	"boxdyno/engine/catalog"
	"boxdyno/frame"
	"boxdyno/host"
	"boxdyno/unit"
)

// A watch writes down when each frame arrives: an XDP program on the receiving
// port puts the clock into memory, element 0 of which is the number of frames. It
// runs in the sender's softirq, so it works for whoever sends.
type watch struct {
	times *ebpf.Map
}

func newWatch(b *bed, frames int) (*watch, error) {
	times, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: uint32(frames + 1), Flags: 1 << 10}) // BPF_F_MMAPABLE
	if err != nil {
		return nil, err
	}
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.XDP, License: "Dual BSD/GPL", Instructions: asm.Instructions{
		asm.Mov.Imm(asm.R1, 0),
		asm.StoreMem(asm.RFP, -4, asm.R1, asm.Word),
		asm.LoadMapPtr(asm.R1, times.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, -4),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "out"),
		asm.LoadMem(asm.R8, asm.R0, 0, asm.DWord),
		asm.Add.Imm(asm.R8, 1),
		asm.StoreMem(asm.R0, 0, asm.R8, asm.DWord),
		asm.StoreMem(asm.RFP, -4, asm.R8, asm.Word),
		asm.LoadMapPtr(asm.R1, times.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, -4),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "out"),
		asm.Mov.Reg(asm.R9, asm.R0),
		asm.FnKtimeGetNs.Call(),
		asm.StoreMem(asm.R9, 0, asm.R0, asm.DWord),
		asm.Mov.Imm(asm.R0, 1).WithSymbol("out"), // XDP_DROP
		asm.Return(),
	}})
	if err != nil {
		times.Close()
		return nil, err
	}
	defer prog.Close()
	w := &watch{times: times}
	if err := b.receive.Update(prog); err != nil {
		times.Close()
		return nil, err
	}
	return w, nil
}

// reset forgets all.
func (w *watch) reset() error { return w.times.Put(uint32(0), uint64(0)) }

// seen is when frames arrived, ns, in order.
func (w *watch) seen() ([]uint64, error) {
	var n uint64
	if err := w.times.Lookup(uint32(0), &n); err != nil {
		return nil, err
	}
	n = min(n, uint64(w.times.MaxEntries()-1))
	memory, err := w.times.Memory()
	if err != nil {
		return nil, err
	}
	raw := make([]byte, 8*n)
	if _, err := memory.ReadAt(raw, 8); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	out := make([]uint64, n)
	for i := range out {
		out[i] = binary.NativeEndian.Uint64(raw[8*i:])
	}
	return out, nil
}

// pacing compares what was asked with what arrived, ours beside tcpreplay.
func pacing(ctx context.Context, span time.Duration, dir string) error {
	b, err := twoNamespaces(xdpDrop)
	if err != nil {
		return err
	}
	defer b.close()
	w, err := newWatch(b, int(3.2e6*span.Seconds()))
	if err != nil {
		return err
	}
	defer w.times.Close()
	loads, err := makeLoads(b, dir, "")
	if err != nil {
		return err
	}
	fmt.Printf("pacing of 64-byte frames over %v; errors of gaps against the schedule: where frames arrive, and where boxdyno sends\n", span)
	fmt.Printf("  %10s  %-10s %10s %10s %10s %10s   %s\n", "asked", "sender", "mean off", "p50 ns", "p99 ns", "largest us", "at the sender: p50 ns, p99 ns, largest us; batch")
	for _, rate := range []float64{1e3, 10e3, 100e3, 500e3, 1e6, 1.488e6, 3e6} {
		if err := ours1(ctx, b, w, loads[0], rate, span); err != nil {
			return err
		}
		if err := theirs1(ctx, b, w, loads[0], rate, span); err != nil {
			return err
		}
	}
	fmt.Println()
	return nil
}

func ours1(ctx context.Context, b *bed, w *watch, l *load, rate float64, span time.Duration) error {
	e, err := catalog.Open("xdp")
	if err != nil {
		return err
	}
	tx, err := e.OpenTransmitter(ctx, []host.Port{b.tx}, 0)
	if err != nil {
		return err
	}
	defer tx.Close()
	if err := w.reset(); err != nil {
		return err
	}
	offer := engine.Load{Rate: unit.FrameRate(rate), Duration: span, Alone: true, Gaps: true}
	sent, err := tx.Transmit(ctx, offer, engine.Stream{ID: 1, Frames: *l.spec})
	if err != nil {
		return err
	}
	at := ""
	if h := sent[0].GapErrors; h != nil {
		at = fmt.Sprintf("%8.0f %8.0f %8.1f; %d", h.Quantile(0.5)*1e9, h.Quantile(0.99)*1e9, h.Quantile(1)*1e6, sent[0].Batch)
	}
	return w.row(rate, "boxdyno", at)
}

func theirs1(ctx context.Context, b *bed, w *watch, l *load, rate float64, span time.Duration) error {
	if err := w.reset(); err != nil {
		return err
	}
	during, stop := context.WithTimeout(ctx, span+span/10+time.Second)
	defer stop()
	// Its --duration counts whole seconds.
	err := flood(during, b, "tcpreplay", "-q", "-K", "--pps", strconv.FormatFloat(rate, 'f', 0, 64), "--loop", "0",
		"--duration", strconv.Itoa(max(int(span.Seconds()), 1)), "-i", b.tx.Name, l.capture)
	var none *absent
	if errors.As(err, &none) {
		fmt.Printf("  %10s  %-10s %s\n", unit.SI(rate), "tcpreplay", none.why)
		return nil
	}
	if err != nil {
		return err
	}
	return w.row(rate, "tcpreplay", "")
}

// row prints what the watch says of equal gaps at rate.
func (w *watch) row(rate float64, name, more string) error {
	seen, err := w.seen()
	if err != nil {
		return err
	}
	if len(seen) < 3 {
		return fmt.Errorf("%s at %v frame/s: %d frames arrived", name, rate, len(seen))
	}
	gap := 1e9 / rate
	errs := make([]float64, len(seen)-1)
	for i := range errs {
		errs[i] = math.Abs(float64(seen[i+1]-seen[i]) - gap)
	}
	slices.Sort(errs)
	mean := float64(len(seen)-1) * 1e9 / float64(seen[len(seen)-1]-seen[0])
	fmt.Printf("  %10s  %-10s %9.4f%% %10.0f %10.0f %10.1f   %s\n", unit.SI(rate), name, 100*(mean/rate-1),
		errs[len(errs)/2], errs[len(errs)*99/100], errs[len(errs)-1]/1e3, more)
	return nil
}

// original replays a capture at its own times.
func original(ctx context.Context, span time.Duration, dir string) error {
	b, err := twoNamespaces(xdpDrop)
	if err != nil {
		return err
	}
	defer b.close()
	src, err := frame.NewAppMix(frame.AppMix{Rate: 20e6, Duration: span, ClientMAC: b.txMAC, ServerMAC: b.gateway})
	if err != nil {
		return err
	}
	defer src.Close()
	l := &load{capture: filepath.Join(dir, "timed.pcap")}
	var times []uint64
	if err := l.write(frames(src, func(e frame.Entry, _ []byte) bool { times = append(times, e.At); return true })); err != nil {
		return err
	}
	w, err := newWatch(b, len(times))
	if err != nil {
		return err
	}
	defer w.times.Close()
	captured, err := frame.OpenCapture(l.capture, frame.CaptureOptions{})
	if err != nil {
		return err
	}
	defer captured.Close()
	e, err := catalog.Open("xdp")
	if err != nil {
		return err
	}
	tx, err := e.OpenTransmitter(ctx, []host.Port{b.tx}, 0)
	if err != nil {
		return err
	}
	defer tx.Close()
	fmt.Printf("a capture of %d frames in %.1f s at its own times\n", len(times), float64(times[len(times)-1]-times[0])/1e9)
	sent, err := tx.Transmit(ctx, engine.Load{Speed: 1, Passes: 1, Gaps: true}, engine.Stream{ID: 1, Source: captured})
	if err != nil {
		return err
	}
	at := ""
	if h := sent[0].GapErrors; h != nil {
		at = fmt.Sprintf("at the sender: p50 %.0f ns, p99 %.0f ns", h.Quantile(0.5)*1e9, h.Quantile(0.99)*1e9)
	}
	if err := w.against(times, "boxdyno", at); err != nil {
		return err
	}
	if err := w.reset(); err != nil {
		return err
	}
	err = flood(ctx, b, "tcpreplay", "-q", "-K", "-i", b.tx.Name, l.capture)
	var none *absent
	if err == nil {
		err = w.against(times, "tcpreplay", "")
	} else if errors.As(err, &none) {
		fmt.Printf("  %-10s %s\n", "tcpreplay", none.why)
		err = nil
	}
	return err
}

// against prints how arrivals differ from times.
func (w *watch) against(times []uint64, name, more string) error {
	seen, err := w.seen()
	if err != nil {
		return err
	}
	if len(seen) != len(times) {
		return fmt.Errorf("%s: %d of %d frames arrived", name, len(seen), len(times))
	}
	errs := make([]float64, len(seen)-1)
	for i := range errs {
		errs[i] = math.Abs(float64(seen[i+1]-seen[i]) - float64(times[i+1]-times[i]))
	}
	slices.Sort(errs)
	last := len(seen) - 1
	drift := (float64(seen[last]-seen[0]) - float64(times[last]-times[0])) / 1e3
	fmt.Printf("  %-10s drift %.1f us, gap error p50 %.0f ns, p99 %.0f ns, largest %.0f us; %s\n", name, drift, errs[len(errs)/2], errs[len(errs)*99/100], errs[len(errs)-1]/1e3, more)
	return nil
}
