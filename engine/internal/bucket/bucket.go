// SPDX-License-Identifier: Apache-2.0

// Package bucket has the buckets of all histograms, in Go and in BPF.
package bucket

import (
	"math/bits"

	"boxdyno/result"
)

// The buckets of all histograms are log-linear, 16 to a power of two (of ns, or
// of frames), so that an upper edge is at most 1/16 above what fell in:
//
//	v < 16    bucket v
//	v >= 16   e = floor(log2 v); bucket (e-3)*16 + ((v >> (e-4)) & 15)
//
// The meter in BPF counts by the same formula.
const Count = 976 // of 64-bit values

// Of is the index of v's bucket, v in ns.
func Of(v uint64) int {
	if v < 16 {
		return int(v)
	}
	e := bits.Len64(v) - 1
	return (e-3)*16 + int(v>>(e-4)&15)
}

// upper is the largest v of bucket i, in ns.
func upper(i int) uint64 {
	if i < 16 {
		return uint64(i)
	}
	e := i/16 + 3
	return uint64(i%16+17)<<(e-4) - 1 // the last one wraps to the largest uint64
}

// Histogram makes counts by bucket of nanoseconds a histogram in seconds.
func Histogram(counts []uint64) *result.Histogram {
	h := Lengths(counts)
	for i := range h.Upper {
		h.Upper[i] /= 1e9
	}
	return h
}

// Lengths makes counts by bucket of frames a histogram in frames.
func Lengths(counts []uint64) *result.Histogram {
	h := &result.Histogram{Upper: []float64{}, Count: []uint64{}}
	for i, n := range counts {
		if n != 0 {
			h.Upper = append(h.Upper, float64(upper(i)))
			h.Count = append(h.Count, n)
		}
	}
	return h
}
