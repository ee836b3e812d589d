// SPDX-License-Identifier: Apache-2.0

package grid

import (
	_ "embed"
	"encoding/json"
	"io"
	"strconv"
	"strings"

	"boxdyno/internal/printable"
)

// JSON writes v, indented, with characters that steer terminals as text.
func JSON(w io.Writer, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err == nil {
		_, err = io.WriteString(w, printable.Text(string(text))+"\n")
	}
	return err
}

// csvCell returns a text as a cell that no spreadsheet takes for a formula.
func csvCell(s string) string {
	s = printable.Text(s)
	if s == "" || !strings.ContainsRune("=+-@\t\r", rune(s[0])) {
		return s
	}
	if _, err := strconv.ParseFloat(s, 64); err == nil {
		return s
	}
	return "'" + s
}

// CSV makes cells of texts, in place: no spreadsheet takes one for a formula.
func CSV(all []string) []string {
	for i := range all {
		all[i] = csvCell(all[i])
	}
	return all
}
