// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"io"
	"sync"
	"unicode/utf8"

	"boxdyno/internal/printable"
)

// A printer passes on what it is given with characters that steer a terminal as
// text: names and words of files and peers are in it.
type printer struct {
	w    io.Writer
	mu   sync.Mutex
	tail []byte // the beginning of a character whose rest is to come
}

func (p *printer) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	text := append(p.tail, b...)
	end := len(text)
	for i := end - 1; i >= max(0, end-utf8.UTFMax); i-- {
		if utf8.RuneStart(text[i]) {
			if !utf8.FullRune(text[i:]) {
				end = i
			}
			break
		}
	}
	p.tail = append([]byte(nil), text[end:]...)
	if _, err := io.WriteString(p.w, printable.Text(string(text[:end]))); err != nil {
		return 0, err
	}
	return len(b), nil
}
