// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"boxdyno/frame"
	"boxdyno/procedure/internal/trial"
)

// rigThat is one whose last trial's meter had no room for so many frames.
func rigThat(unsure uint64) *trial.Rig {
	return &trial.Rig{Called: frame.Called{Sent: 10, Received: 9, Missing: 1, Foreign: unsure, Unsure: unsure}}
}
