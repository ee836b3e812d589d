// SPDX-License-Identifier: Apache-2.0

package page

import (
	"strings"
	"testing"
)

// TestPage looks at the committed page's structure; script/test compares it
// with its sources.
func TestPage(t *testing.T) {
	for s, n := range map[string]int{dataHole: 1, noscriptHole: 1, `<script type="application/json" id="boxdyno-data">` + dataHole + "</script>": 1, "<title>boxdyno</title>": 1, `<html lang="en">`: 1} {
		if got := strings.Count(page, s); got != n {
			t.Errorf("ui/dist/page.html has %q %d times, want %d: build it with npm run build in report/page/ui", s, got, n)
		}
	}
	if !strings.Contains(page, `default-src 'none'`) {
		t.Error("the page may reach the network: its Content-Security-Policy is gone")
	}
	for _, s := range []string{`<script src`, `<link rel="stylesheet"`, "@import", "modulepreload"} {
		if strings.Contains(page, s) {
			t.Errorf("the page is not self-contained: it has %s", s)
		}
	}
}
