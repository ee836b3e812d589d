// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	mostWords   = 40 // of a sentence
	mostInDocs  = 35 // of a sentence in docs/
	medianWords = 18 // of a page's sentences
)

var (
	comment   = regexp.MustCompile(`(?s)<!--.*?-->`)
	image     = regexp.MustCompile(`!\[[^\]]*\]\([^)]*\)`)
	target    = regexp.MustCompile(`\]\([^)]*\)`)
	item      = regexp.MustCompile(`^\s*([-*+]|\d+\.)\s`)
	endOf     = regexp.MustCompile(`[.!?][)"*_]*(\s|$)`)
	shortened = regexp.MustCompile(`\b(e\.g|i\.e|etc|vs|[Nn]o|[Ff]ig|[Ss]ec)\. `)
)

// sentences returns the sentences of a page's prose. Code, tables, headings and the
// targets of links are left out. A span of code is one word. A list item is a paragraph.
func sentences(prose string) (all []string) {
	prose = comment.ReplaceAllString(prose, "")
	prose = image.ReplaceAllString(prose, "")
	prose = target.ReplaceAllString(prose, "]")
	prose = span.ReplaceAllString(prose, "code")
	prose = shortened.ReplaceAllString(prose, "$1 ")
	paragraph := ""
	end := func() {
		for paragraph != "" {
			at := endOf.FindStringIndex(paragraph)
			if at == nil {
				at = []int{0, len(paragraph)}
			}
			if s := strings.TrimSpace(paragraph[:at[1]]); s != "" {
				all = append(all, s)
			}
			paragraph = paragraph[at[1]:]
		}
	}
	for line := range strings.Lines(prose) {
		line = strings.TrimRight(line, "\n")
		switch text := strings.TrimSpace(line); {
		case text == "", strings.HasPrefix(text, "#"), strings.HasPrefix(text, "|"):
			end()
		case item.MatchString(line):
			end()
			paragraph = item.ReplaceAllString(line, "")
		default:
			paragraph += " " + text
		}
	}
	end()
	return all
}

// wordCount counts what a reader reads: a number, a name and an abbreviation are a word each.
func wordCount(sentence string) int {
	n := 0
	for _, w := range strings.Fields(sentence) {
		if strings.ContainsFunc(w, func(r rune) bool { return r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' }) {
			n++
		}
	}
	return n
}

// unwieldy returns what is wrong with a text: its long sentences and its median.
func unwieldy(prose string, most int) (long []string, median int) {
	var lengths []int
	for _, s := range sentences(prose) {
		n := wordCount(s)
		if n == 0 {
			continue
		}
		lengths = append(lengths, n)
		if n > most {
			long = append(long, s)
		}
	}
	if len(lengths) == 0 {
		return nil, 0
	}
	slices.Sort(lengths)
	return long, lengths[len(lengths)/2]
}

// No sentence of a page is longer than a reader can hold, and half of them are short.
func TestSentences(t *testing.T) {
	for _, p := range pages(t) {
		most := mostWords
		if strings.HasPrefix(p.name, "docs/") {
			most = mostInDocs
		}
		long, median := unwieldy(p.prose, most)
		for _, s := range long {
			t.Errorf("%s: a sentence of %d words, at most %d: %s", p.name, wordCount(s), most, s)
		}
		if median > medianWords {
			t.Errorf("%s: half of the sentences have %d words or more, at most %d", p.name, median, medianWords)
		}
	}
}

func TestSentencesAreFound(t *testing.T) {
	long := strings.Repeat("word ", 41)
	for _, c := range []struct {
		prose        string
		n, long, mid int
	}{
		{"One two. Three four five!\n\n- An item\n  goes on.\n- Another `a b c` one, e.g. this\n", 4, 0, 4},
		{"# A heading\n\n| a | table |\n|---|---|\n| x | y |\n", 0, 0, 0},
		{long + "\n", 1, 1, 41},
		{"A [link](https://example.org/a.b/c) here: and <!-- a comment. --> on.\n", 1, 0, 5},
	} {
		found := sentences(c.prose)
		l, mid := unwieldy(c.prose, mostWords)
		if len(found) != c.n || len(l) != c.long || mid != c.mid {
			t.Errorf("%q: %q, %d long, median %d; want %d, %d, %d", c.prose, found, len(l), mid, c.n, c.long, c.mid)
		}
	}
}
