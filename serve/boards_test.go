// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"errors"
	"strings"
	"testing"
)

// The catalogue is asked with the reader's needs, and what is wrong with them is said.
func TestBoards(t *testing.T) {
	o := opts(t.TempDir())
	o.Boards = func(needs string) (any, error) {
		if needs == "wings" {
			return nil, errors.New("there is no need\nwings")
		}
		return map[string]string{"needs": needs}, nil
	}
	h := listening(t, o, "")
	for query, want := range map[string]string{
		"": `200 {"needs":""}`, "?need=aes%20ports%3E%3D2": `200 {"needs":"aes ports`, "?need=wings": "422 there is no need wings",
		"?board=x": "400 only these", "?need=" + strings.Repeat("x", mostWords+1): "400 need: give at most", "?need=%zz": "400 the address",
	} {
		code, text := ask(t, "GET", h.url("/api/boards"+query), "")
		status, words, _ := strings.Cut(want, " ")
		if status != map[int]string{200: "200", 400: "400", 422: "422"}[code] || !strings.Contains(text, words) {
			t.Errorf("%.30s: %d %s, want %s", query, code, text, want)
		}
	}
	if code, _ := ask(t, "GET", listening(t, opts(t.TempDir()), "").url("/api/boards"), ""); code != 404 {
		t.Errorf("without a catalogue: %d", code)
	}
}
