// SPDX-License-Identifier: Apache-2.0

package runner

import "fmt"

// DidYouMean is " (did you mean X?)" with the one of names that is nearest to name, or ""
// where none is near.
func DidYouMean(name string, names []string) string {
	best, least := "", min(3, (len(name)+1)/2) // so many edits are too many
	for _, n := range names {
		if d := edits(name, n); d < least {
			best, least = n, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %s?)", best)
}

// edits is how many octets must be added, left out, replaced or swapped with their
// neighbour to make b of a, where none is edited twice.
func edits(a, b string) int {
	var before, last []int // rows of i-2 and i-1
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		before, last, row = last, row, make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			same := last[j-1]
			if a[i-1] != b[j-1] {
				same++
			}
			row[j] = min(last[j]+1, row[j-1]+1, same)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
	}
	return row[len(b)]
}
