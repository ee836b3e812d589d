// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"boxdyno/host"
	"boxdyno/internal/testutil"
	"boxdyno/subject"
)

// The music is the same octets on every machine, as long as it says, loud and not clipped.
func TestMusic(t *testing.T) {
	testutil.NoLeaks(t)
	m, err := NewMusic(3 * time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	one, err := m.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer one.Close()
	wav, err := io.ReadAll(one)
	if err != nil || len(wav) != 44+3*176400 || string(wav[:4]) != "RIFF" || string(wav[36:40]) != "data" {
		t.Fatalf("%d octets, %v", len(wav), err)
	}
	two, err := m.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer two.Close()
	if again, err := io.ReadAll(two); err != nil || len(again) != len(wav) {
		t.Errorf("the second reader had %d octets, %v", len(again), err)
	}
	sum := sha256.Sum256(wav)
	if got := hex.EncodeToString(sum[:]); got != "929689da78c224e0351675c8a28862e6501e820866570bbf4059eab75e4e0d8b" {
		t.Errorf("the music is another one: %s", got)
	}
	clipped := 0
	for i := 44; i < len(wav); i += 2 {
		if v := int16(uint16(wav[i]) | uint16(wav[i+1])<<8); v == 32767 || v == -32768 {
			clipped++
		}
	}
	if mean := m.heard.loudness / float64(m.heard.octets/2); clipped > 0 || mean < 1000 || mean > 12000 {
		t.Errorf("%d samples are clipped, and the mean of all is %.0f", clipped, mean)
	}
}

// What is counted of samples does not depend on where the pieces end that they come in.
func TestHeard(t *testing.T) {
	whole, pieces := heard{hash: sha256.New()}, heard{hash: sha256.New()}
	data := []byte{1, 2, 0xff, 0xff, 5, 0x80, 7, 8}
	for _, p := range [][]byte{data[:1], data[1:2], {}, data[2:5], data[5:]} {
		if _, err := pieces.Write(p); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := whole.Write(data); err != nil {
		t.Fatal(err)
	}
	if whole.octets != 8 || whole.loudness != 513+1+32763+2055 || pieces.octets != whole.octets || pieces.loudness != whole.loudness {
		t.Errorf("%+v and %+v", whole, pieces)
	}
}

// Each encoder proves itself, and what it made of the music decodes to it again.
func TestCodecs(t *testing.T) {
	testutil.NoLeaks(t)
	m, err := NewMusic(time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for _, spec := range CodecSpecs() {
		t.Run(spec.Name, func(t *testing.T) {
			c := spec.New().(*Codec)
			var missing *host.Missing
			if err := c.Check(t.Context(), &host.Local{}); errors.As(err, &missing) {
				t.Skip(missing)
			}
			if err := c.Prove(t.Context(), &host.Local{}); err != nil {
				t.Error(err)
			}
			if of, err := c.Identify(t.Context(), &host.Local{}); err != nil || len(of) != 1 || of[0].Value == "" {
				t.Errorf("it is %v, %v", of, err)
			}
			c.Music = m
			r, err := c.Start(t.Context(), subject.Env{})
			if err != nil {
				t.Fatal(err)
			}
			run := r.(*subject.Working)
			defer func() {
				if err := run.Stop(context.Background()); err != nil {
					t.Error(err)
				}
			}()
			if err := errors.Join(run.Ready(t.Context()), run.Begin()); err != nil {
				t.Fatal(err)
			}
			vs, err := run.Wait(t.Context())
			if err != nil || len(vs) != len(spec.Metrics) {
				t.Fatalf("%v, %v", vs, err)
			}
			for i, v := range vs {
				if v.Metric != spec.Metrics[i].Name || v.Unit != spec.Metrics[i].Unit || v.Value <= 0 {
					t.Errorf("%+v is not declared, or no figure", v)
				}
			}
			if octets := vs[2].Value; octets < 8000 || octets > 176400 {
				t.Errorf("a second of music became %v octets", octets)
			}
		})
	}
}

// What does not decode to the music has no figure.
func TestCodecIsChecked(t *testing.T) {
	testutil.NoLeaks(t)
	m, err := NewMusic(time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	lossless, lossy := &Codec{of: codecProgram{lossless: true}}, &Codec{}
	for _, c := range []struct {
		codec  *Codec
		script string // from what was encoded to samples
		want   string
	}{
		{lossless, "tail -c +45", ""},
		{lossless, "tail -c +45 | head -c 176000", "1s of music decode to 0.998 s"},
		{lossless, "tail -c +45 | tr '\\000' '\\001'", "not the music, and the codec is lossless"},
		{lossy, "tail -c +45", ""},
		{lossy, "tail -c +45 | head -c 170000", ""},
		{lossy, "tail -c +45 | head -c 160000", "1s of music decode to 0.907 s"},
		{lossy, "head -c 176400 /dev/zero", "0 times as loud"},
		{lossy, "echo it broke >&2; exit 3", `it said "it broke"`},
	} {
		c.codec.of.decode = []string{"sh", "-c", c.script}
		size, err := c.codec.decode(t.Context(), &host.Local{}, m, m.file)
		if c.want == "" && (err != nil || size != 176444) || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %d octets, %v, want %q", c.script, size, err, c.want)
		}
	}
	for share, right := range map[float64]bool{0.5: false, 0.79: false, 0.85: true, 1.2: true, 1.3: false} {
		got := heard{octets: m.heard.octets, loudness: m.heard.loudness * share}
		if err := lossy.compare(m, &got); (err == nil) != right {
			t.Errorf("%v times as loud: %v", share, err)
		}
	}
	t.Setenv("PATH", t.TempDir())
	var missing *host.Missing
	for _, spec := range CodecSpecs() {
		if err := spec.New().(*Codec).Check(t.Context(), &host.Local{}); !errors.As(err, &missing) || len(missing.Remedy) == 0 {
			t.Errorf("%s: %v", spec.Name, err)
		}
	}
}
