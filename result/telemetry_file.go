// SPDX-License-Identifier: Apache-2.0

package result

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"boxdyno/internal/files"
)

// TelemetryFile is the bundle's telemetry: gzip members of about a second each, of
// lines of JSON. The first line is a TelemetryHead, as is that of each later part
// of the run; all others are a Batch.
const TelemetryFile = "telemetry.jsonl.gz"

// maxLine is the longest line that is read, octets.
const maxLine = 16 << 20

// A telemetryLog appends to a bundle's telemetry.
type telemetryLog struct {
	file *os.File
	zip  *gzip.Writer
	buf  bytes.Buffer
}

// openTelemetryLog opens the folder's telemetry for appending, behind its last whole member: what
// SIGKILL or a power cut left of one after it is removed.
func openTelemetryLog(folder *files.Folder) (*telemetryLog, error) {
	f, err := folder.Append(TelemetryFile, true)
	if err != nil {
		return nil, fmt.Errorf("open the run's telemetry: %w", err)
	}
	end, err := wholeMembers(f)
	if err == nil {
		err = f.Truncate(end)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("go on with %s: %w", f.Name(), err)
	}
	l := &telemetryLog{file: f}
	l.zip, _ = gzip.NewWriterLevel(&l.buf, gzip.BestSpeed) // the level exists
	return l, nil
}

// write appends whole lines as one member. It reaches the kernel, not the disk:
// SIGKILL loses nothing of it, a power cut the last seconds.
func (l *telemetryLog) write(lines []byte) error {
	l.buf.Reset()
	l.zip.Reset(&l.buf)
	_, _ = l.zip.Write(lines) // into memory
	_ = l.zip.Close()
	n, err := l.file.Write(l.buf.Bytes())
	if err != nil {
		// A full disk takes a part: the next member must not stand behind it.
		if info, serr := l.file.Stat(); serr == nil {
			_ = l.file.Truncate(info.Size() - int64(n))
		}
		return fmt.Errorf("append to %s: %w", l.file.Name(), err)
	}
	return nil
}

// wholeMembers is where the last whole gzip member of r ends.
func wholeMembers(r io.Reader) (end int64, err error) {
	in := &counted{Reader: bufio.NewReader(r)}
	var zip gzip.Reader
	for {
		if err := zip.Reset(in); err != nil {
			return end, readError(err)
		}
		zip.Multistream(false)
		if _, err := io.Copy(io.Discard, &zip); err != nil {
			return end, readError(err)
		}
		end = in.n
	}
}

// readError is nil for what a file that was cut short, or holds garbage, answers.
func readError(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return err
	}
	return nil
}

// A counted reader knows how far it was read.
type counted struct {
	*bufio.Reader
	n int64
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	c.n += int64(n)
	return n, err
}

func (c *counted) ReadByte() (byte, error) {
	b, err := c.Reader.ReadByte()
	if err == nil {
		c.n++
	}
	return b, err
}

// A TelemetryReader reads a file of telemetry from its beginning.
type TelemetryReader struct {
	Head TelemetryHead // as of the last line that was read
	Cut  bool          // the file does not end where it should: the run was killed, or still goes on

	name string
	file *os.File
	in   *bufio.Scanner
	line int
}

// OpenTelemetry opens the telemetry of the run in dir. A run that has none answers
// fs.ErrNotExist.
func OpenTelemetry(dir string) (*TelemetryReader, error) {
	name := filepath.Join(dir, TelemetryFile)
	f, err := files.Open(name)
	if err != nil {
		return nil, fmt.Errorf("read the run's telemetry: %w", err)
	}
	r := &TelemetryReader{name: name, file: f}
	r.in = bufio.NewScanner(&members{r: bufio.NewReader(f), cut: &r.Cut})
	r.in.Buffer(make([]byte, 64<<10), maxLine)
	return r, nil
}

// Close lets go of the file.
func (r *TelemetryReader) Close() error { return r.file.Close() }

// Next is the next batch in the order in which they were read, io.EOF after the last
// whole one. A collector whose values are those it read before may have none for up
// to a second: what is not there has not changed. Any other line than a batch or
// head is an error with its number.
func (r *TelemetryReader) Next() (Batch, error) {
	for r.in.Scan() {
		r.line++
		line := r.in.Bytes()
		if b, ok := parseBatch(line); ok {
			if b.First > len(r.Head.Series)-len(b.Values) { // a sum may wrap
				return Batch{}, fmt.Errorf("%s line %d holds values of series %d to %d, and the head before it has %d", r.name, r.line, b.First, b.First+len(b.Values)-1, len(r.Head.Series))
			}
			if err := b.check(); err != nil {
				return Batch{}, fmt.Errorf("%s line %d is not telemetry: %w", r.name, r.line, err)
			}
			return b, nil
		}
		var h TelemetryHead
		err := json.Unmarshal(line, &h)
		switch {
		case err != nil && r.Cut:
			return Batch{}, io.EOF // the line that was being written
		case err != nil:
			return Batch{}, fmt.Errorf("%s line %d is not telemetry: %w", r.name, r.line, err)
		case h.Schema == 0:
			return Batch{}, fmt.Errorf("%s line %d is neither a batch nor a head of telemetry", r.name, r.line)
		case h.Schema != Schema:
			return Batch{}, fmt.Errorf("%s line %d has schema %d, and this boxdyno reads %d", r.name, r.line, h.Schema, Schema)
		}
		if err := h.check(); err != nil {
			return Batch{}, fmt.Errorf("%s line %d is not a head of telemetry: %w", r.name, r.line, err)
		}
		r.Head = h
	}
	if err := r.in.Err(); err != nil {
		return Batch{}, fmt.Errorf("%s after line %d: %w", r.name, r.line, err)
	}
	return Batch{}, io.EOF
}

// members is the text of gzip members one after the other, up to the first that is
// not whole: of that one, what can be read.
type members struct {
	r    *bufio.Reader
	zip  gzip.Reader
	open bool
	end  bool
	cut  *bool
}

func (m *members) Read(b []byte) (int, error) {
	for !m.end {
		if !m.open {
			if err := m.zip.Reset(m.r); err != nil {
				return m.over(err, err != io.EOF)
			}
			m.zip.Multistream(false)
			m.open = true
		}
		n, err := m.zip.Read(b)
		switch {
		case err == io.EOF:
			m.open = false
		case err != nil:
			if n > 0 {
				m.end, *m.cut = true, true
				return n, nil
			}
			return m.over(err, true)
		}
		if n > 0 {
			return n, nil
		}
	}
	return 0, io.EOF
}

func (m *members) over(err error, cut bool) (int, error) {
	m.end, *m.cut = true, cut
	if err := readError(err); err != nil {
		return 0, err
	}
	return 0, io.EOF
}
