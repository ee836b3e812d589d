// SPDX-License-Identifier: Apache-2.0

package yaml

import (
	"fmt"
	"strings"
	"testing"
)

func show(n *Node) string {
	switch n.Kind {
	case Scalar:
		return n.Text
	case List:
		var s []string
		for _, e := range n.List {
			s = append(s, show(e))
		}
		return "[" + strings.Join(s, " ") + "]"
	case Map:
		var s []string
		for _, f := range n.Map {
			s = append(s, f.Key+":"+show(f.Value))
		}
		return "{" + strings.Join(s, " ") + "}"
	}
	return "-"
}

func TestParse(t *testing.T) {
	for in, want := range map[string]string{
		"":                              "-",
		"# only a comment\n":            "-",
		"a: 1\nb: [x, 'y z', 064]\n":    "{a:1 b:[x y z 064]}",
		"a:\n  - use: f\n    s: 64\n":   "{a:[{use:f s:64}]}",
		"a:\n- 1\n- 2\n":                "{a:[1 2]}",
		"{use: mem, loss: 0.1}":         "{use:mem loss:0.1}",
		`{"a": "b", "c": [1, 2.5]}`:     "{a:b c:[1 2.5]}",
		"a: true\nb: ~\nc: 1e9\nd: 1G":  "{a:true b:- c:1e9 d:1G}",
		"a: 1Gbps # a comment\n":        "{a:1Gbps}",
		"t: >-\n  one\n  two\nu: last":  "{t:one two u:last}",
		"a: 0x10\nb: 1_000\nc: .inf":    "{a:0x10 b:1_000 c:.inf}",
		"a: []\nb: {}\n":                "{a:[] b:{}}",
		"---\na: 1\n":                   "{a:1}",
		"text: \"a: quoted\\tthing\"\n": "{text:a: quoted\tthing}",
	} {
		n, err := Parse("f.yaml", []byte(in))
		if err != nil {
			t.Errorf("%q: %v", in, err)
			continue
		}
		if got := show(n); got != want {
			t.Errorf("%q reads as %s, want %s", in, got, want)
		}
	}
}

func TestPositions(t *testing.T) {
	n, err := Parse("f.yaml", []byte("lab: sandbox\nprocedures:\n  - use: forward\n    frame_size: [64, imix]\n"))
	if err != nil {
		t.Fatal(err)
	}
	entry := n.Get("procedures").List[0]
	for _, c := range []struct {
		got  fmt.Stringer
		want string
	}{
		{n.Map[1].Pos, "f.yaml:2:1"}, {entry.Pos, "f.yaml:3:5"}, {entry.Map[1].Pos, "f.yaml:4:5"},
		{entry.Get("frame_size").List[1].Pos, "f.yaml:4:22"},
	} {
		if c.got.String() != c.want {
			t.Errorf("position %s, want %s", c.got, c.want)
		}
	}
}

func TestRefusals(t *testing.T) {
	for in, want := range map[string]string{
		"a: 1\na: 2\n":             `f.yaml:2:1: `,
		"a: [1, 2\nb: 3\n":         "f.yaml:",
		"a: &x [1]\nb: *x\n":       "f.yaml:1:4: anchors and aliases",
		"a: !!int 3\n":             "f.yaml:1:4: tags",
		"a: 1\n---\nb: 2\n":        "f.yaml:3:1: a second document",
		"a:\n\tb: 1\n":             "f.yaml:2:",
		"? [a, b]\n: 1\n":          "f.yaml:1:1: a key",
		"<<: {a: 1}\n":             "f.yaml:1:1: tags, directives and merge keys",
		"a: 'x\n":                  "f.yaml:1:4: ",
		strings.Repeat("[", 5000):  "nested deeper",
		strings.Repeat("- ", 5000): "nested deeper",
		strings.Repeat("{a: ", 99): "nested deeper",
		strings.Repeat("x", 70000): "f.yaml: 70000 octets are more than",
	} {
		n, err := Parse("f.yaml", []byte(in))
		if err == nil {
			t.Errorf("%.40q is accepted as %s", in, show(n))
			continue
		}
		if msg := err.Error(); !strings.Contains(msg, want) || strings.ContainsAny(msg, "\n") {
			t.Errorf("%.40q: %q, want one line with %q", in, msg, want)
		}
	}
}

func TestHelpers(t *testing.T) {
	n, err := Parse("f.yaml", []byte("a: [1, {b: 2}]\nc: 3\n"))
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Only("a test", "a"); err == nil || err.Error() != `f.yaml:2:1: unknown key "c" in a test: there are a` {
		t.Errorf("Only: %v", err)
	}
	if _, err := n.Get("a").Texts("a"); err == nil || err.Error() != "f.yaml:1:9: an entry of a is a map, and must be a single value" {
		t.Errorf("Texts: %v", err)
	}
	if got, err := n.Get("c").Texts("c"); err != nil || len(got) != 1 || got[0] != "3" {
		t.Errorf("Texts of a scalar: %v %v", got, err)
	}
	if err := n.Get("c").Want(List, "c"); err == nil || err.Error() != "f.yaml:2:4: c is a single value, and must be a list" {
		t.Errorf("Want: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"a: 1", "a: [1, {b: c}]\n- x", "'", "a: |\n  x", "[[[[", "- - - x", "\x00", "a: &a *a", "? x"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		n, err := Parse("f", data)
		if err == nil {
			_ = show(n)
			return
		}
		if !strings.HasPrefix(err.Error(), "f:") {
			t.Errorf("%q: the error %q names no place", data, err)
		}
		if strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: the error %q has several lines", data, err)
		}
	})
}
