// SPDX-License-Identifier: Apache-2.0

// Package yaml reads the part of YAML (and so all of JSON) that files written by
// hand need: maps, lists and scalars. Every node knows its place, so that a
// wrong value is reported with file, line and column. Anchors, aliases, tags,
// merge keys, directives and several documents are refused: no file of ours
// needs them, and with aliases a short file can grow without bound.
package yaml

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	goyaml "github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// The limits of a file; one that is larger or nested deeper is refused.
const (
	MaxSize  = 64 << 10 // octets
	MaxDepth = 16       // maps and lists within each other
)

// A Pos is a place in a file.
type Pos struct {
	File         string
	Line, Column int // from 1; 0: the whole file
}

func (p Pos) String() string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
}

// Errorf is an error at p: "plan.yaml:3:5: ...".
func (p Pos) Errorf(format string, args ...any) error {
	return fmt.Errorf("%s: "+format, append([]any{p}, args...)...)
}

// A Kind says which of its fields a Node uses.
type Kind int

const (
	Null Kind = iota
	Scalar
	List
	Map
)

func (k Kind) String() string {
	return [...]string{"nothing", "a single value", "a list", "a map"}[k]
}

// A Node is one value of a file.
type Node struct {
	Pos
	Kind Kind
	Text string  // Scalar: as it is written, without quotes: 064 stays "064"
	List []*Node // List
	Map  []Field // Map, in the file's order; keys are unique
}

// A Field is one key of a map with its value.
type Field struct {
	Pos
	Key   string
	Value *Node
}

// Get is the value of key, nil where there is none.
func (n *Node) Get(key string) *Node {
	for _, f := range n.Map {
		if f.Key == key {
			return f.Value
		}
	}
	return nil
}

// Want is an error unless the node is of kind k; what names the node in it.
func (n *Node) Want(k Kind, what string) error {
	if n.Kind != k {
		return n.Errorf("%s is %s, and must be %s", what, n.Kind, k)
	}
	return nil
}

// Only is an error at the first key that is not among keys.
func (n *Node) Only(what string, keys ...string) error {
	for _, f := range n.Map {
		if !slices.Contains(keys, f.Key) {
			return f.Errorf("unknown key %q in %s: there are %s", f.Key, what, strings.Join(keys, ", "))
		}
	}
	return nil
}

// Texts is the text of a scalar, or of each scalar of a list.
func (n *Node) Texts(what string) ([]string, error) {
	switch n.Kind {
	case Scalar:
		return []string{n.Text}, nil
	case List:
		var out []string
		for _, e := range n.List {
			if err := e.Want(Scalar, "an entry of "+what); err != nil {
				return nil, err
			}
			out = append(out, e.Text)
		}
		return out, nil
	}
	return nil, n.Errorf("%s is %s, and must be a value or a list of values", what, n.Kind)
}

// Parse reads data; name stands in errors. An error is one sentence.
func Parse(name string, data []byte) (root *Node, err error) {
	at := Pos{File: name}
	if len(data) > MaxSize {
		return nil, at.Errorf("%d octets are more than the %d that such a file may have", len(data), MaxSize)
	}
	defer func() {
		if r := recover(); r != nil { // of the parser, on hostile input
			root, err = nil, at.Errorf("not readable as YAML: %v", r)
		}
	}()
	tokens := lexer.Tokenize(string(data))
	if err := vet(at, tokens); err != nil {
		return nil, err
	}
	file, err := parser.Parse(tokens, 0)
	if err != nil {
		var y goyaml.Error
		if errors.As(err, &y) && y.GetToken() != nil {
			return nil, pos(at, y.GetToken()).Errorf("%s", oneLine(y.GetMessage()))
		}
		return nil, at.Errorf("%s", oneLine(err.Error()))
	}
	var body ast.Node
	for _, d := range file.Docs {
		switch {
		case d.Body == nil:
		case body != nil:
			second, err := convert(at, d.Body)
			if err != nil {
				return nil, err
			}
			return nil, second.Errorf("a second document: one file holds one")
		default:
			body = d.Body
		}
	}
	if body == nil {
		return &Node{Pos: at}, nil
	}
	return convert(at, body)
}

// vet refuses what is not wanted, and nesting that could exhaust the parser,
// which is recursive.
func vet(at Pos, tokens token.Tokens) error {
	depth, line, onLine := 0, 0, 0
	for _, t := range tokens {
		p := pos(at, t)
		if p.Line != line {
			line, onLine = p.Line, 0
		}
		switch t.Type {
		case token.AnchorType, token.AliasType:
			return p.Errorf("anchors and aliases are not allowed here")
		case token.TagType, token.DirectiveType, token.MergeKeyType:
			return p.Errorf("tags, directives and merge keys are not allowed here")
		case token.MappingKeyType:
			return p.Errorf("a key that is not a plain word is not allowed here")
		case token.InvalidType:
			return p.Errorf("%s", oneLine(t.Error))
		case token.SequenceStartType, token.MappingStartType:
			depth++
		case token.SequenceEndType, token.MappingEndType:
			depth--
		case token.SequenceEntryType:
			onLine++
		}
		if depth > MaxDepth || onLine > MaxDepth || (t.Position != nil && t.Position.IndentNum > 16*MaxDepth) {
			return p.Errorf("nested deeper than %d maps and lists", MaxDepth)
		}
	}
	return nil
}

func pos(at Pos, t *token.Token) Pos {
	if t != nil && t.Position != nil {
		at.Line, at.Column = t.Position.Line, t.Position.Column
	}
	return at
}

func oneLine(s string) string {
	if s == "" {
		return "not readable as YAML"
	}
	s = strings.ReplaceAll(s, "character '\t'", "a tab, where only spaces may indent,") // else Fields would hide it
	return strings.Join(strings.Fields(s), " ")
}

func convert(at Pos, n ast.Node) (*Node, error) {
	p := pos(at, n.GetToken())
	out := &Node{Pos: p, Kind: Scalar}
	switch n := n.(type) {
	case *ast.NullNode:
		out.Kind = Null
	case *ast.StringNode:
		out.Text = n.Value
	case *ast.LiteralNode:
		out.Text = n.Value.Value
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		out.Text = strings.TrimSpace(n.GetToken().Value)
	case *ast.MappingValueNode:
		return convertMap(out, at, []*ast.MappingValueNode{n})
	case *ast.MappingNode:
		return convertMap(out, at, n.Values)
	case *ast.SequenceNode:
		out.Kind = List
		for _, v := range n.Values {
			c, err := convert(at, v)
			if err != nil {
				return nil, err
			}
			out.List = append(out.List, c)
		}
	default:
		return nil, p.Errorf("%s is not allowed here", strings.ToLower(n.Type().String()))
	}
	return out, nil
}

func convertMap(out *Node, at Pos, values []*ast.MappingValueNode) (*Node, error) {
	out.Kind = Map
	for i, v := range values {
		key, err := convert(at, v.Key)
		if err != nil {
			return nil, err
		}
		if key.Kind != Scalar {
			return nil, key.Errorf("a key is %s, and must be a word", key.Kind)
		}
		if i == 0 {
			out.Pos = key.Pos // a map's own token is its first colon
		}
		if first := out.Get(key.Text); first != nil {
			return nil, key.Errorf("the key %q stands here a second time", key.Text)
		}
		val, err := convert(at, v.Value)
		if err != nil {
			return nil, err
		}
		out.Map = append(out.Map, Field{Pos: key.Pos, Key: key.Text, Value: val})
	}
	return out, nil
}
