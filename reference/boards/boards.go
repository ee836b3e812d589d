// SPDX-License-Identifier: Apache-2.0

// Package boards is a catalogue of boards and boxes to choose from, embedded. Every
// value names the document that it was read in; what no document said is absent.
//
//	boards.csv   a board a line: its name and kind
//	values.csv   a value a line: of which board, what, its text, its source, where in the source, a note
//	sources.csv  the documents, with the date of the copy that was read
package boards

import (
	"embed"
	"encoding/csv"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
)

//go:embed boards.csv values.csv sources.csv
var files embed.FS

// Kinds are the kinds of boards.
var Kinds = []string{"sbc", "module", "router", "riscv", "minipc", "appliance", "industrial"}

// A Key is what values can say of a board.
type Key struct {
	Name  string
	Unit  string // "GiB", "W", "°C"; "": a word or a number of things
	Help  string
	Many  bool // a board may have several: options, kinds of cores, groups of ports
	check func(string) error
}

// Keys are all keys, in the order in which a board's values are shown.
var Keys = []Key{
	{"soc", "", "processor or system on a chip", false, word},
	{"cores", "", "number and kind of cores, one value for each kind", true, coresText},
	{"width", "bit", "of the cores' general registers", false, oneOf("32", "64")},
	{"instructions", "", "instructions for ciphers that the cores have; none: they have none", true, oneOf("none", "aes", "pmull", "sha1", "sha2", "sha3", "sha512", "pclmulqdq", "sha_ni", "vaes")},
	{"memory", "GiB", "sizes that are sold, or the least and the most", true, number(0.03, 1024)},
	{"port", "", "Ethernet ports: number x Mbit/s @ bus, and form; a switch is one bus to the CPU", true, portText},
	{"wifi", "", "standard; yes, no or optional", false, word},
	{"poe", "", "how it takes its power over Ethernet: yes, hat, module or passive", false, oneOf("yes", "hat", "module", "passive")},
	{"storage", "", "what it can hold", true, oneOf("microSD", "eMMC", "UFS", "NVMe", "SATA", "mSATA")},
	{"temperature_min", "°C", "least ambient temperature in operation", false, number(-60, 30)},
	{"temperature_max", "°C", "highest ambient temperature in operation", false, number(30, 110)},
	{"until", "", "year or month until which it is made", false, date},
	{"price", "", "amount, currency and year", true, priceText},
	{"idle", "W", "power when idle; the note has the method", false, number(0.1, 500)},
	{"load", "W", "power under load; the note has the method", false, number(0.1, 1000)},
	{"load_hpl", "W", "power under HPL", false, number(0.1, 1000)},
	{"hpl", "GFLOPS", "HPL on all cores", false, number(0.01, 10000)},
	{"forward", "frame/s", "frames of 64 octets forwarded", false, number(1000, 1e9)},
	{"compatible", "", "first name in its device tree", true, word},
	{"dmi", "", "vendor and product in its DMI table", false, word},
}

// A Value is one thing that is known of a board.
type Value struct {
	Key    string `json:"key"`
	Text   string `json:"value"`
	Source string `json:"source"`         // a Source's ID
	At     string `json:"at,omitempty"`   // where in the source
	Note   string `json:"note,omitempty"` // method or condition
}

// A Board is a board or box with what is known of it.
type Board struct {
	ID     string  `json:"id"`
	Name   string  `json:"name"`
	Kind   string  `json:"kind"` // one of Kinds
	Values []Value `json:"values"`
}

// A Source is a document that values were read in.
type Source struct {
	ID    string `json:"id"`
	What  string `json:"what"`
	Where string `json:"where"`
	Date  string `json:"date"` // of the document or of the copy; else the day it was read
}

// A Port is a group of equal Ethernet ports.
type Port struct {
	Count int
	Speed float64 // bit/s; 0: not known
	Bus   string  // "soc", "switch", "pcie", "usb2", "usb3"; "": not known
	Form  string  // "sfp", "sfp+"; "": 8P8C, or not known
}

// A Price is what a board cost.
type Price struct {
	Amount   float64
	Currency string // ISO 4217
	Year     int
}

// All are the boards in the file's order; the slice is shared and must not be changed.
func All() []Board { return all() }

// Find returns the board of that ID.
func Find(id string) (Board, bool) {
	i := slices.IndexFunc(all(), func(b Board) bool { return b.ID == id })
	if i < 0 {
		return Board{}, false
	}
	return all()[i], true
}

// Sources are all sources; the slice is shared and must not be changed.
func Sources() []Source { return sources() }

// SourceOf returns the source of that ID.
func SourceOf(id string) (Source, bool) {
	i := slices.IndexFunc(sources(), func(s Source) bool { return s.ID == id })
	if i < 0 {
		return Source{}, false
	}
	return sources()[i], true
}

// Of returns the board's values of a key, nil where none is known.
func (b Board) Of(key string) (vs []Value) {
	for _, v := range b.Values {
		if v.Key == key {
			vs = append(vs, v)
		}
	}
	return vs
}

// Number returns the largest of the board's values of a key that is a number.
func (b Board) Number(key string) (n float64, ok bool) {
	for _, v := range b.Of(key) {
		if x, err := strconv.ParseFloat(v.Text, 64); err == nil && (!ok || x > n) {
			n, ok = x, true
		}
	}
	return n, ok
}

// Cores returns how many cores the board has, all kinds together.
func (b Board) Cores() (n int, ok bool) {
	for _, v := range b.Of("cores") {
		count, _, _ := strings.Cut(v.Text, " ")
		c, _ := strconv.Atoi(count) // checked when it was read
		n, ok = n+c, true
	}
	return n, ok
}

// Ports returns the board's groups of Ethernet ports; ok is false where none is known.
// A board without ports has one group of none.
func (b Board) Ports() (ports []Port, ok bool) {
	for _, v := range b.Of("port") {
		p, _ := parsePort(v.Text) // checked when it was read
		ports, ok = append(ports, p), true
	}
	return ports, ok
}

// Price returns the lowest price in a currency, of the newest year that has one.
func (b Board) Price(currency string) (p Price, v Value, ok bool) {
	for _, x := range b.Of("price") {
		if q, err := parsePrice(x.Text); err == nil && q.Currency == currency && (!ok || q.Year > p.Year || q.Year == p.Year && q.Amount < p.Amount) {
			p, v, ok = q, x, true
		}
	}
	return p, v, ok
}

// Identify returns the board that a machine is, by the names in its device tree, the
// first of which is the closest, or by vendor and product of its DMI table.
func Identify(compatible []string, dmi string) (Board, bool) {
	for _, name := range compatible {
		for _, b := range all() {
			if slices.ContainsFunc(b.Of("compatible"), func(v Value) bool { return v.Text == name }) {
				return b, true
			}
		}
	}
	for _, b := range all() {
		if dmi != "" && slices.ContainsFunc(b.Of("dmi"), func(v Value) bool { return v.Text == dmi }) {
			return b, true
		}
	}
	return Board{}, false
}

var all = sync.OnceValue(func() (out []Board) {
	at := map[string]int{}
	for _, r := range rows("boards.csv", 3) {
		at[r[0]] = len(out)
		out = append(out, Board{ID: r[0], Name: r[1], Kind: r[2]})
	}
	for i, r := range rows("values.csv", 6) {
		n, ok := at[r[0]]
		if !ok {
			panic(fmt.Sprintf("boards: values.csv: value %d: there is no board %q", i+1, r[0]))
		}
		k := slices.IndexFunc(Keys, func(k Key) bool { return k.Name == r[1] })
		if k < 0 {
			panic(fmt.Sprintf("boards: values.csv: value %d: there is no key %q", i+1, r[1]))
		}
		if err := Keys[k].check(r[2]); err != nil {
			panic(fmt.Sprintf("boards: values.csv: value %d: %s of %s: %v", i+1, r[1], r[0], err))
		}
		out[n].Values = append(out[n].Values, Value{Key: r[1], Text: r[2], Source: r[3], At: r[4], Note: r[5]})
	}
	for _, b := range out {
		slices.SortStableFunc(b.Values, func(x, y Value) int { return order(x.Key) - order(y.Key) })
	}
	return out
})

func order(key string) int {
	return slices.IndexFunc(Keys, func(k Key) bool { return k.Name == key })
}

var sources = sync.OnceValue(func() (out []Source) {
	for _, r := range rows("sources.csv", 4) {
		out = append(out, Source{r[0], r[1], r[2], r[3]})
	}
	return out
})

// rows are the lines of an embedded file without its head. What is wrong with it is
// wrong in every copy of this program, so a test sees it.
func rows(name string, columns int) [][]string {
	f, err := files.Open(name)
	if err != nil {
		panic("boards: " + err.Error())
	}
	defer f.Close()
	r := csv.NewReader(f)
	r.FieldsPerRecord = columns
	lines, err := r.ReadAll()
	if err != nil || len(lines) < 2 {
		panic(fmt.Sprintf("boards: %s: %v", name, err))
	}
	return lines[1:]
}

// parsePort reads "2x2500@pcie sfp": count, Mbit/s, bus, form; all but the count may lack.
func parsePort(s string) (p Port, err error) {
	s, p.Form, _ = strings.Cut(s, " ")
	s, p.Bus, _ = strings.Cut(s, "@")
	count, speed, fast := strings.Cut(s, "x")
	p.Count, err = strconv.Atoi(count)
	if err == nil && fast {
		p.Speed, err = strconv.ParseFloat(speed, 64)
		p.Speed *= 1e6
	}
	if err != nil || p.Count < 0 || fast && !(p.Speed >= 10e6 && p.Speed <= 100e9) ||
		!slices.Contains([]string{"", "soc", "switch", "pcie", "usb2", "usb3"}, p.Bus) || !slices.Contains([]string{"", "sfp", "sfp+"}, p.Form) {
		return p, fmt.Errorf("%q is no group of ports", s)
	}
	return p, nil
}

// parsePrice reads "59.9 USD 2024".
func parsePrice(s string) (p Price, err error) {
	if n, err := fmt.Sscanf(s, "%g %s %d", &p.Amount, &p.Currency, &p.Year); n != 3 || err != nil || !(p.Amount > 0) || math.IsInf(p.Amount, 0) || len(p.Currency) != 3 || p.Year < 2000 || p.Year > 2100 {
		return p, fmt.Errorf("%q is no price: want such as 59.9 USD 2024", s)
	}
	return p, nil
}

func portText(s string) error { _, err := parsePort(s); return err }

func priceText(s string) error { _, err := parsePrice(s); return err }

func coresText(s string) error {
	count, kind, _ := strings.Cut(s, " ")
	if n, err := strconv.Atoi(count); err != nil || n < 1 || n > 512 || kind == "" {
		return fmt.Errorf("%q is no number and kind of cores", s)
	}
	return nil
}

func word(s string) error {
	if s == "" || strings.TrimSpace(s) != s {
		return fmt.Errorf("%q is no word", s)
	}
	return nil
}

func oneOf(words ...string) func(string) error {
	return func(s string) error {
		if !slices.Contains(words, s) {
			return fmt.Errorf("%q is none of %s", s, strings.Join(words, ", "))
		}
		return nil
	}
}

func number(least, most float64) func(string) error {
	return func(s string) error {
		if v, err := strconv.ParseFloat(s, 64); err != nil || !(v >= least && v <= most) {
			return fmt.Errorf("%q is no number from %g to %g", s, least, most)
		}
		return nil
	}
}

// date is a year, and a month where that is known: "2034", "2025-10".
func date(s string) error {
	year, month, precise := strings.Cut(s, "-")
	y, err := strconv.Atoi(year)
	m := 1
	if err == nil && precise {
		m, err = strconv.Atoi(month)
	}
	if err != nil || y < 2000 || y > 2100 || m < 1 || m > 12 {
		return fmt.Errorf("%q is no year or month", s)
	}
	return nil
}

// Model returns the board whose name a machine's model begins with, the longest of them:
// "Raspberry Pi 5 Model B Rev 1.0" is a Raspberry Pi 5. A board without ID is none.
func Model(model string) (found Board) {
	if b, ok := Identify(nil, model); ok {
		return b
	}
	model = plus(model)
	for _, b := range all() {
		name := plus(b.Name)
		if strings.HasPrefix(model+" ", name+" ") && len(b.Name) > len(found.Name) {
			found = b
		}
	}
	return found
}

// plus is a name in small letters, with one spelling of a plus.
func plus(name string) string {
	return strings.ReplaceAll(strings.ToLower(strings.Join(strings.Fields(name), " ")), " plus", "+")
}
