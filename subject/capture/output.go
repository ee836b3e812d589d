// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strconv"
	"time"
)

// A Told is what one line of a program's output tells, in frames since its start; -1
// for what it does not speak of.
type Told struct {
	Ready   bool          // it captures
	Counted int64         // frames
	more    int64         // frames since the line before
	Kernel  int64         // dropped by the kernel
	Own     int64         // dropped by the program
	port    int64         // dropped by the port
	waiting int64         // that the kernel has, and has not handed over
	Garbage bool          // no line that the program should print
	Quiet   bool          // a line that says nothing to people
	clock   time.Duration // when it had counted that, by the program's own clock; 0: it does not say
}

// A Parser reads one line, without its end.
type Parser func(line string) Told

var Nothing = Told{Counted: -1, more: -1, Kernel: -1, Own: -1, port: -1, waiting: -1}

// rows is a writer that counts lines: one is one frame, and begins with its number.
type rows struct {
	r     *Capturing
	inner bool // the last octet was none of a line's end
}

func (w *rows) Write(b []byte) (int, error) {
	s := Nothing
	s.more = 0
	for rest := b; len(rest) > 0; {
		if !w.inner && (rest[0] < '0' || rest[0] > '9') {
			s.Garbage = true
			w.r.Take(s, string(rest[:min(len(rest), 80)]))
			return len(b), nil
		}
		i := bytes.IndexByte(rest, '\n')
		if w.inner = i < 0; w.inner {
			break
		}
		s.more++
		rest = rest[i+1:]
	}
	w.r.Take(s, "")
	return len(b), nil
}

// Find is the number that the pattern's group has in line; -1: none.
func Find(pattern *regexp.Regexp, line string) int64 {
	m := pattern.FindStringSubmatch(line)
	if len(m) < 2 {
		return -1
	}
	return frames(m[1])
}

// frames reads a number of frames; -1 for what is none.
func frames(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return -1
	}
	return n
}

// ParseCounter reads what count.py and count.c print.
func ParseCounter(line string) Told {
	var l struct {
		Ready               bool
		Count, Kernel, Port *int64
	}
	s := Nothing
	if err := json.Unmarshal([]byte(line), &l); err != nil || l.Count == nil || *l.Count < 0 {
		s.Garbage = true
		return s
	}
	s.Ready, s.Counted = l.Ready, *l.Count
	if l.Kernel != nil {
		s.Kernel = max(*l.Kernel, -1)
	}
	if l.Port != nil {
		s.port = max(*l.Port, -1)
	}
	return s
}
