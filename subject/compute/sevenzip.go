// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"context"
	"flag"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"boxdyno/host"
	"boxdyno/result"
	"boxdyno/subject"
)

// A SevenZip is 7-Zip's own benchmark (7zz b): LZMA compression and decompression of
// data that it makes, in one thread and one pass. It compares checksums itself.
type SevenZip struct {
	Dictionary int // size of LZMA's, as a power of 2: 18 to 28
}

const sevenZipProgram = "7zz"

// NewSevenZip has a dictionary of 4 MiB.
func NewSevenZip() *SevenZip { return &SevenZip{Dictionary: 22} }

// Flags implements Subject.
func (s *SevenZip) Flags(fs *flag.FlagSet) {
	fs.IntVar(&s.Dictionary, "dictionary", s.Dictionary, "`size` of the dictionary as a power of 2: 18 to 28")
}

// Check implements Subject.
func (s *SevenZip) Check(_ context.Context, h *host.Local) error {
	if s.Dictionary < 18 || s.Dictionary > 28 {
		return fmt.Errorf("dictionary %d: want 18 to 28", s.Dictionary)
	}
	return h.Has(sevenZipProgram)
}

var sevenZipSays = regexp.MustCompile(`7-Zip[^:]*? ([0-9]+\.[0-9]+) \((\w+)\)`)

// Identify implements Worker.
func (s *SevenZip) Identify(ctx context.Context, h *host.Local) ([]result.Pair, error) {
	out, err := h.Run(ctx, "", sevenZipProgram, "i")
	if err != nil {
		return nil, err
	}
	m := sevenZipSays.FindStringSubmatch(string(out))
	if m == nil {
		return nil, fmt.Errorf("%s does not say which version it is", sevenZipProgram)
	}
	return []result.Pair{{Key: "sevenzip", Value: m[1] + "-" + m[2]}, {Key: "dictionary", Value: strconv.Itoa(s.Dictionary)}}, nil
}

// Prove implements Worker: what it compressed it gives back.
func (s *SevenZip) Prove(ctx context.Context, h *host.Local) error {
	var text strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&text, "%d of 20000\n", i*i)
	}
	packed, err := h.Run(ctx, text.String(), sevenZipProgram, "a", "-txz", "-m0=lzma2", "-mx=5", "-si", "-so", "-bd", "x.xz")
	if err != nil {
		return err
	}
	got, err := h.Run(ctx, string(packed), sevenZipProgram, "x", "-txz", "-si", "-so", "-bd")
	if err != nil {
		return err
	}
	if len(packed) >= text.Len() || string(got) != text.String() {
		return fmt.Errorf("%s made %d octets of %d, and of them something else than they were", sevenZipProgram, len(packed), text.Len())
	}
	return nil
}

// Start implements Subject.
func (s *SevenZip) Start(ctx context.Context, e subject.Env) (subject.Running, error) {
	return subject.Command{
		Name: "7-zip", Argv: []string{sevenZipProgram, "b", "1", "-mmt1", "-md" + strconv.Itoa(s.Dictionary)},
		Read: func(w subject.Worked) ([]result.Value, error) { return parseSevenZip(w.Stdout, s.Dictionary) },
	}.Start(ctx, e)
}

// parseSevenZip reads the row of a dictionary: speed, usage, rating at full usage, and
// rating, of compression and of decompression. A rating is in MIPS.
func parseSevenZip(text string, dictionary int) ([]result.Value, error) {
	for line := range strings.Lines(text) {
		row, ok := strings.CutPrefix(strings.TrimSpace(line), strconv.Itoa(dictionary)+":")
		if !ok {
			continue
		}
		f := strings.Fields(strings.ReplaceAll(row, "|", " "))
		if len(f) != 8 {
			continue
		}
		compress, err := strconv.ParseFloat(f[3], 64)
		decompress, err2 := strconv.ParseFloat(f[7], 64)
		if err != nil || err2 != nil || compress <= 0 || decompress <= 0 {
			return nil, fmt.Errorf("its row %q has no rating", strings.TrimSpace(line))
		}
		return []result.Value{
			{Metric: "compress_ips", Unit: "1/s", Value: compress * 1e6},
			{Metric: "decompress_ips", Unit: "1/s", Value: decompress * 1e6},
		}, nil
	}
	return nil, fmt.Errorf("it printed no row of figures for a dictionary of %d bits", dictionary)
}

// SevenZipMetrics are those of a SevenZip.
var SevenZipMetrics = []result.Metric{
	{Name: "compress_ips", Label: "compression", Interval: "range", Heads: true, Unit: "1/s", Better: 1, Help: "7-Zip's rating of LZMA compression: instructions a second as it counts them (a million is its MIPS)"},
	{Name: "decompress_ips", Label: "decompression", Interval: "range", Heads: true, Unit: "1/s", Better: 1, Help: "the same of decompression"},
}
