// SPDX-License-Identifier: Apache-2.0

package trial

import "boxdyno/result"

// Grown is what a histogram has more than it had before; nil is empty.
func Grown(now, before *result.Histogram) *result.Histogram {
	if now == nil || before == nil {
		return now
	}
	out := &result.Histogram{}
	j := 0
	for i, upper := range now.Upper {
		n := now.Count[i]
		for j < len(before.Upper) && before.Upper[j] < upper {
			j++
		}
		if j < len(before.Upper) && before.Upper[j] == upper {
			n -= before.Count[j]
		}
		if n > 0 {
			out.Upper, out.Count = append(out.Upper, upper), append(out.Count, n)
		}
	}
	return out
}

// Delay is what a record keeps of a histogram of seconds; nil where it is empty.
func Delay(h *result.Histogram) *result.Delay {
	if h == nil || h.Total() == 0 {
		return nil
	}
	return &result.Delay{Min: h.Quantile(0), Mean: h.Mean(), P99: h.Quantile(0.99), Max: h.Quantile(1)}
}
