// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"boxdyno/reference"
	"boxdyno/result"
)

func cryptoOf(m *measured) Block {
	c := set[Crypto](m)
	c.Block = strings.TrimPrefix(c.Block, "0")
	for _, t := range m.own() {
		c.Driver = cmp.Or(result.Get(t.Config, "driver"), c.Driver)
		c.Features = cmp.Or(result.Get(t.Config, "cpu_features"), c.Features)
		c.Proven = cmp.Or(result.Get(t.Config, "known_answer"), c.Proven)
	}
	if m.row.at(encryptRate) != nil || m.row.at(decryptRate) != nil {
		c.Published = publishedCiphers(c.Cipher)
	}
	return c
}

// publishedCiphers are a cipher's figures of cryptsetup's benchmark on boxes of one node:
// those of the study, and of the raw results behind it what the study leaves out.
func publishedCiphers(cipher string) (out []PublishedCipher) {
	for _, source := range []string{"hawthorne2020", "stackframe46", "cryptopi-raw"} {
		for _, p := range publishedIn(cipher, source) {
			i := slices.IndexFunc(out, p.repeats)
			if i < 0 {
				out = append(out, p)
				continue
			}
			if q := &out[i]; q.Encrypt == nil && p.Encrypt != nil || q.Decrypt == nil && p.Decrypt != nil {
				q.Encrypt, q.Decrypt = cmp.Or(q.Encrypt, p.Encrypt), cmp.Or(q.Decrypt, p.Decrypt)
				q.Said += "; " + p.Said
			}
		}
	}
	return out
}

// repeats says whether p is of o's box, or is o's figures with the box's system named too.
func (p PublishedCipher) repeats(o PublishedCipher) bool {
	same := func(a, b *float64) bool { return a != nil && b != nil && *a == *b }
	return p.Box == o.Box || strings.HasPrefix(p.Box, o.Box+" (") && same(p.Encrypt, o.Encrypt) && same(p.Decrypt, o.Decrypt)
}

func publishedIn(cipher, source string) (out []PublishedCipher) {
	for _, f := range reference.Of("", "", reference.Level{Factor: "algorithm", Value: cipher}) {
		if f.Unit != "MiB/s" || f.Metric != cipherThroughput || f.Source != source {
			continue
		}
		if strings.Contains(f.Note, "nodes=") && !strings.Contains(f.Note+";", "nodes=1;") {
			continue
		}
		where := f.Source
		if s, ok := reference.SourceOf(f.Source); ok {
			where = s.Where
		}
		i := slices.IndexFunc(out, func(p PublishedCipher) bool { return p.Box == f.Subject })
		if i < 0 {
			i = len(out)
			out = append(out, PublishedCipher{Box: f.Subject, Said: joined(where, strings.TrimPrefix(f.Said(), where+"; "))})
		}
		v := new(f.Value * (1 << 20))
		switch f.Level("direction") {
		case "encrypt":
			out[i].Encrypt = cmp.Or(out[i].Encrypt, v)
		case "decrypt":
			out[i].Decrypt = cmp.Or(out[i].Decrypt, v)
		}
	}
	return out
}

// publishedCPU is what the study says of a box's processor; "" where it says nothing.
func publishedCPU(box string) string {
	var words []string
	for _, f := range reference.Of("", box) {
		switch f.Metric {
		case "cores", "core_speed":
			words = append(words, strconv.FormatFloat(f.Value, 'f', -1, 64)+" "+f.Unit)
		case "aes_instructions":
			words = append(words, []string{"no AES", "AES"}[min(int(f.Value), 1)])
		}
	}
	return strings.Join(words, ", ")
}

// order puts the paths of a cipher side by side.
func (*Crypto) order(x, y *Row) int {
	a, b := both[*Crypto](x, y)
	paths := []string{"af-alg", "cryptsetup", "openssl", "botan"}
	return cmp.Or(strings.Compare(a.Cipher, b.Cipher), cmp.Compare(index(paths, a.Path), index(paths, b.Path)), strings.Compare(a.Parallel, b.Parallel), strings.Compare(a.Block, b.Block))
}

// words are the row's, without the procedure's name.
func (c *Crypto) words() (words []string) {
	words = []string{c.Cipher, c.Path}
	if c.Parallel != "1" {
		words = append(words, "parallel "+c.Parallel)
	}
	if c.Block != "" {
		words = append(words, "block "+c.Block)
	}
	return words
}

func (c *Crypto) name(*Row, []string) []string {
	return append([]string{cryptoProcedure}, c.words()...)
}

func (c *Crypto) summary(r *Row) (name, text string, whole bool) {
	var parts []string
	for _, x := range cipherWords {
		switch f := r.at(x.Key); {
		case f == nil:
		case x.Key == encryptRate || x.Key == decryptRate:
			parts = append(parts, mebi(f)+" MiB/s "+x.Value)
		default:
			parts = append(parts, strings.TrimSpace(f.si(""))+" "+x.Value)
		}
	}
	if len(parts) > 0 && c.Driver != "" {
		parts = append(parts, "by "+strings.ReplaceAll(c.Driver, "_", " "))
	}
	return r.Name, strings.Join(parts, ", "), true
}

// built is when a library was released, behind its version.
var built = regexp.MustCompile(` \d+ [A-Z][a-z]{2} \d{4}$`)

// computes is the driver or library and its version.
func (c *Crypto) computes() string {
	return built.ReplaceAllString(strings.ReplaceAll(c.Driver, "_", " "), "")
}

// mebi is a rate of octets in MiB/s, as cryptsetup has it.
func mebi(f *Figure) string {
	if f == nil {
		return "-"
	}
	return fmt.Sprintf("%.1f", f.Value/(1<<20))
}

// remarks are what computed it, and what its known answer was of.
func (c *Crypto) remarks(*Row) (out []string) {
	if c.Driver != "" {
		out = append(out, "computed by "+c.computes())
	}
	if c.Proven != "" && c.Proven != c.Cipher {
		out = append(out, "known answer: "+strings.ReplaceAll(c.Proven, "_", " "))
	}
	return out
}

// publishedCiphersTable has what was published of the rows' ciphers, each once.
func publishedCiphersTable(rows []Row) []Table {
	var out []tableRow
	shown := map[string]bool{}
	var metrics []result.Metric
	for r, c := range blocksOf[*Crypto](rows) {
		if shown[c.Cipher] {
			continue
		}
		shown[c.Cipher] = len(c.Published) > 0
		for _, p := range c.Published {
			figures := map[string]*Figure{}
			for i, v := range []*float64{p.Encrypt, p.Decrypt} {
				m := result.Metric{Name: []string{"encrypt", "decrypt"}[i], Label: []string{"encrypted", "decrypted"}[i], Unit: "B/s", Better: 1}
				if v != nil {
					figures[m.Name] = &Figure{Value: *v, N: 1}
				}
				if len(metrics) < 2 {
					metrics = append(metrics, m)
				}
			}
			out = append(out, tableRow{id: r.ID, config: []result.Pair{{Key: "cipher", Value: c.Cipher}, {Key: "box", Value: p.Box}, {Key: "its CPU", Value: cmp.Or(publishedCPU(p.Box), "-")}}, figures: figures, exact: []string{p.Said}})
		}
	}
	if len(out) == 0 {
		return nil
	}
	return []Table{makeTable("The same ciphers on other boxes, as published: one stream, by cryptsetup", metrics, []result.Axis{{Name: "cipher"}, {Name: "box"}, {Name: "its CPU"}}, out)}
}
