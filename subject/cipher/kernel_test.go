// SPDX-License-Identifier: Apache-2.0

package cipher

import (
	"bytes"
	"errors"
	"maps"
	"slices"
	"testing"

	"boxdyno/host"
	"boxdyno/internal/testutil"
)

// The kernel computes its known answers, of every cipher that it has, and gives back what
// it encrypted in the largest requests.
func TestKernelCiphers(t *testing.T) {
	testutil.NoLeaks(t)
	for _, name := range slices.Sorted(maps.Keys(symmetricAnswers())) {
		s := testCrypto(t, "af-alg", name)
		if s.Lacks() != nil {
			continue
		}
		t.Run(name, func(t *testing.T) {
			var missing *host.Missing
			if err := s.Check(t.Context(), &host.Local{}); errors.As(err, &missing) {
				t.Skip(err)
			} else if err != nil {
				t.Fatal(err)
			}
			if err := s.Prove(t.Context(), &host.Local{}); err != nil {
				t.Fatal(err)
			}
			name, err := kernelName(s.Cipher)
			if err != nil {
				t.Fatal(err)
			}
			k, err := openAlg(name, testKey(s.Cipher))
			if err != nil {
				t.Fatal(err)
			}
			defer k.Close()
			text := ascending(0, 2*mostAlg)
			buffer := bytes.Clone(text)
			w := algWork{Direction: Decrypt, Block: mostAlg}
			requests, err := w.requests(k, s.Cipher, buffer)
			if err != nil || len(requests) != 2 {
				t.Fatalf("%d requests, %v", len(requests), err)
			}
			iv := make([]byte, kernelIV(s.Cipher))
			for _, r := range requests {
				if s.Cipher.aead() {
					clear(r.out)
				} else if err := k.Do(algControl(false, iv), r.in, r.in); err != nil {
					t.Fatal(err)
				}
				if bytes.Contains(buffer, r.in[:64]) == s.Cipher.aead() || bytes.Contains(text, r.in[:64]) {
					t.Error("the text is not encrypted")
				}
				if err := k.Do(algControl(true, iv), r.in, r.out); err != nil {
					t.Fatal(err)
				}
			}
			if !bytes.Equal(buffer, text) {
				t.Error("what was encrypted is decrypted to another text")
			}
		})
	}
}
