// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"boxdyno/internal/cli"
	"boxdyno/lab"
	"boxdyno/procedure"
	"boxdyno/procedure/catalog"
	"boxdyno/result"
	"boxdyno/runner"
)

// byCode returns the rows of the tables in text by each name in their first cell.
func byCode(t testing.TB, where, text string) map[string][]string {
	t.Helper()
	rows := map[string][]string{}
	for _, cells := range tables(text) {
		names := codes(cells[0])
		if len(names) == 0 {
			t.Fatalf("%s: the row %q does not begin with a name", where, cells)
		}
		for _, name := range names {
			if rows[name] != nil {
				t.Fatalf("%s: %s has two rows", where, name)
			}
			rows[name] = cells
		}
	}
	for _, m := range sharedRows.FindAllStringSubmatch(text, -1) {
		there := named(t, "docs/"+m[2]).under(t, m[3])
		for _, name := range codes(m[1]) {
			i := slices.IndexFunc(there, func(cells []string) bool { return slices.Contains(codes(cells[0]), name) })
			if i < 0 || rows[name] != nil {
				t.Fatalf("%s: %s has no row in %s, or one here, too", where, name, m[2])
			}
			rows[name] = there[i]
		}
	}
	if m := allRows.FindStringSubmatch(text); m != nil {
		for _, cells := range named(t, "docs/"+m[1]).under(t, m[2]) {
			for _, name := range codes(cells[0]) {
				if rows[name] != nil {
					t.Fatalf("%s: %s has a row here and in %s", where, name, m[1])
				}
				rows[name] = cells
			}
		}
	}
	return rows
}

// A paragraph "All are those of" another page stands for all of that page's rows.
var allRows = regexp.MustCompile(`(?m)^All are those of \[[^]]*\]\(([\w-]+\.md)#([\w-]+)\)\.$`)

// A paragraph of names "are those of", or "is that of", another page stands for that page's rows.
var sharedRows = regexp.MustCompile("(?m)^(`.*) (?:are those|is that) of \\[[^]]*\\]\\(([\\w-]+\\.md)#([\\w-]+)\\)")

// under returns the rows of the tables under the heading of an anchor.
func (p page) under(t testing.TB, anchor string) [][]string {
	t.Helper()
	i := slices.Index(p.anchors(), anchor)
	if i < 0 {
		t.Fatalf("%s has no heading #%s", p.name, anchor)
	}
	return tables(p.section(t, heading.FindAllStringSubmatch(p.prose, -1)[i][1]))
}

func sameNames(t testing.TB, where string, rows map[string][]string, want []string) {
	t.Helper()
	slices.Sort(want)
	if got := slices.Sorted(maps.Keys(rows)); !slices.Equal(got, want) {
		t.Errorf("%s has %v, and the code %v", where, got, want)
	}
}

// sameParameters compares rows of name, default, meaning with what the code
// declares. A text with the command that prints all of them needs no row for each.
func sameParameters(t testing.TB, where, text, list string, params []runner.Param) {
	t.Helper()
	some := strings.Contains(text, "`"+list+"`")
	rows := byCode(t, where, text)
	var names []string
	for _, p := range params {
		if p.Help == "" {
			t.Errorf("%s: %s says nothing of %s", where, list, p.Name)
		}
		cells := rows[p.Name]
		if cells == nil && some {
			continue
		}
		names = append(names, p.Name)
		if cells == nil {
			continue // sameNames tells
		}
		if got := strings.Trim(cells[1], "`"); got != p.Default {
			t.Errorf("%s: %s is by default %q, not %q", where, p.Name, p.Default, got)
		}
		for _, v := range p.Values {
			if !some && !slices.Contains(codes(cells[2]), v) {
				t.Errorf("%s: %s can be %s, and the row does not say so", where, p.Name, v)
			}
		}
	}
	sameNames(t, where, rows, names)
}

// A paragraph "The others are those of" other pages stands for rows of these pages.
var otherRows = regexp.MustCompile(`(?m)^The others are those of (.*)\.$`)

// addOthers adds the rows of wanted names that text leaves to other pages.
func addOthers(t testing.TB, rows map[string][]string, text string, wanted []string) {
	t.Helper()
	m := otherRows.FindStringSubmatch(text)
	if m == nil {
		return
	}
	for _, l := range link.FindAllStringSubmatch(m[1], -1) {
		file, anchor, _ := strings.Cut(l[1], "#")
		for _, cells := range named(t, "docs/"+file).under(t, anchor) {
			for _, name := range codes(cells[0]) {
				if rows[name] == nil && slices.Contains(wanted, name) {
					rows[name] = cells
				}
			}
		}
	}
}

func TestProcedures(t *testing.T) {
	for _, spec := range catalog.All {
		procedurePage(t, named(t, "docs/"+spec.Name+".md"), spec)
	}
}

// procedurePage compares a page's parameters and figures with what the procedure declares.
func procedurePage(t testing.TB, p page, spec procedure.Spec) {
	t.Helper()
	sameParameters(t, p.name, p.section(t, "Parameters"), "boxdyno list procedures "+spec.Name, runner.Params(spec.New()))
	where := p.name + ", Figures"
	text := p.section(t, "Figures")
	rows := byCode(t, where, text)
	var names []string
	for _, m := range spec.Metrics {
		names = append(names, m.Name)
	}
	addOthers(t, rows, text, names)
	for _, m := range spec.Metrics {
		if cells := rows[m.Name]; cells != nil && cells[1] != string(m.Unit) {
			t.Errorf("%s: the unit of %s is %s, not %s", where, m.Name, m.Unit, cells[1])
		}
	}
	sameNames(t, where, rows, names)
}

func TestTopologies(t *testing.T) {
	shared := named(t, "docs/sandbox.md")
	var titles []string
	for _, spec := range lab.All {
		p, title := shared, "Topology `"+spec.Name+"`"
		if own := "docs/" + spec.Name + ".md"; slices.ContainsFunc(pages(t), func(p page) bool { return p.name == own }) {
			p = named(t, own) // a page of its own
		}
		titles = append(titles, title)
		text := p.section(t, title)
		if next := heading.FindStringIndex(text); next != nil {
			text = text[:next[0]]
		}
		sameParameters(t, p.name+", "+title, text, "boxdyno list topologies "+spec.Name, runner.Params(spec.New()))
	}
	for _, p := range pages(t) {
		for _, m := range heading.FindAllStringSubmatch(p.prose, -1) {
			if strings.HasPrefix(m[1], "Topology") && !slices.Contains(titles, m[1]) {
				t.Errorf("%s has %s, which does not exist", p.name, m[1])
			}
		}
	}
}

func TestServices(t *testing.T) {
	p := named(t, "docs/forward.md")
	sameNames(t, p.name+", Services", byCode(t, p.name, p.section(t, "Services")), slices.Clone(lab.Services))
}

func TestRoles(t *testing.T) {
	shared := named(t, "docs/forward.md")
	roles, err := runner.Roles()
	if err != nil || len(roles) == 0 {
		t.Fatal(roles, err)
	}
	for _, r := range roles {
		p := shared
		if own := "docs/" + r.Name + ".md"; slices.ContainsFunc(pages(t), func(p page) bool { return p.name == own }) {
			p = named(t, own) // a page of its own
		}
		text := p.section(t, "Role `"+r.Name+"`")
		for _, c := range r.Criteria("standard") {
			if !strings.Contains(text, c.Text) {
				t.Errorf("%s: role %s asks for %q, and its section does not say so", p.name, r.Name, c.Text)
			}
		}
	}
}

var spaced = regexp.MustCompile(`([0-9.]+)(m?s)`)

// The times of the preset quick are those that a run takes, the self-test's are
// those that it announces.
func TestPresets(t *testing.T) {
	p := named(t, "docs/forward.md")
	want := map[string]string{}
	for _, cells := range tables(p.section(t, "Presets")) {
		want[cells[0]] = cells[1]
	}
	dir := t.TempDir()
	var out bytes.Buffer
	if code := cli.Main(t.Context(), []string{"run", "forward", "--lab", "mem", "--set", "queue=16", "--quick", "--out", dir, "--quiet"}, &out, &out); code != 0 {
		t.Fatalf("exit code %d: %s", code, out.Bytes())
	}
	_, recs, err := result.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	count, length := map[string]int{}, map[string]string{}
	for _, r := range recs {
		kind := result.Get(r.Config, "trial")
		count[kind]++
		length[kind] = spaced.ReplaceAllString(result.Get(r.Config, "duration"), "$1 $2")
	}
	for _, kind := range []string{"warm-up", "overload", "latency"} {
		got := length[kind]
		if count[kind] > 1 {
			got = fmt.Sprintf("%d x %s", count[kind], got)
		}
		if got != want[kind] {
			t.Errorf("%s: %s with preset quick is %q, not %q", p.name, kind, got, want[kind])
		}
	}

	i := slices.IndexFunc(catalog.All, func(s procedure.Spec) bool { return s.Name == "self-test" })
	self := named(t, "docs/self-test.md").section(t, "Parameters")
	for column, preset := range runner.Presets {
		s := catalog.All[i].New()
		flags := flag.NewFlagSet("", flag.ContinueOnError)
		s.Flags(flags)
		if err := flags.Set("preset", preset); err != nil {
			t.Fatal(err)
		}
		_, d := s.Estimate()
		got := strconv.FormatFloat(d.Round(time.Millisecond).Seconds(), 'f', -1, 64) + " s"
		cells := tables(p.section(t, "Presets"))
		if cells[0][0] != "self-test" || cells[0][column+1] != got || !strings.Contains(self, "`"+preset+"` "+got) {
			t.Errorf("the self-test with preset %s takes %s, and docs/forward.md or docs/self-test.md says otherwise", preset, got)
		}
	}
}

func TestExitCodes(t *testing.T) {
	p := named(t, "README.md")
	var out bytes.Buffer
	if code := cli.Main(t.Context(), []string{"help", "exit-codes"}, &out, &out); code != 0 {
		t.Fatalf("exit code %d: %s", code, out.Bytes())
	}
	said, last, _ := strings.Cut(out.String(), "\n\n")
	var want []string
	for line := range strings.Lines(said) {
		code, meaning, _ := strings.Cut(line, " ")
		want = append(want, code+" "+strings.TrimSpace(meaning))
	}
	var got []string
	text := p.section(t, "Exit codes")
	for _, cells := range tables(text) {
		got = append(got, strings.Join(cells, " "))
	}
	if len(want) < 5 || !slices.Equal(got, want) || !strings.Contains(text, strings.TrimSpace(last)) {
		t.Errorf("README.md says\n%s\nand boxdyno\n%s", strings.Join(got, "\n"), out.Bytes())
	}
}

// The table of packages has every package of the tree.
func TestPackages(t *testing.T) {
	p := named(t, "docs/architecture.md")
	tree := map[string]bool{}
	err := filepath.WalkDir(root(t), func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && (d.Name() == "node_modules" || d.Name() == "testdata" || d.Name() == "proof" || d.Name() == "packages" || strings.HasPrefix(d.Name(), ".")) {
			return filepath.SkipDir
		}
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		rel, err := filepath.Rel(root(t), filepath.Dir(path))
		tree[filepath.ToSlash(rel)] = true
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	sameNames(t, p.name+", Packages", byCode(t, p.name, p.section(t, "Packages")), slices.Collect(maps.Keys(tree)))
}

// literals are the composite literals of a file that have a field counter, as
// their fields' text; a constant of the file is its value.
func literals(t *testing.T, file string) (all []map[string]string) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root(t), file), nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	constants := map[string]string{}
	ast.Inspect(f, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok && len(v.Names) == len(v.Values) {
			for i, value := range v.Values {
				if text, ok := value.(*ast.BasicLit); ok && text.Kind == token.STRING {
					constants[v.Names[i].Name], _ = strconv.Unquote(text.Value)
				}
			}
		}
		lit, ok := n.(*ast.CompositeLit)
		if !ok {
			return true
		}
		fields := map[string]string{}
		for _, e := range lit.Elts {
			kv, ok := e.(*ast.KeyValueExpr)
			if !ok {
				continue
			}
			key, ok := kv.Key.(*ast.Ident)
			if !ok {
				continue
			}
			switch v := kv.Value.(type) {
			case *ast.BasicLit:
				fields[key.Name], _ = strconv.Unquote(v.Value) // a string
			case *ast.SelectorExpr:
				fields[key.Name] = v.Sel.Name
			case *ast.Ident:
				fields[key.Name] = cmp.Or(constants[v.Name], v.Name)
			}
		}
		if fields["counter"] != "" {
			all = append(all, fields)
		}
		return true
	})
	return all
}

// placeNames are the words for result's constants.
func placeNames(t *testing.T) map[string]string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root(t), "result/account.go"))
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]string{}
	for _, m := range regexp.MustCompile(`(\w+)\s+Place = "([^"]+)"`).FindAllStringSubmatch(string(data), -1) {
		names[m[1]] = m[2]
	}
	if len(names) != len(result.Places) {
		t.Fatalf("%d places in the sources, %d in result.Places", len(names), len(result.Places))
	}
	return names
}

// The ledger's page has every term of the dictionary under its place, name and
// counter, and no other.
func TestLedgerTerms(t *testing.T) {
	p := named(t, "docs/ledger.md")
	rows := tables(p.section(t, "Terms"))
	// Terms that the dictionary makes otherwise.
	known := map[string]bool{"meter overrun": true, "nft drop (...)": true}
	places := placeNames(t)
	terms := literals(t, "ledger/dictionary.go")
	if len(terms) < 40 {
		t.Fatalf("%d terms in ledger/dictionary.go: are they still recognised?", len(terms))
	}
	has := func(place, name, counter string, passed bool) {
		t.Helper()
		known[name] = true
		if !slices.ContainsFunc(rows, func(c []string) bool {
			return c[0] == place && c[1] == name && slices.Contains(codes(c[2]), counter) && strings.Contains(c[2], "checkpoint") == passed
		}) {
			t.Errorf("%s: no row for %q, %q, %q (a checkpoint: %v)", p.name, place, name, counter, passed)
		}
	}
	for _, f := range terms {
		place := "the port's"
		if f["place"] != "" {
			place = places[f["place"]]
		}
		has(place, f["name"], f["counter"], f["passed"] == "true")
		if f["far"] != "" {
			has("meter", f["far"], f["counter"], false)
		}
	}
	for _, c := range rows {
		if !known[c[1]] {
			t.Errorf("%s: the term %q is not in ledger/dictionary.go", p.name, c[1])
		}
	}
}
