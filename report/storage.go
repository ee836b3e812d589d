// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"strings"

	"boxdyno/result"
)

var storagePatterns = []struct {
	name, figure string
	random       bool
}{
	{"write", "write_octet_rate", false}, {"read", "read_octet_rate", false},
	{"randwrite", "randwrite_iops", true}, {"randread", "randread_iops", true},
}

func storageOf(m *measured) Block {
	at := m.row.at
	s := set[Storage](m)
	s.Bits, s.Patterns = strings.TrimPrefix(m.get("key_size"), "0"), []StoragePattern{}
	for _, t := range of(m.trials, m.repeats) {
		s.Spec = cmp.Or(result.Get(t.Config, "cipher_spec"), s.Spec)
		s.Bits = cmp.Or(result.Get(t.Config, "key_bits"), s.Bits)
		if fio := result.Get(t.Config, "fio"); fio != "" {
			s.Programs = fio + ", cryptsetup " + result.Get(t.Config, "cryptsetup")
		}
	}
	if v := at(knownAnswer); v != nil {
		s.Proven = new(v.Value == 1)
	}
	for _, k := range storagePatterns {
		x := StoragePattern{Pattern: k.name, Unit: "B/s", Plain: at("plain_" + k.figure), LUKS2: at("luks2_" + k.figure), Share: at("luks2_" + k.name + "_share")}
		if k.random {
			x.Unit, x.PlainP99, x.LUKS2P99 = "1/s", at("plain_"+k.name+"_p99_s"), at("luks2_"+k.name+"_p99_s")
		}
		if x.Plain != nil || x.LUKS2 != nil {
			s.Patterns = append(s.Patterns, x)
		}
	}
	return s
}

// pattern is fio's of that name; nil where it was not measured.
func (s *Storage) pattern(name string) *StoragePattern {
	for i := range s.Patterns {
		if s.Patterns[i].Pattern == name && s.Patterns[i].LUKS2 != nil {
			return &s.Patterns[i]
		}
	}
	return nil
}

func (s *Storage) what() string {
	if s.Bits != "" {
		return s.Cipher + ", " + s.Bits + " bits"
	}
	return s.Cipher
}

func (s *Storage) name(*Row, []string) []string {
	return []string{storageProcedure, s.Device, s.what()}
}

func (s *Storage) summary(r *Row) (name, text string, whole bool) { return r.Name, s.text(), true }

// text is the row in a sentence's second half; "" where nothing was measured.
func (s *Storage) text() string {
	var parts []string
	for _, k := range []struct{ pattern, words string }{{"write", "written"}, {"read", "read"}} {
		if x := s.pattern(k.pattern); x != nil {
			text := x.LUKS2.si("B/s") + " " + k.words + " through dm-crypt"
			if x.Share != nil {
				text += " (" + x.Share.share() + " of what the disk does without)"
			}
			parts = append(parts, text)
		}
	}
	return strings.Join(parts, ", ")
}

func (*Storage) tail(*Row) string { return "" }

func (*Storage) order(x, y *Row) int {
	a, b := both[*Storage](x, y)
	return cmp.Or(strings.Compare(a.Device, b.Device), strings.Compare(a.Cipher, b.Cipher), strings.Compare(a.Bits, b.Bits))
}

func (s *Storage) remarks(*Row) (out []string) {
	if s.Proven != nil && !*s.Proven {
		out = append(out, "the disk was seen not to hold the text, and to give it back: boxdyno cannot compute this cipher itself")
	}
	if s.Bits != "" {
		out = append(out, "a key of "+s.Bits+" bits")
	}
	if s.Programs != "" {
		out = append(out, s.Programs)
	}
	return out
}
