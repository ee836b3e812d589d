// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"boxdyno/reference/boards"
	"boxdyno/runner"
)

// A boardList is what list boards says. Without needs all boards match.
type boardList struct {
	Needs   string          `json:"needs,omitempty"`
	Matches []boards.Board  `json:"matches"`
	Unknown []unknownBoard  `json:"unknown,omitempty"` // may match: a value that is needed is not known
	Without int             `json:"without"`           // boards that are known not to match
	Sources []boards.Source `json:"sources"`           // of the values of these boards
}

// An unknownBoard may match.
type unknownBoard struct {
	boards.Board
	Lacks []string `json:"lacks"` // needs for which a value is not known
}

// boards lists the catalogue, or one board with the source of each value.
func (a *app) boards(name, needs string, asJSON bool) error {
	l, err := boardsOf(name, needs)
	if err != nil {
		return err
	}
	switch {
	case asJSON:
		return encode(a.out, l)
	case name != "" && strings.TrimSpace(needs) == "" && len(l.Matches) > 0:
		return a.board(l.Matches[0])
	}
	return boardTable(a.out, terminalWidth(a.out), l)
}

// boardsOf are the boards of the catalogue that meet needs, or the one of that name.
func boardsOf(name, needs string) (l boardList, err error) {
	n, err := boards.ParseNeeds(needs)
	if err != nil {
		return l, &runner.PlanError{At: "--need", Err: err}
	}
	l = boardList{Needs: needs, Matches: []boards.Board{}}
	for _, b := range boards.All() {
		if name != "" && b.ID != name {
			continue
		}
		switch answer, lacks := n.Of(b); answer {
		case boards.Yes:
			l.Matches = append(l.Matches, b)
		case boards.Unknown:
			l.Unknown = append(l.Unknown, unknownBoard{b, lacks})
		default:
			l.Without++
		}
	}
	if name != "" && len(l.Matches)+len(l.Unknown)+l.Without == 0 {
		return l, &runner.PlanError{Err: fmt.Errorf("there is no board %s in the catalogue: boxdyno list boards names them", name)}
	}
	slices.SortStableFunc(l.Unknown, func(x, y unknownBoard) int { return len(x.Lacks) - len(y.Lacks) })
	l.Sources = l.sources()
	return l, nil
}

// A boardKey is what the catalogue can say of a board.
type boardKey struct {
	Name string `json:"name"`
	Unit string `json:"unit,omitempty"`
	Help string `json:"help"`
}

// boardPage is what list boards says, with the keys by which it is shown whole.
func boardPage(needs string) (any, error) {
	l, err := boardsOf("", needs)
	var keys []boardKey
	for _, k := range boards.Keys {
		keys = append(keys, boardKey{k.Name, k.Unit, k.Help})
	}
	return struct {
		boardList
		All  int        `json:"all"` // boards of the catalogue
		Keys []boardKey `json:"keys"`
	}{l, len(boards.All()), keys}, err
}

// sources are those of the boards' values.
func (l boardList) sources() (out []boards.Source) {
	used := map[string]bool{}
	all := l.Matches
	for _, u := range l.Unknown {
		all = append(all[:len(all):len(all)], u.Board)
	}
	for _, b := range all {
		for _, v := range b.Values {
			used[v.Source] = true
		}
	}
	for _, s := range boards.Sources() {
		if used[s.ID] {
			out = append(out, s)
		}
	}
	return out
}

// boardTable prints a line for each board, on a terminal of that width; 0: the width does not
// matter.
func boardTable(out io.Writer, width int, l boardList) error {
	rows := [][]string{{"BOARD", "NAME", "SOC", "CORES", "PORTS", "AES", "WIFI", "USD", "IDLE", "LOAD"}}
	for _, b := range l.Matches {
		rows = append(rows, []string{b.ID, b.Name, first(b, "soc"), cores(b), ports(b), aes(b), first(b, "wifi"), usd(b), watts(b, "idle"), watts(b, "load")})
	}
	if len(l.Matches) > 0 {
		gone := fit(rows, width, "SOC", "WIFI", "CORES", "NAME", "AES")
		if err := tabled(out, rows); err != nil {
			return err
		}
		tooNarrow(out, width, gone, "boxdyno list boards BOARD shows all of one")
	}
	if len(l.Unknown) > 0 {
		if len(l.Matches) > 0 {
			fmt.Fprintln(out)
		}
		fmt.Fprintln(out, wrapped(fmt.Sprintf("Unknown: nothing rules these %d boards out, and the catalogue does not say whether they have what follows them.", len(l.Unknown)), width, ""))
		rows := [][]string{{"  BOARD", "NAME", "UNKNOWN"}}
		for _, u := range l.Unknown {
			rows = append(rows, []string{"  " + u.ID, u.Name, strings.Join(u.Lacks, " ")})
		}
		rows, gone := fitFolded(rows, width, 20, "NAME")
		if err := tabled(out, rows[1:]); err != nil {
			return err
		}
		tooNarrow(out, width, gone, "boxdyno list boards BOARD shows all of one")
	}
	if l.Needs != "" {
		fmt.Fprintf(out, "\n%d of %d boards match, %d are unknown, %d do not match.\n", len(l.Matches), len(boards.All()), len(l.Unknown), l.Without)
	}
	return nil
}

// fit takes columns out of rows, by their headings and in this order, until they fit into a
// terminal of that width; 0: they do. It returns those that are gone.
func fit(rows [][]string, width int, first ...string) (gone []string) {
	for _, name := range first {
		if width == 0 || wide(rows) <= width {
			return gone
		}
		i := slices.Index(rows[0], name)
		for j := range rows {
			rows[j] = slices.Delete(rows[j], i, i+1)
		}
		gone = append(gone, name)
	}
	return gone
}

// tooNarrow names the columns for which the terminal has no room, and what has all.
func tooNarrow(out io.Writer, width int, gone []string, all string) {
	if len(gone) > 0 {
		fmt.Fprintln(out, "\n"+wrapped(fmt.Sprintf("This terminal is too narrow for %s: %s.", strings.Join(gone, ", "), all), width, ""))
	}
}

// fitFolded is fit of a table whose last cells may go on in rows below; least is how wide they
// are then at least.
func fitFolded(rows [][]string, width, least int, first ...string) (out [][]string, gone []string) {
	for _, name := range first {
		if out = foldLast(rows, width, least); width == 0 || wide(out) <= width {
			return out, gone
		}
		gone = append(gone, fit(rows, 1, name)...)
	}
	return foldLast(rows, width, least), gone
}

// foldLast folds the last cells of rows that would not fit into that width.
func foldLast(rows [][]string, width, least int) (out [][]string) {
	if width == 0 || wide(rows) <= width {
		return rows
	}
	last := len(rows[0]) - 1
	var others [][]string
	for _, r := range rows {
		others = append(others, r[:last])
	}
	room := max(width-wide(others)-2, least)
	for _, r := range rows {
		for i, line := range strings.Split(folded(r[last], room, "\n"), "\n") {
			cells := make([]string, last, last+1)
			if i == 0 {
				copy(cells, r)
			}
			out = append(out, append(cells, line))
		}
	}
	return out
}

// wide is how wide a table of these rows is.
func wide(rows [][]string) int {
	sum := -2
	for i := range rows[0] {
		most := 0
		for _, r := range rows {
			most = max(most, utf8.RuneCountInString(r[i]))
		}
		sum += most + 2
	}
	return sum
}

// tabled prints rows as a table.
func tabled(out io.Writer, rows [][]string) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, r := range rows {
		fmt.Fprintln(w, strings.Join(r, "\t"))
	}
	return w.Flush()
}

// board prints one board: each value with where it was read.
func (a *app) board(b boards.Board) error {
	fmt.Fprintf(a.out, "%s: %s (%s)\n", b.ID, b.Name, b.Kind)
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	for _, k := range boards.Keys {
		vs := b.Of(k.Name)
		if vs == nil {
			fmt.Fprintf(w, "  %s\tunknown\t\t\n", k.Name)
		}
		for _, v := range vs {
			text, at := v.Text, v.Source
			if k.Unit != "" {
				text += " " + k.Unit
			}
			if v.At != "" {
				at += ": " + v.At
			}
			fmt.Fprintf(w, "  %s\t%s\t%s\t%s\n", k.Name, text, v.Note, at)
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(a.out, "\nSources:")
	for _, s := range boards.Sources() {
		if slices.ContainsFunc(b.Values, func(v boards.Value) bool { return v.Source == s.ID }) {
			fmt.Fprintf(w, "  %s\t%s; %s (%s)\n", s.ID, s.What, s.Where, s.Date)
		}
	}
	return w.Flush()
}

// unknown stands where the catalogue has no value.
const unknown = "?"

func first(b boards.Board, key string) string {
	if vs := b.Of(key); vs != nil {
		return vs[0].Text
	}
	return unknown
}

func cores(b boards.Board) string {
	var kinds []string
	for _, v := range b.Of("cores") {
		kinds = append(kinds, v.Text)
	}
	if kinds == nil {
		return unknown
	}
	return strings.Join(kinds, " + ")
}

// ports are the groups of ports, such as "1x1G 2x2.5G".
func ports(b boards.Board) string {
	all, ok := b.Ports()
	if !ok {
		return unknown
	}
	var groups []string
	for _, p := range all {
		s := strconv.Itoa(p.Count)
		switch {
		case p.Count == 0:
			s = "none"
		case p.Speed > 0:
			s += "x" + strconv.FormatFloat(p.Speed/1e6, 'f', -1, 64) + "M"
			if p.Speed >= 1e9 {
				s = fmt.Sprintf("%dx%gG", p.Count, p.Speed/1e9)
			}
		default:
			s += "x" + unknown
		}
		groups = append(groups, s)
	}
	return strings.Join(groups, " ")
}

func aes(b boards.Board) string {
	vs := b.Of("instructions")
	switch {
	case vs == nil:
		return unknown
	case slices.ContainsFunc(vs, func(v boards.Value) bool { return v.Text == "aes" }):
		return "yes"
	}
	return "no"
}

func usd(b boards.Board) string {
	p, _, ok := b.Price("USD")
	if !ok {
		return unknown
	}
	return fmt.Sprintf("%.4g (%d)", p.Amount, p.Year)
}

func watts(b boards.Board, key string) string {
	v, ok := b.Number(key)
	if !ok {
		return unknown
	}
	return fmt.Sprintf("%.3g W", v)
}
