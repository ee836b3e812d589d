// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"crypto/sha256"
	"encoding/hex"
	"testing"
)

func TestDigest(t *testing.T) {
	d := NewDigest()
	d.Add([]byte("ab"))
	d.Add(nil)
	d.Add([]byte{7})
	want := sha256.Sum256([]byte("\x00\x00\x00\x02ab\x00\x00\x00\x00\x00\x00\x00\x01\x07"))
	if got := d.Sum(); got != hex.EncodeToString(want[:]) || d.Sum() != got {
		t.Errorf("%s, want %x", got, want)
	}
}
