// SPDX-License-Identifier: Apache-2.0

// Package program holds what programs under load have in common: how long they may take,
// and how their output is read.
package program

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"sync"
)

// Log keeps the first 64 KiB of what a program writes.
type Log struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements io.Writer.
func (l *Log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.b.Write(b[:min(len(b), max(64<<10-l.b.Len(), 0))])
	return len(b), nil
}

func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// LongestLine is what a line of a capture's output may have in octets; what is longer
// is taken as several.
const LongestLine = 64 << 10

// Lines is a writer that takes lines apart: they end with \n, or with \r where a
// program writes over the line before.
type Lines struct {
	mu   sync.Mutex
	Take func(line string)
	part []byte
}

// Write implements io.Writer.
func (l *Lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(b)
	for len(b) > 0 {
		i := bytes.IndexAny(b, "\r\n")
		end := i
		if i < 0 {
			end = len(b)
		}
		end = min(end, LongestLine-len(l.part))
		l.part = append(l.part, b[:end]...)
		b = b[end:]
		full := len(l.part) == LongestLine
		if len(b) == 0 && !full {
			break
		}
		if !full || i == end {
			b = b[1:] // the line's end
		}
		if len(l.part) > 0 {
			l.Take(string(l.part))
		}
		l.part = l.part[:0]
	}
	return n, nil
}

// LastLine is the last line of text that has something in it.
func LastLine(text string) string {
	text = strings.TrimSpace(text)
	return strings.TrimSpace(text[strings.LastIndexAny(text, "\r\n")+1:])
}

// Say prints a line.
func Say(v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = os.Stdout.Write(append(line, '\n'))
	return err
}
