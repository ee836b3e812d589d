// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"bytes"
	"fmt"
	"math"
)

// A scan is what is left of a file of proc or of a line of it. It is taken apart in
// place: nothing is copied or allocated.
type scan []byte

// line cuts off the next line, which may be empty; ok is false at the end.
func (s *scan) line() (l scan, ok bool) {
	if len(*s) == 0 {
		return nil, false
	}
	i := bytes.IndexByte(*s, '\n')
	if i < 0 {
		l, *s = *s, nil
		return l, true
	}
	l, *s = (*s)[:i], (*s)[i+1:]
	return l, true
}

// field cuts off the next word, nil at the end.
func (s *scan) field() []byte {
	b, i := *s, 0
	for i < len(b) && (b[i] == ' ' || b[i] == '\t') {
		i++
	}
	from := i
	for i < len(b) && b[i] != ' ' && b[i] != '\t' {
		i++
	}
	*s = b[i:]
	if from == i {
		return nil
	}
	return b[from:i]
}

// number cuts off the next word, a decimal number; ok is false where it is none.
func (s *scan) number() (n uint64, ok bool) { return decimal(s.field()) }

func decimal(b []byte) (n uint64, ok bool) {
	if len(b) == 0 {
		return 0, false
	}
	for _, c := range b {
		d := uint64(c - '0')
		if d > 9 || n > (math.MaxUint64-d)/10 {
			return 0, false
		}
		n = 10*n + d
	}
	return n, true
}

// hexadecimal is for files such as softnet_stat: lower case, without 0x.
func hexadecimal(b []byte) (n uint64, ok bool) {
	if len(b) == 0 || len(b) > 16 {
		return 0, false
	}
	for _, c := range b {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		default:
			return 0, false
		}
		n = n<<4 | uint64(c)
	}
	return n, true
}

// decimals parses "12.34".
func decimals(b []byte) (v float64, ok bool) {
	before, after, _ := bytes.Cut(b, []byte{'.'})
	n, ok := decimal(before)
	if !ok {
		return 0, false
	}
	v = float64(n)
	if len(after) > 0 {
		f, ok := decimal(after)
		if !ok {
			return 0, false
		}
		v += float64(f) / math.Pow10(len(after))
	}
	return v, true
}

// malformed is the error of a parser at a line.
func malformed(l scan) error {
	return fmt.Errorf("cannot make sense of the line %q", l[:min(len(l), 80)])
}
