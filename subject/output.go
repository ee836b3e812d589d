// SPDX-License-Identifier: Apache-2.0

package subject

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"sync"
)

// logs keeps the first 64 KiB of what a program writes.
type logs struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logs) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.b.Write(b[:min(len(b), max(64<<10-l.b.Len(), 0))])
	return len(b), nil
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// longestLine is what a line of a capture's output may have in octets; what is longer
// is taken as several.
const longestLine = 64 << 10

// lines is a writer that takes lines apart: they end with \n, or with \r where a
// program writes over the line before.
type lines struct {
	mu   sync.Mutex
	take func(line string)
	part []byte
}

// Write implements io.Writer.
func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(b)
	for len(b) > 0 {
		i := bytes.IndexAny(b, "\r\n")
		end := i
		if i < 0 {
			end = len(b)
		}
		end = min(end, longestLine-len(l.part))
		l.part = append(l.part, b[:end]...)
		b = b[end:]
		full := len(l.part) == longestLine
		if len(b) == 0 && !full {
			break
		}
		if !full || i == end {
			b = b[1:] // the line's end
		}
		if len(l.part) > 0 {
			l.take(string(l.part))
		}
		l.part = l.part[:0]
	}
	return n, nil
}

// lastLine is the last line of text that has something in it.
func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return strings.TrimSpace(text[strings.LastIndexAny(text, "\r\n")+1:])
}

// say prints a line.
func say(v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = os.Stdout.Write(append(line, '\n'))
	return err
}
