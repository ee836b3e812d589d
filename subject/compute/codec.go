// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"time"

	"boxdyno/host"
	"boxdyno/result"
	"boxdyno/subject"
	"boxdyno/subject/internal/program"
)

// A Codec is an encoder of music, from a file in memory to another, as its program does it
// when nothing is asked for.
type Codec struct {
	Music *Music // it must not be nil where the codec is started

	of codecProgram
}

// A codecProgram is how an encoder and its decoder are asked: both read standard input and
// write standard output.
type codecProgram struct {
	name, doc string
	encode    []string
	decode    []string // to samples as they are in the music, without a header
	lossless  bool     // what is decoded is what was encoded
}

// CodecSpecs are the subjects that encode music.
func CodecSpecs() (specs subject.Specs) {
	for _, p := range []codecProgram{
		// lame writes its length into the beginning of a file that it opened itself.
		{"lame", "MP3 by LAME, 128 kbit/s", []string{"lame", "--quiet", "-", "/dev/stdout"}, []string{"lame", "--quiet", "--mp3input", "--decode", "-t", "-", "-"}, false},
		{"flac", "FLAC by its reference encoder, level 5", []string{"flac", "--silent", "--stdout", "-"}, []string{"flac", "--silent", "--decode", "--stdout", "--force-raw-format", "--endian=little", "--sign=signed", "-"}, true},
		{"opusenc", "Opus by opus-tools, about 96 kbit/s", []string{"opusenc", "--quiet", "-", "-"}, []string{"opusdec", "--quiet", "--rate", "44100", "-", "-"}, false},
		{"oggenc", "Ogg Vorbis by vorbis-tools, quality 3", []string{"oggenc", "--quiet", "--output=-", "-"}, []string{"oggdec", "--quiet", "--raw", "--output=-", "-"}, false},
	} {
		specs = append(specs, subject.Spec{Name: p.name, Work: "codec", Doc: p.doc, Metrics: CodecMetrics, New: func() subject.Subject { return &Codec{of: p} }})
	}
	return specs
}

// Flags implements Subject: there is nothing to ask for.
func (c *Codec) Flags(*flag.FlagSet) {}

// Check implements Subject.
func (c *Codec) Check(_ context.Context, h *host.Local) error {
	return cmp.Or(h.Has(c.of.encode[0]), h.Has(c.of.decode[0]))
}

// Identify implements Worker.
func (c *Codec) Identify(ctx context.Context, h *host.Local) ([]result.Pair, error) {
	out, err := h.Run(ctx, "", c.of.encode[0], "--version")
	first, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return []result.Pair{{Key: "version", Value: first}}, err
}

// proveMusic is how much music is proven with.
const proveMusic = 2 * time.Second

// Prove implements Worker: some music decodes to its length again.
func (c *Codec) Prove(ctx context.Context, h *host.Local) error {
	m, err := NewMusic(proveMusic)
	if err != nil {
		return err
	}
	defer m.Close()
	in, err := m.Open()
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := m.output()
	if err != nil {
		return err
	}
	if err := recode(ctx, h, in, out, c.of.encode); err != nil {
		return err
	}
	_, err = c.decode(ctx, h, m, out)
	return err
}

// recode runs a command from one to the other.
func recode(ctx context.Context, h *host.Local, in *os.File, out io.Writer, argv []string) error {
	var said bytes.Buffer
	cmd, err := h.Command(ctx, argv...)
	if err != nil {
		return err
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, &said
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	cmd.WaitDelay = time.Second
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("%s: %w; it said %q", strings.Join(argv, " "), err, program.LastLine(strings.TrimSpace(said.String())))
	}
	return nil
}

// A decoding takes longer than this on no board.
const decodePatience = 10 * time.Minute

// Two frames of the codec are at most this; lossy ones may differ by as much in length.
const lossySlack = 50 * time.Millisecond

// louder is how much louder or softer a lossy codec may leave music.
const louder = 1.25

// decode compares what was encoded with the music, and returns its size.
func (c *Codec) decode(ctx context.Context, h *host.Local, m *Music, encoded *os.File) (size int64, err error) {
	st, err := encoded.Stat()
	if err != nil {
		return 0, err
	}
	in, err := reopen(encoded)
	if err != nil {
		return 0, err
	}
	defer in.Close()
	ctx, cancel := context.WithTimeout(ctx, decodePatience)
	defer cancel()
	got := heard{hash: sha256.New()}
	if err := recode(ctx, h, in, &got, c.of.decode); err != nil {
		return 0, fmt.Errorf("decode it: %w", err)
	}
	return st.Size(), c.compare(m, &got)
}

// compare says what is wrong with what was heard of the music.
func (c *Codec) compare(m *Music, got *heard) error {
	want := &m.heard
	slack := int64(0)
	if !c.of.lossless {
		slack = int64(lossySlack.Seconds() * musicRate * musicFrame)
	}
	if d := got.octets - want.octets; d > slack || d < -slack {
		return fmt.Errorf("%v of music decode to %.3f s", m.Length, float64(got.octets)/musicRate/musicFrame)
	}
	if c.of.lossless {
		if !bytes.Equal(got.hash.Sum(nil), want.hash.Sum(nil)) {
			return errors.New("what was decoded is not the music, and the codec is lossless")
		}
		return nil
	}
	if ratio := got.loudness / want.loudness; !(math.Max(ratio, 1/ratio) <= louder) {
		return fmt.Errorf("what was decoded is %.2g times as loud as the music", ratio)
	}
	return nil
}

// Start implements Subject.
func (c *Codec) Start(ctx context.Context, e subject.Env) (subject.Running, error) {
	out, err := c.Music.output()
	if err != nil {
		return nil, err
	}
	to, err := reopen(out)
	if err != nil {
		return nil, err
	}
	from, err := c.Music.Open()
	if err != nil {
		return nil, errors.Join(err, to.Close())
	}
	return subject.Command{
		Name: c.of.name, Argv: c.of.encode, Stdin: from, Stdout: to,
		Read: func(w subject.Worked) ([]result.Value, error) {
			defer out.Close()
			size, err := c.decode(ctx, e.Machine(), c.Music, out)
			if err != nil {
				return nil, err
			}
			length, took := c.Music.Length.Seconds(), w.Elapsed.Seconds()
			return []result.Value{
				{Metric: "codec_speed", Unit: "1", Value: length / took}, {Metric: "encode_s", Unit: "s", Value: took},
				{Metric: "encoded_bytes", Unit: "B", Value: float64(size)}, {Metric: "encoded_bps", Unit: "bit/s", Value: 8 * float64(size) / length},
			}, nil
		},
	}.Start(ctx, e)
}

// CodecMetrics are those of a Codec.
var CodecMetrics = []result.Metric{
	{Name: "codec_speed", Label: "times real time", Interval: "range", Heads: true, Unit: "1", Better: 1, Help: "seconds of music encoded a second, all copies together: times real time"},
	{Name: "encode_s", Label: "to encode", Interval: "range", Heads: true, Unit: "s", Better: -1, Help: "from the start of the program to its end: the copies' mean"},
	{Name: "encoded_bytes", Label: "came out", Interval: "range", Heads: true, Unit: "B", Better: -1, Help: "octets that came out of one copy"},
	{Name: "encoded_bps", Unit: "bit/s", Help: "the same a second of music"},
}
