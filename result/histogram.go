// SPDX-License-Identifier: Apache-2.0

package result

// Merge adds up two histograms of the same buckets; nil is empty.
func Merge(a, b *Histogram) *Histogram {
	if a == nil {
		return b
	}
	if b == nil {
		return a
	}
	out := Histogram{Upper: []float64{}, Count: []uint64{}}
	for i, j := 0, 0; i < len(a.Upper) || j < len(b.Upper); {
		switch {
		case j == len(b.Upper) || i < len(a.Upper) && a.Upper[i] < b.Upper[j]:
			out.Upper, out.Count = append(out.Upper, a.Upper[i]), append(out.Count, a.Count[i])
			i++
		case i == len(a.Upper) || b.Upper[j] < a.Upper[i]:
			out.Upper, out.Count = append(out.Upper, b.Upper[j]), append(out.Count, b.Count[j])
			j++
		default:
			out.Upper, out.Count = append(out.Upper, a.Upper[i]), append(out.Count, a.Count[i]+b.Count[j])
			i, j = i+1, j+1
		}
	}
	return &out
}
