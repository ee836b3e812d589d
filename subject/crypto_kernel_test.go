// SPDX-License-Identifier: Apache-2.0

package subject

import (
	"errors"
	"maps"
	"slices"
	"testing"

	"boxdyno/host"
	"boxdyno/internal/testutil"
)

// The kernel computes its known answers, of every cipher that it has.
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
				t.Error(err)
			}
		})
	}
}
