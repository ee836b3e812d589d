// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"fmt"
	"math"
	"math/big"

	"boxdyno/result"
)

// memoryBandwidth writes, reads and copies a locked buffer.
var memoryBandwidth = memoryProgram{
	name: "memory-bandwidth", source: "memory_bandwidth.c", doc: "octets written (memset), read, and copied (memcpy) a second in a locked buffer",
	had: "a locked buffer", locked: true,
	takes: func(size int64) int64 { return size }, last: secondsOf, figures: bandwidthFigures,
}

// A bandwidthTold is what the program prints; sums are modulo 2 to the power of 64, that of
// reading modulo 2 to the power of Bits.
type bandwidthTold struct {
	Bits   int    `json:"bits"`
	Locked int64  `json:"locked"`
	Lock   passes `json:"lock"`
	Write  passes `json:"write"`
	Read   struct {
		passes
		Sum uint64 `json:"sum,string"`
	} `json:"read"`
	First copied `json:"first_copy"`
	Copy  struct {
		passes
		copied
	} `json:"copy"`
}

type passes struct {
	Passes  int64   `json:"passes"`
	Seconds float64 `json:"seconds"`
}

// A copied is the sum of the words that were copied, and their sum when each is multiplied
// by its place, counted from 1.
type copied struct {
	Sum    uint64 `json:"sum,string"`
	Placed uint64 `json:"placed,string"`
}

func bandwidthFigures(text string, size int64) ([]result.Value, error) {
	var t bandwidthTold
	if err := printedJSON(text, &t); err != nil {
		return nil, err
	}
	if t.Locked != size || t.Write.Passes < 1 || t.Read.Passes < 1 || t.Copy.Passes < 1 || !(t.Write.Seconds > 0 && t.Read.Seconds > 0 && t.Copy.Seconds > 0) {
		return nil, fmt.Errorf("it printed what is no figure: %.80q", text)
	}
	if want := readSum(t.Bits, size, t.Write.Passes, t.Read.Passes); t.Read.Sum != want {
		return nil, fmt.Errorf("what was written was not read again: the sum of the words is %d, and not %d", t.Read.Sum, want)
	}
	for first, got := range map[uint64]copied{1: t.First, 2: t.Copy.copied} {
		if want := copiedSums(uint64(size)/16, first); got != want {
			return nil, fmt.Errorf("the copy is not what was copied: its sums are %d and %d, and not %d and %d", got.Sum, got.Placed, want.Sum, want.Placed)
		}
	}
	rate := func(metric string, octets int64, p passes) result.Value {
		return result.Value{Metric: metric, Unit: "B/s", Value: float64(octets) * float64(p.Passes) / p.Seconds}
	}
	return []result.Value{
		rate("memory_write_rate", size, t.Write), rate("memory_read_rate", size, t.Read.passes), rate("memory_copy_rate", size/2, t.Copy.passes),
		{Metric: "locked_bytes", Unit: "B", Value: float64(size)}, {Metric: "lock_s", Unit: "s", Value: t.Lock.Seconds},
	}, nil
}

// readSum is the sum of all words of bits, over so many passes of reading, after so many of
// writing: pass n writes the octet n mod 255 + 1.
func readSum(bits int, size, written, read int64) uint64 {
	octet := uint64(written%255 + 1)
	word := octet * 0x0101010101010101
	words := uint64(size) / 8
	if bits == 32 {
		word, words = octet*0x01010101, uint64(size)/4
	}
	sum := word * words * uint64(read)
	if bits == 32 {
		sum &= math.MaxUint32
	}
	return sum
}

// copyStep is how far a word lies above the one before it.
const copyStep = 0x9e3779b97f4a7c15

// copiedSums are those of n words, the first of which is first.
func copiedSums(n, first uint64) copied {
	// The sums of i, of i+1 and of i(i+1) for i from 0 to n-1.
	of := func(by int64, factors ...uint64) uint64 {
		v := big.NewInt(1)
		for _, f := range factors {
			v.Mul(v, new(big.Int).SetUint64(f))
		}
		v.Div(v, big.NewInt(by))
		return v.And(v, new(big.Int).SetUint64(math.MaxUint64)).Uint64()
	}
	if n == 0 {
		return copied{}
	}
	return copied{Sum: n*first + copyStep*of(2, n-1, n), Placed: first*of(2, n, n+1) + copyStep*of(3, n-1, n, n+1)}
}

var memoryBandwidthMetrics = []result.Metric{
	{Name: "memory_write_rate", Label: "written", Interval: "range", Heads: true, Unit: "B/s", Better: 1, Help: "octets written a second into the locked buffer by memset, all copies together"},
	{Name: "memory_read_rate", Label: "read", Interval: "range", Heads: true, Unit: "B/s", Better: 1, Help: "octets read a second from it, in words of the machine"},
	{Name: "memory_copy_rate", Label: "copied", Interval: "range", Heads: true, Unit: "B/s", Better: 1, Help: "octets copied a second from its first half to its second by memcpy: each is read once and written once"},
	{Name: "locked_bytes", Unit: "B", Exact: true, Help: "octets that were locked, all copies together"},
	{Name: "lock_s", Unit: "s", Better: -1, Help: "time that the kernel took to lock them, which is when it finds and clears them: the copies' mean"},
}
