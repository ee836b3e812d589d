// SPDX-License-Identifier: Apache-2.0

// Package docs keeps the pages true: links lead somewhere, files that are named
// exist, tables say what the code says, commands run.
package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A page is one Markdown file.
type page struct {
	name   string // from the root of the tree
	text   string
	blocks []block // fenced
	prose  string  // the text without them
}

type block struct {
	lang  string
	lines []string
}

func root(t testing.TB) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func pages(t testing.TB) (all []page) {
	t.Helper()
	dir := root(t)
	names, _ := filepath.Glob(filepath.Join(dir, "*.md")) // the pattern is good
	more, _ := filepath.Glob(filepath.Join(dir, "docs", "*.md"))
	for _, name := range append(names, more...) {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		rel, err := filepath.Rel(dir, name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, parse(t, filepath.ToSlash(rel), string(data)))
	}
	if len(all) < 9 {
		t.Fatalf("%d pages in %s: is this the root of the tree?", len(all), dir)
	}
	return all
}

func parse(t testing.TB, name, text string) page {
	t.Helper()
	p := page{name: name, text: text}
	var open *block
	for line := range strings.Lines(text) {
		fence, isFence := strings.CutPrefix(strings.TrimSpace(line), "```")
		switch {
		case isFence && open == nil:
			open = &block{lang: fence}
		case isFence:
			p.blocks = append(p.blocks, *open)
			open = nil
		case open != nil:
			open.lines = append(open.lines, strings.TrimRight(line, "\n"))
		default:
			p.prose += line
		}
	}
	if open != nil {
		t.Errorf("%s: the last block of code does not end", name)
	}
	return p
}

func named(t testing.TB, name string) page {
	t.Helper()
	all := pages(t)
	i := slices.IndexFunc(all, func(p page) bool { return p.name == name })
	if i < 0 {
		t.Fatalf("there is no page %s", name)
	}
	return all[i]
}

var heading = regexp.MustCompile(`(?m)^#+ (.*)$`)

// section is the prose under a heading, up to the next one of its level or above.
func (p page) section(t testing.TB, title string) string {
	t.Helper()
	at := regexp.MustCompile(`(?m)^(#+) ` + regexp.QuoteMeta(title) + `$`).FindStringSubmatchIndex(p.prose)
	if at == nil {
		t.Fatalf("%s has no section %q", p.name, title)
	}
	level := at[3] - at[2]
	rest := p.prose[at[1]:]
	for _, next := range heading.FindAllStringIndex(rest, -1) {
		if strings.Index(rest[next[0]:], " ") <= level {
			return rest[:next[0]]
		}
	}
	return rest
}

// tables are the rows of all tables in a text, without their headings.
func tables(text string) (rows [][]string) {
	begun := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case !strings.HasPrefix(line, "|"):
			begun = false
		case strings.HasPrefix(line, "|---"):
			begun = true
		case begun:
			cells := strings.Split(strings.Trim(line, "|"), "|")
			for i := range cells {
				cells[i] = strings.TrimSpace(cells[i])
			}
			rows = append(rows, cells)
		}
	}
	return rows
}

var span = regexp.MustCompile("`([^`\n]+)`")

// codes are the spans of code in a text.
func codes(text string) (all []string) {
	for _, m := range span.FindAllStringSubmatch(text, -1) {
		all = append(all, m[1])
	}
	return all
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	notSlug = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// anchors are those that a heading gets where the pages are shown.
func (p page) anchors() (all []string) {
	for _, m := range heading.FindAllStringSubmatch(p.prose, -1) {
		slug := notSlug.ReplaceAllString(strings.ToLower(m[1]), "")
		all = append(all, strings.ReplaceAll(slug, " ", "-"))
	}
	return all
}

func TestLinks(t *testing.T) {
	all := pages(t)
	for _, p := range all {
		for _, m := range link.FindAllStringSubmatch(p.prose, -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			file, anchor, _ := strings.Cut(m[1], "#")
			target := p.name
			if file != "" {
				target = filepath.ToSlash(filepath.Join(filepath.Dir(p.name), file))
			}
			if _, err := os.Stat(filepath.Join(root(t), target)); err != nil {
				t.Errorf("%s: the link %s leads nowhere: %v", p.name, m[1], err)
				continue
			}
			if anchor == "" {
				continue
			}
			i := slices.IndexFunc(all, func(q page) bool { return q.name == target })
			if i < 0 || !slices.Contains(all[i].anchors(), anchor) {
				t.Errorf("%s: the link %s: %s has no such heading", p.name, m[1], target)
			}
		}
	}
}

// A span of code that begins with a folder of the tree is a file, or a pattern
// in which NAME stands for some.
func TestFilesThatAreNamedExist(t *testing.T) {
	entries, err := os.ReadDir(root(t))
	if err != nil {
		t.Fatal(err)
	}
	var folders []string
	for _, e := range entries {
		if e.IsDir() {
			folders = append(folders, e.Name())
		}
	}
	seen := 0
	for _, p := range pages(t) {
		for _, code := range codes(p.prose) {
			folder, _, isPath := strings.Cut(code, "/")
			if !isPath || strings.Contains(code, " ") || !slices.Contains(folders, folder) {
				continue
			}
			seen++
			pattern := filepath.Join(root(t), strings.ReplaceAll(code, "NAME", "*"))
			if found, err := filepath.Glob(pattern); err != nil || len(found) == 0 {
				t.Errorf("%s names %s, which does not exist (%v)", p.name, code, err)
			}
		}
	}
	if seen < 30 {
		t.Errorf("%d files are named on all pages: are they still recognised?", seen)
	}
}

// The README shows what a real run printed, and its page.
func TestREADMEShowsOutput(t *testing.T) {
	text := named(t, "README.md").text
	_, rest, ok := strings.Cut(text, "<!-- output:begin -->")
	shown, _, end := strings.Cut(rest, "<!-- output:end -->")
	if !ok || !end {
		t.Fatal("README.md has no place for the output: <!-- output:begin --> and <!-- output:end -->")
	}
	for _, want := range []string{"```", "qualify sensor --quick", " Mbit/s asked", "unexplained", "](docs/page.png)"} {
		if !strings.Contains(shown, want) {
			t.Errorf("README.md shows no %q between its marks: put a real run's text and the picture of its page there", want)
		}
	}
}
