// SPDX-License-Identifier: Apache-2.0

package result

// A Copy is what one of several programs that worked at once, each on a CPU of its own,
// said of itself: Record.Values has all of them together.
type Copy struct {
	CPU    int     `json:"cpu"`
	Values []Value `json:"values"` // of metrics that the record has, too
}
