// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"math"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// A Music is a piece of music of our own making, 44.1 kHz, 16 bits, stereo, as a WAV file
// in memory. It is made of whole numbers alone, so that it is the same octets everywhere:
// bass, chords, broken chords, a melody and drums at 120 beats a minute, with an echo.
//
//	NewMusic -> Open, a copy's own standard input ... -> Close
type Music struct {
	Length time.Duration

	file    *os.File
	heard   heard
	outputs []*os.File
}

const (
	musicRate   = 44100
	musicFrame  = 4 // octets of a sample of both channels
	musicHeader = 44
	musicBeat   = musicRate / 2
	musicStep   = musicBeat / 2 // of broken chords
	musicBar    = 4 * musicBeat
)

// MusicSize is how many octets of memory such a piece takes.
func MusicSize(length time.Duration) uint64 {
	return musicHeader + uint64(length/time.Second)*musicRate*musicFrame
}

// NewMusic makes a piece of whole seconds, of 176400 octets each.
func NewMusic(length time.Duration) (_ *Music, err error) {
	m := &Music{Length: length}
	if m.file, err = memoryFile("music.wav"); err != nil {
		return nil, err
	}
	frames := int(length/time.Second) * musicRate
	w := bufio.NewWriterSize(m.file, 1<<16)
	_, err = w.Write(wavHeader(frames))
	m.heard.hash = sha256.New()
	if err == nil {
		err = compose(io.MultiWriter(w, &m.heard), frames)
	}
	if err = errors.Join(err, w.Flush()); err != nil {
		return nil, errors.Join(fmt.Errorf("keep %v of music in memory: %w", length, err), m.Close())
	}
	return m, nil
}

// Close lets the memory go.
func (m *Music) Close() (err error) {
	for _, f := range append(m.outputs, m.file) {
		if e := f.Close(); !errors.Is(e, os.ErrClosed) {
			err = errors.Join(err, e)
		}
	}
	return err
}

// Open is the file from its beginning; it is the caller's to close.
func (m *Music) Open() (*os.File, error) { return reopen(m.file) }

// output is a new file in memory, which Close closes where nobody has.
func (m *Music) output() (*os.File, error) {
	f, err := memoryFile("encoded")
	if err == nil {
		m.outputs = append(m.outputs, f)
	}
	return f, err
}

func memoryFile(name string) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make a file in memory: %w", err)
	}
	return os.NewFile(uintptr(fd), name), nil
}

// reopen opens a file in memory once more, with a position of its own.
func reopen(f *os.File) (*os.File, error) {
	return os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), os.O_RDWR, 0)
}

// wavHeader is that of a RIFF file of PCM.
func wavHeader(frames int) []byte {
	h := make([]byte, 0, musicHeader)
	octets := uint32(frames * musicFrame)
	h = append(h, "RIFF"...)
	h = binary.LittleEndian.AppendUint32(h, musicHeader-8+octets)
	h = append(h, "WAVEfmt "...)
	h = binary.LittleEndian.AppendUint32(h, 16)
	h = binary.LittleEndian.AppendUint16(h, 1) // PCM
	h = binary.LittleEndian.AppendUint16(h, 2)
	h = binary.LittleEndian.AppendUint32(h, musicRate)
	h = binary.LittleEndian.AppendUint32(h, musicRate*musicFrame)
	h = binary.LittleEndian.AppendUint16(h, musicFrame)
	h = binary.LittleEndian.AppendUint16(h, 16)
	h = append(h, "data"...)
	return binary.LittleEndian.AppendUint32(h, octets)
}

// A heard is what went by of samples.
type heard struct {
	octets   int64
	loudness float64 // sum of the samples without their sign
	hash     hash.Hash
	odd      []byte // the first octet of a sample whose second is to come
}

func (h *heard) Write(p []byte) (int, error) {
	h.hash.Write(p)
	h.octets += int64(len(p))
	data := p
	if len(h.odd) > 0 && len(data) > 0 {
		h.loudness += math.Abs(float64(int16(uint16(h.odd[0]) | uint16(data[0])<<8)))
		h.odd, data = h.odd[:0], data[1:]
	}
	for ; len(data) >= 2; data = data[2:] {
		h.loudness += math.Abs(float64(int16(binary.LittleEndian.Uint16(data))))
	}
	h.odd = append(h.odd, data...)
	return len(p), nil
}

// A voice plays one note at a time.
type voice struct {
	wave        *[4096]int32
	phase, step uint32
	level, fall int32 // of 32768, and what it loses a sample, of 65536
	left, right int32 // of 256
}

func (v *voice) play(note int, level int32) { v.step, v.level = noteStep(note), level }

func (v *voice) sound() (left, right int32) {
	s := v.wave[v.phase>>20] * (v.level >> 4) >> 12
	v.phase += v.step
	v.level -= int32(int64(v.level) * int64(v.fall) >> 16)
	return s * v.left >> 8, s * v.right >> 8
}

// noteSteps are the steps of the notes from C8 to B8, of 2^32 a period.
var noteSteps = [12]uint32{407681904, 431923931, 457607465, 484818220, 513647012, 544190053, 576549277, 610832681, 647154683, 685636503, 726406571, 769600953}

// noteStep is that of a note as MIDI counts them: 60 is C4.
func noteStep(note int) uint32 { return noteSteps[note%12] >> (9 - note/12) }

// wave is a period made of so much of each harmonic, of 32768 in all.
func wave(harmonics ...float64) *[4096]int32 {
	var w [4096]int32
	for i := range w {
		v := 0.0
		for h, a := range harmonics {
			v += float64(a * math.Sin(2*math.Pi*float64((h+1)*i%4096)/4096))
		}
		w[i] = int32(math.Round(v * 32767))
	}
	return &w
}

// A dice is the low-quality noise of drums, and the melody's whim.
type dice uint32

func (d *dice) roll() uint32 { *d = *d*1664525 + 1013904223; return uint32(*d) >> 8 }

// noise is from -32768 to 32767.
func (d *dice) noise() int32 { return int32(d.roll()>>8) - 32768 }

// compose writes so many samples of the piece, of both channels.
func compose(w io.Writer, frames int) error {
	chords := [8][3]int{{57, 60, 64}, {53, 57, 60}, {60, 64, 67}, {55, 59, 62}, {57, 60, 64}, {50, 53, 57}, {52, 56, 59}, {57, 60, 64}}
	scale := [7]int{69, 71, 72, 74, 76, 77, 79}
	soft, full, hollow := wave(0.7, 0.15, 0.08, 0.04), wave(0.5, 0.25, 0.15, 0.1, 0.06, 0.04), wave(0.75, 0, 0.2, 0, 0.1)
	bass := voice{wave: full, fall: 2, left: 120, right: 120}
	pads := [6]voice{}
	for i := range pads {
		pads[i] = voice{wave: soft, left: int32(30 + 10*i), right: int32(80 - 10*i)}
	}
	broken := voice{wave: hollow, fall: 6, left: 60, right: 110}
	melody := voice{wave: full, fall: 1, left: 110, right: 80}
	kick := voice{wave: soft, fall: 12, left: 128, right: 128}
	var snare, hat int32
	var echo [2][musicBeat * 3 / 4]int32
	var luck, grain dice = 12345, 67890
	at, last := 3, int32(0)
	buf := make([]byte, 0, musicStep*musicFrame)
	for i := range frames {
		if i%musicStep == 0 {
			bar, beat, step := i/musicBar, i/musicBeat, i/musicStep
			chord := chords[bar%len(chords)]
			if i%musicBar == 0 {
				for v := range pads {
					pads[v].play(chord[v%3]+12*(v/3), 9000)
					pads[v].step += uint32(v) * 977 // a little out of tune, as strings are
				}
			}
			broken.play(chord[step%3]+12+12*(step/3%2), 20000)
			hat = 9000
			if i%musicBeat == 0 {
				bass.play(chord[0]-24, 26000)
				if beat%2 == 0 {
					kick.play(36, 32000)
				} else {
					snare = 20000
				}
			}
			if r := luck.roll(); r%3 != 0 {
				at = min(max(at+int(r/3%5)-2, 0), len(scale)-1)
				melody.play(scale[at], 18000+int32(r>>4%4096))
			}
		}
		kick.step -= kick.step >> 13 // it falls
		var left, right int32
		for _, v := range []*voice{&bass, &broken, &melody, &kick, &pads[0], &pads[1], &pads[2], &pads[3], &pads[4], &pads[5]} {
			l, r := v.sound()
			left, right = left+l, right+r
		}
		n := grain.noise()
		drums := n*(snare>>4)>>13 + (n-last)*(hat>>4)>>14
		last = n
		snare -= snare >> 10
		hat -= hat >> 9
		e := i % len(echo[0])
		l, r := left+drums+echo[1][e]/3, right+drums+echo[0][e]/3
		echo[0][e], echo[1][e] = l, r
		buf = binary.LittleEndian.AppendUint16(buf, uint16(clip(l/2)))
		buf = binary.LittleEndian.AppendUint16(buf, uint16(clip(r/2)))
		if len(buf) == cap(buf) || i == frames-1 {
			if _, err := w.Write(buf); err != nil {
				return err
			}
			buf = buf[:0]
		}
	}
	return nil
}

func clip(v int32) int16 { return int16(min(max(v, math.MinInt16), math.MaxInt16)) }
