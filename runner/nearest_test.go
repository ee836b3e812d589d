// SPDX-License-Identifier: Apache-2.0

package runner

import "testing"

func TestDidYouMean(t *testing.T) {
	names := []string{"forward", "flood", "ids", "infer", "vpn", "back-to-back"}
	for name, want := range map[string]string{
		"forwrd": "forward", "fowrard": "forward", "forwards": "forward", "frward": "forward", "vpm": "vpn", "isd": "ids", "back-to-bakc": "back-to-back",
		"nope": "", "moon": "", "x": "", "": "", "an": "", "forest": "", "ford": "",
	} {
		if want != "" {
			want = " (did you mean " + want + "?)"
		}
		if got := DidYouMean(name, names); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}
