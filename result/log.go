// SPDX-License-Identifier: Apache-2.0

package result

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"
)

// LogFile is the bundle's log: a LogLine a line, as things happen. Nothing of a report
// depends on it; it is for whoever watches a run.
const LogFile = "log.jsonl"

// longestLog is what is looked at of a log's end, in octets.
const longestLog = 64 << 10

// A LogLine is one step of a run.
type LogLine struct {
	At    time.Time `json:"at"`              // wall clock
	Kind  LogKind   `json:"kind"`            // what happened
	Text  string    `json:"text,omitempty"`  // for people; of a trial its record's ID
	Point string    `json:"point,omitempty"` // a Record's ID
	Share float64   `json:"share"`           // of the run's estimated time that is over, in [0, 1]
	Left  float64   `json:"left_s"`          // about what is to come, s
}

// LogKind says what happened.
type LogKind string

// The kinds of lines in a log.
const (
	LogWaiting   LogKind = "waiting" // for another run on this machine
	LogNote      LogKind = "note"    // a warning
	LogPreparing LogKind = "preparing"
	LogPoint     LogKind = "point" // begins, or goes on
	LogTrial     LogKind = "trial" // begins
	LogTrialDone LogKind = "trial done"
	LogPause     LogKind = "pause" // of a point: others have their turn
	LogPointDone LogKind = "point done"
	LogEnd       LogKind = "end" // of the run, or of a part of it
)

// Log appends a line. It reaches the kernel, not the disk. Not safe for concurrent use
// with itself, but it may be called beside the rest up to Close.
func (b *Bundle) Log(l LogLine) error {
	line, err := json.Marshal(l)
	if err != nil {
		return fmt.Errorf("encode a line of the log: %w", err)
	}
	if b.log == nil {
		if b.log, err = openLog(b); err != nil {
			return err
		}
	}
	if n, err := b.log.Write(append(line, '\n')); err != nil {
		// A full disk takes a part: the next line must not stand behind it.
		if info, serr := b.log.Stat(); serr == nil {
			_ = b.log.Truncate(info.Size() - int64(n))
		}
		return fmt.Errorf("append to %s: %w", b.log.Name(), err)
	}
	return nil
}

// openLog opens the log for appending; what SIGKILL left of a line is removed.
func openLog(b *Bundle) (*os.File, error) {
	f, err := b.folder.Append(LogFile, true)
	if err != nil {
		return nil, fmt.Errorf("open the run's log: %w", err)
	}
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return f, nil // what is wrong with it the first write says
	}
	from := max(info.Size()-longestLog, 0)
	tail, err := io.ReadAll(io.NewSectionReader(f, from, longestLog))
	if err == nil {
		err = f.Truncate(from + int64(bytes.LastIndexByte(tail, '\n')+1))
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("go on with %s: %w", f.Name(), err)
	}
	return f, nil
}
