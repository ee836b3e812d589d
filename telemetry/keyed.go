// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"bytes"

	"boxdyno/result"
	"boxdyno/unit"
)

// A want is one number of a file whose lines begin with its name: "pswpin 12" or
// "MemFree: 12 kB".
type want struct {
	key, name string
	unit      unit.Symbol
	scale     float64 // 0: 1
	counter   bool
	place     result.Place
	help      string
}

func (w *want) series(labels []result.Pair) result.Series {
	return result.Series{Name: w.name, Labels: labels, Unit: w.unit, Counter: w.counter, Place: w.place, Help: w.help}
}

// keyed is the parser of such a file.
type keyed struct {
	wants  []want
	at     map[string]int
	counts []counter
}

// newKeyed keeps those of wants that data has.
func newKeyed(wants []want, data []byte, labels []result.Pair) ([]result.Series, *keyed) {
	k, has := &keyed{at: map[string]int{}}, map[string]bool{}
	text := scan(data)
	for l, ok := text.line(); ok; l, ok = text.line() {
		has[string(bytes.TrimSuffix(l.field(), []byte{':'}))] = true
	}
	var all []result.Series
	for _, w := range wants {
		if has[w.key] {
			k.at[w.key] = len(all)
			all = append(all, w.series(labels))
			k.wants = append(k.wants, w)
		}
	}
	k.counts = make([]counter, len(all))
	return all, k
}

func (k *keyed) parse(data []byte, dst []float64) error {
	text := scan(data)
	for l, ok := text.line(); ok; l, ok = text.line() {
		whole, key := l, l.field()
		if n := len(key) - 1; n >= 0 && key[n] == ':' {
			key = key[:n]
		}
		i, ok := k.at[string(key)]
		if !ok {
			continue
		}
		n, ok := l.number()
		if !ok {
			return malformed(whole)
		}
		dst[i] = k.value(i, n)
	}
	return nil
}

func (k *keyed) value(i int, n uint64) float64 {
	v := float64(n)
	if k.wants[i].counter {
		v = k.counts[i].next(n)
	}
	if s := k.wants[i].scale; s != 0 {
		v *= s
	}
	return v
}

// oneNumber parses a file that is one number.
func oneNumber(data []byte) (uint64, error) {
	text := scan(data)
	l, _ := text.line()
	whole := l
	n, ok := l.number()
	if !ok {
		return 0, malformed(whole)
	}
	return n, nil
}

// parseOne is the parser of such a file.
func parseOne(data []byte, dst []float64) error {
	n, err := oneNumber(data)
	dst[0] = float64(n)
	return err
}
