// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"strings"
	"testing"
)

// Every name in the table opens, and its backend is called so.
func TestOpen(t *testing.T) {
	for _, s := range All {
		b, err := Open(s.Name)
		if err != nil || !strings.HasPrefix(b.Name(), s.Name) {
			t.Errorf("%s: %v, %v", s.Name, b, err)
		}
		for _, m := range s.Modes {
			if b, err := Open(s.Name + "/" + m.Name); err != nil || !strings.HasPrefix(b.Name(), s.Name) || m.Doc == "" {
				t.Errorf("%s/%s: %v, %v", s.Name, m.Name, b, err)
			}
		}
	}
	for _, no := range []string{"", "dpdk", "afxdp/", "afxdp/fast", "mem"} {
		if _, err := Open(no); err == nil || !strings.Contains(err.Error(), "afxdp/zero-copy") {
			t.Errorf("%q: %v", no, err)
		}
	}
}
