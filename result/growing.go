// SPDX-License-Identifier: Apache-2.0

package result

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
)

// What is read of a bundle whose run still goes on:
//
//	run.json            whole, whenever it is another file     ReadRun
//	trials.jsonl        whole lines                            ParseRecord
//	telemetry.jsonl.gz  whole gzip members                     TelemetryTail
//
// What has no end yet is read the next time.

// mostMember is how long a gzip member of telemetry may be when it is unpacked, octets.
const mostMember = 4 * maxLine

// ReadRun reads the run.json of the run in dir alone.
func ReadRun(dir string) (Run, error) {
	run, err := openRun(dir)
	if err == nil {
		err = run.check()
	}
	return run, err
}

// ParseRecord reads one line of trials.jsonl.
func ParseRecord(line []byte) (Record, error) {
	var r Record
	err := json.Unmarshal(line, &r)
	if err == nil {
		err = r.check()
	}
	return r, err
}

// A TelemetryTail reads a file of telemetry while it grows. The zero TelemetryTail
// begins at its beginning.
type TelemetryTail struct {
	Head   TelemetryHead // as of the last member that was read
	Offset int64         // where the last whole member ends
}

// Read calls each for all batches of the whole members since the last Read, but of at
// most so many octets of the file: there is more to read where it returns true. A
// member without its end is left for the next time.
func (t *TelemetryTail) Read(f *os.File, most int64, each func(TelemetryHead, Batch)) (more bool, err error) {
	info, err := f.Stat()
	if err != nil {
		return false, err
	}
	end := info.Size()
	if end > t.Offset+most {
		end = t.Offset + most
	}
	in := &counted{Reader: bufio.NewReader(io.NewSectionReader(f, t.Offset, end-t.Offset))}
	begin := t.Offset
	var zip gzip.Reader
	for {
		if err := zip.Reset(in); err != nil {
			break
		}
		zip.Multistream(false)
		text, err := io.ReadAll(io.LimitReader(&zip, mostMember+1))
		if err != nil {
			break // its end is not there yet
		}
		if len(text) > mostMember {
			return false, fmt.Errorf("%s has a part of more than %d octets", f.Name(), mostMember)
		}
		if err := t.lines(text, each); err != nil {
			return false, fmt.Errorf("%s: %w", f.Name(), err)
		}
		t.Offset = begin + in.n
	}
	if t.Offset == begin && end < info.Size() {
		return false, fmt.Errorf("%s after octet %d has no end of a part within %d octets: it is damaged", f.Name(), begin, most)
	}
	return end < info.Size(), nil
}

func (t *TelemetryTail) lines(text []byte, each func(TelemetryHead, Batch)) error {
	for line := range bytes.Lines(text) {
		if b, ok := parseBatch(line); ok {
			if b.First > len(t.Head.Series)-len(b.Values) {
				return fmt.Errorf("values of series %d to %d, and the head before them has %d", b.First, b.First+len(b.Values)-1, len(t.Head.Series))
			}
			if err := b.check(); err != nil {
				return err
			}
			each(t.Head, b)
			continue
		}
		var h TelemetryHead
		if err := json.Unmarshal(line, &h); err != nil {
			return fmt.Errorf("it is not telemetry: %w", err)
		}
		if h.Schema != Schema {
			return fmt.Errorf("its head has schema %d, and this boxdyno reads %d", h.Schema, Schema)
		}
		if err := h.check(); err != nil {
			return err
		}
		t.Head = h
	}
	return nil
}
