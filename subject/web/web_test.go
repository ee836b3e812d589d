// SPDX-License-Identifier: Apache-2.0

package web

import (
	"net/netip"
	"testing"
)

// A server listens at one address, never at all of them.
func TestListensAtOneAddress(t *testing.T) {
	for _, at := range []string{"0.0.0.0:80", "198.18.0.1:0", "[::]:80", "[2001:2::1]:80"} {
		if s, err := (Local{}).ServeWeb(t.Context(), netip.MustParseAddrPort(at), nil); err == nil {
			t.Errorf("%s is taken", at)
			_ = s.Kill()
		}
	}
}
