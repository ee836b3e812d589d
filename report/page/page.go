// SPDX-License-Identifier: Apache-2.0

// Package page writes a run's Document as one HTML file, which draws itself. Its source is
// in ui/ (Svelte); ui/dist/page.html is built from it and embedded.
//
// Drawings are SVG, and not the canvas of a plotting library such as uPlot. Each is saved as a
// file of vectors and printed at any size. Screen readers and tests find its marks and texts,
// and its colours are the page's. A curve or a history has some hundred marks at most, and a
// timeline some thousand steps, which Go has merged, so that it zooms at 48 frames a second.
package page

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"reflect"
	"slices"
	"strings"

	"boxdyno/internal/schema"
	"boxdyno/report"
	"boxdyno/report/text"
	"boxdyno/result"
)

// page is built from ui/ by `npm run build`; see ui/package.json.
//
//go:embed ui/dist/page.html
var page string

// The places in page that Write fills in.
const (
	dataHole     = `"BOXDYNO_DATA"`
	noscriptHole = `BOXDYNO_TEXT`
)

// Data is what Write puts into the page.
type Data struct {
	Document report.Document `json:"document"`
	Records  []result.Record `json:"records"`
}

// Schema describes Data; declared are all procedures' metrics, which blocks of rows have.
func Schema(declared map[string][]result.Metric) schema.Object {
	s := schema.Of(reflect.TypeFor[Data]())
	for block, metrics := range report.BlockMetrics(declared) {
		properties := s["$defs"].(schema.Object)[block].(schema.Object)["properties"].(schema.Object)
		for _, m := range metrics {
			properties[m] = schema.Object{"$ref": "#/$defs/Figure"}
		}
	}
	return s
}

// Write writes one self-contained page: the document with all records, drawn by
// scripts in the page itself. It opens from disk and needs no network; without
// scripts it shows the text for a terminal.
func Write(w io.Writer, d report.Document, recs []result.Record) error {
	var plain bytes.Buffer
	if err := text.Terminal(&plain, d); err != nil {
		return err
	}
	return fill(w, Of(d, recs), plain.String())
}

// WriteHistory writes the page History as such a file, from what history --json prints.
// Without scripts it shows the text.
func WriteHistory(w io.Writer, history any, plain string) error {
	return fill(w, struct {
		History any `json:"history"`
	}{history}, plain)
}

// fill writes the page with its data, and the text that stands for them without scripts.
func fill(w io.Writer, of any, plain string) error {
	// json.Marshal writes <, >, &, U+2028 and U+2029 as escapes, so that no
	// string ends the script element or becomes markup.
	data, err := json.Marshal(of)
	if err != nil {
		return fmt.Errorf("encode the page's data: %w", err)
	}
	if strings.Count(page, dataHole) != 1 || strings.Count(page, noscriptHole) != 1 {
		return errors.New("the page in this binary has no place for data: build it again with npm run build in report/page/ui")
	}
	_, err = strings.NewReplacer(dataHole, string(data), noscriptHole, html.EscapeString(plain)).WriteString(w, page)
	return err
}

// Of returns what Write puts into the page of a document and its records.
func Of(d report.Document, recs []result.Record) Data {
	d.Rows = report.WithFigures(d.Rows)
	return Data{d, withoutDigests(recs)}
}

// withoutDigests is recs for a page: no drawing needs digests, and they are half of a record.
func withoutDigests(recs []result.Record) []result.Record {
	recs = slices.Clone(recs)
	for i := range recs {
		recs[i].Digests = nil
	}
	return recs
}
