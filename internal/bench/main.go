// SPDX-License-Identifier: Apache-2.0

// Command bench measures the engine beside its peers in one run and prints
// ratios with their intervals. script/bench sets up and runs it as root.
//
// Every sender runs on CPU 0; all are counted by the same meter on the receiving
// port, never by themselves.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"boxdyno/engine"
	"boxdyno/frame"
	"boxdyno/host"
	"boxdyno/lab"
	"boxdyno/unit"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
)

func main() {
	repeats := flag.Int("repeats", 5, "runs of each sender; the table shows medians")
	span := flag.Duration("span", time.Second, "how long each of boxdyno's runs offers load")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *repeats, *span); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, repeats int, span time.Duration) error {
	if err := host.Has("tcpreplay"); err != nil {
		return err
	}
	unlock, err := host.Lock(ctx, func(holder string) { fmt.Fprintln(os.Stderr, "waiting for", holder) })
	if err != nil {
		return err
	}
	defer unlock()
	dir, err := os.MkdirTemp("", "boxdyno-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)

	loop, err := build(ctx, "loop", nil)
	if err != nil {
		return err
	}
	defer loop.Close()
	shared, err := build(ctx, "sandbox", map[string]string{"placement": "shared"})
	if err != nil {
		return err
	}
	defer shared.Close()
	if err := shared.Serve(ctx, lab.Service{Kind: "route"}); err != nil {
		return err
	}
	for _, t := range []struct {
		name string
		bed  *lab.Testbed
	}{
		{"port to port, one core, 64-byte signed frames", loop},
		{"through the routing sandbox, placement shared, 64-byte signed frames", shared},
	} {
		if err := compare(ctx, t.name, t.bed, dir, repeats, span); err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
	}
	return nil
}

func build(ctx context.Context, name string, set map[string]string) (*lab.Testbed, error) {
	for _, s := range lab.All {
		if s.Name != name {
			continue
		}
		t := s.New()
		fs := flag.NewFlagSet(name, flag.ContinueOnError)
		t.Flags(fs)
		for k, v := range set {
			if err := fs.Set(k, v); err != nil {
				return nil, err
			}
		}
		return t.Build(ctx)
	}
	return nil, fmt.Errorf("there is no topology %s", name)
}

// compare runs boxdyno and tcpreplay in turn from port 0 to port 1 of bed.
func compare(ctx context.Context, name string, bed *lab.Testbed, dir string, repeats int, span time.Duration) error {
	from, to := bed.Ports[0], bed.Ports[1]
	spec := frame.Spec{
		Sizes: []unit.FrameSize{64}, Flows: 1, SrcMAC: from.MAC, DstMAC: from.GatewayMAC,
		Src: from.Addr4, Dst: to.Addr4, SrcPort: frame.FirstPort, DstPort: frame.Port,
	}
	meter, err := bed.Engine.OpenMeter(ctx, to.Port)
	if err != nil {
		return err
	}
	defer meter.Close()
	tx, err := bed.Engine.OpenTransmitter(ctx, []host.Port{from.Port}, 0)
	if err != nil {
		return err
	}
	defer tx.Close()
	const frames = 100_000
	capture := filepath.Join(dir, name[:4]+".pcap")
	if err := writeCapture(capture, spec, frames); err != nil {
		return err
	}
	senders := []struct {
		name string
		send func() error
	}{
		{"boxdyno " + bed.Engine.Name(), func() error {
			_, err := tx.Transmit(ctx, engine.Load{Duration: span}, engine.Stream{ID: 1, Frames: spec})
			return err
		}},
		{"tcpreplay -t -K", func() error {
			tester := &host.Local{Netns: from.Netns}
			_, err := tester.Run(ctx, "", "taskset", "-c", "0", "tcpreplay", "-q", "-t", "-K", "-i", from.Name,
				"--loop", strconv.Itoa(int(span.Seconds()*6)+1), capture)
			return err
		}},
	}
	rates := make([][]float64, len(senders))
	for range repeats + 1 { // the first is a warm-up
		for i, s := range senders {
			if err := meter.Arm(ctx, false, 1); err != nil {
				return err
			}
			if err := s.send(); err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			time.Sleep(20 * time.Millisecond)
			seen, err := meter.Read(ctx)
			if err != nil {
				return err
			}
			if seen.Streams[0].Frames == 0 {
				return errors.New(s.name + ": nothing arrived at the meter")
			}
			rates[i] = append(rates[i], float64(seen.Streams[0].Rate))
		}
	}
	fmt.Printf("%s (median of %d, least and greatest)\n", name, repeats)
	ratios := make([]float64, repeats)
	for i := range ratios {
		ratios[i] = rates[0][i+1] / rates[1][i+1]
	}
	for i, s := range senders {
		m, lo, hi := spread(rates[i][1:])
		fmt.Printf("  %-20s %9sframe/s  %9s to %9s\n", s.name, unit.SI(m), unit.SI(lo), unit.SI(hi))
	}
	m, lo, hi := spread(ratios)
	fmt.Printf("  %-20s %9.1f          %9.1f to %9.1f\n\n", "ratio", m, lo, hi)
	return nil
}

func spread(vs []float64) (median, lo, hi float64) {
	s := slices.Sorted(slices.Values(vs))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2, s[0], s[len(s)-1]
}

func writeCapture(name string, spec frame.Spec, n int) error {
	b, err := frame.NewBuilder(spec, 1)
	if err != nil {
		return err
	}
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer f.Close()
	w := pcapgo.NewWriter(f)
	if err := w.WriteFileHeader(2048, layers.LinkTypeEthernet); err != nil {
		return err
	}
	buf := make([]byte, 2048)
	for k := range n {
		size := b.Build(uint64(k), buf)
		ci := gopacket.CaptureInfo{Timestamp: time.Unix(0, int64(k)*1000), CaptureLength: size, Length: size}
		if err := w.WritePacket(ci, buf[:size]); err != nil {
			return err
		}
	}
	return f.Close()
}
