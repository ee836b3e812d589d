// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"testing"

	"boxdyno/internal/infer"
	"boxdyno/subject/detector"
)

// The page has every feature, and every model with the runtimes that have it.
func TestInfer(t *testing.T) {
	p := named(t, "docs/infer.md")
	sameNames(t, p.name+", Features", byCode(t, p.name, p.section(t, "Features")), infer.Names[:])
	models := byCode(t, p.name, p.section(t, "Models"))
	sameNames(t, p.name+", Models", models, detector.Models())
	for name, cells := range models {
		for _, runtime := range detector.Runtimes() {
			d, err := detector.New(runtime)
			if err != nil {
				t.Fatal(err)
			}
			d.Model = name
			says := cells[2] == "all"
			for _, c := range codes(cells[2]) {
				says = says || c == runtime
			}
			if says != (d.Lacks() == nil) {
				t.Errorf("%s: model %s, runtime %s: the page says %v", p.name, name, runtime, says)
			}
		}
	}
}
