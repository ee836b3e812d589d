// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"testing"

	"boxdyno/procedure/internal/roomtest"
)

// A load of two senders into the empty box is not that of one.
func TestOnceOfSenders(t *testing.T) {
	keys := map[string]bool{}
	for _, n := range []string{"1", "2"} {
		p := newCapture().(*Capture)
		roomtest.Assign(t, p.Flags, map[string]string{"rate": "1000", "senders": n})
		key, _, _ := p.Once()
		keys[key] = true
	}
	if len(keys) != 2 || keys[""] {
		t.Error(keys)
	}
}
