// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"boxdyno/host"
	"boxdyno/internal/files"
	"boxdyno/internal/yaml"
	"boxdyno/subject"
)

// Own is the name of the subject that a user describes in a file.
const Own = "own"

// own is a program that a file describes.
var own = Tool{Name: Own, Work: "what its file says", doc: "a program of your own, which a YAML file describes (file=...)"}

// An ownFile is what such a file says.
type ownFile struct {
	name, work string
	command    []string
	ready      *regexp.Regexp // of a line that it prints once it captures; nil: none does
	count      measure
	dropped    measure
	socket     bool // it has a packet socket
}

// A measure is how a number is read from a line: by a pattern's group, or by the key
// of a JSON object, "a.b" for one within another. The zero measure reads nothing.
type measure struct {
	pattern *regexp.Regexp
	key     []string
}

func (m measure) of(line string) int64 {
	if m.pattern != nil {
		return Find(m.pattern, line)
	}
	if m.key == nil || !strings.HasPrefix(strings.TrimSpace(line), "{") {
		return -1
	}
	rest := json.RawMessage(line)
	for _, k := range m.key {
		var object map[string]json.RawMessage
		if json.Unmarshal(rest, &object) != nil {
			return -1
		}
		rest = object[k]
	}
	return frames(string(rest))
}

// parse reads a line of either stream.
func (o *ownFile) parse(line string) Told {
	s := Nothing
	s.Ready = o.ready != nil && o.ready.MatchString(line)
	s.Counted, s.Own = o.count.of(line), o.dropped.of(line)
	return s
}

// Placeholders in the words of a command.
var placeholders = []string{"{port}", "{cpus}", "{dir}", "{filter}", "{buffer}"}

var placeholder = regexp.MustCompile(`\{[a-z_]*\}`)

// tool is the row that the file describes.
func (o *ownFile) tool() *Tool {
	t := &Tool{
		Name: o.name, Work: o.work, Unseen: !o.socket, silent: o.ready == nil, untold: o.socket && o.dropped.pattern == nil && o.dropped.key == nil,
		check: func(context.Context, *Capture) error { return host.Has(o.command[0]) },
		Said:  func(*Capture, subject.Env) (Parser, Parser) { return o.parse, o.parse },
		Argv: func(c *Capture, e Place) (argv []string, err error) {
			r := strings.NewReplacer("{port}", e.Port.Name, "{cpus}", strings.ReplaceAll(host.Words(e.CPUs), "+", ","), "{dir}", e.Dir, "{filter}", c.Filter, "{buffer}", strconv.FormatUint(c.Buffer, 10))
			for _, w := range o.command {
				argv = append(argv, r.Replace(w))
			}
			if strings.Contains(argv[0], "/") { // it will work in another folder
				argv[0], err = filepath.Abs(argv[0])
			}
			return argv, err
		},
	}
	if !strings.Contains(strings.Join(o.command, " "), "{buffer}") {
		t.Fixed = AsItIs
	}
	return t
}

// resolve is the row that c captures by: its own, or that of its file, which is read
// once.
func (c *Capture) resolve() (*Tool, error) {
	if c.Tool != &own {
		return c.Tool, nil
	}
	if c.described != nil {
		return c.described, nil
	}
	if c.File == "" {
		return nil, errors.New("subject own: give file=NAME.yaml, which says what to run (docs/subjects.md)")
	}
	data, err := files.Read(c.File, yaml.MaxSize)
	if err != nil {
		return nil, fmt.Errorf("read the subject: %w", err)
	}
	o, err := parseOwn(c.File, data)
	if err != nil {
		return nil, err
	}
	c.described = o.tool()
	return c.described, nil
}

// parseOwn reads a description; errors name the file's line.
func parseOwn(file string, data []byte) (*ownFile, error) {
	root, err := yaml.Parse(file, data)
	if err != nil {
		return nil, err
	}
	if err := root.Want(yaml.Map, "a subject"); err != nil {
		return nil, err
	}
	if err := root.Only("a subject", "name", "work", "command", "ready", "count", "count_key", "dropped", "dropped_key", "packet_socket"); err != nil {
		return nil, err
	}
	text := func(key string) (string, error) {
		v := root.Get(key)
		if v == nil || v.Kind == yaml.Null {
			return "", nil
		}
		return strings.TrimSpace(v.Text), v.Want(yaml.Scalar, key)
	}
	o := &ownFile{socket: true}
	var errs [3]error
	var socket string
	o.name, errs[0] = text("name")
	o.work, errs[1] = text("work")
	socket, errs[2] = text("packet_socket")
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	if o.name == "" || strings.Trim(o.name, "abcdefghijklmnopqrstuvwxyz0123456789-_.") != "" {
		return nil, root.Errorf("name %q: want small letters, digits, dots, hyphens and underscores", o.name)
	}
	if works := []string{Count, Decode, Dissection, Application}; !slices.Contains(works, o.work) {
		return nil, root.Errorf("work %q: want %s", o.work, strings.Join(works, ", "))
	}
	switch socket {
	case "", "true":
	case "false":
		o.socket = false
	default:
		return nil, root.Get("packet_socket").Errorf("packet_socket %q: want true or false", socket)
	}
	command := root.Get("command")
	if command == nil || command.Kind != yaml.List || len(command.List) == 0 {
		return nil, root.Errorf("command is missing: a list of the program and its arguments")
	}
	for _, w := range command.List {
		if err := w.Want(yaml.Scalar, "a word of the command"); err != nil {
			return nil, err
		}
		for _, p := range placeholder.FindAllString(w.Text, -1) {
			if !slices.Contains(placeholders, p) {
				return nil, w.Errorf("%s: the placeholders are %s", p, strings.Join(placeholders, ", "))
			}
		}
		o.command = append(o.command, w.Text)
	}
	if o.ready, err = pattern(root, "ready", 0); err != nil {
		return nil, err
	}
	if o.count, err = measureOf(root, "count"); err != nil {
		return nil, err
	}
	if o.count.pattern == nil && o.count.key == nil {
		return nil, root.Errorf("count is missing: a regular expression with a group, or count_key, the key of a JSON object")
	}
	o.dropped, err = measureOf(root, "dropped")
	return o, err
}

// measureOf reads key and key_key, of which one may stand.
func measureOf(root *yaml.Node, key string) (m measure, err error) {
	if m.pattern, err = pattern(root, key, 1); err != nil {
		return m, err
	}
	v := root.Get(key + "_key")
	if v == nil || v.Kind == yaml.Null {
		return m, nil
	}
	if err := v.Want(yaml.Scalar, key+"_key"); err != nil {
		return m, err
	}
	if m.pattern != nil {
		return m, v.Errorf("%s_key: %s stands, too: leave one out", key, key)
	}
	m.key = strings.Split(v.Text, ".")
	return m, nil
}

// pattern reads a regular expression with so many groups; nil where there is none.
func pattern(root *yaml.Node, key string, groups int) (*regexp.Regexp, error) {
	v := root.Get(key)
	if v == nil || v.Kind == yaml.Null {
		return nil, nil
	}
	if err := v.Want(yaml.Scalar, key); err != nil {
		return nil, err
	}
	re, err := regexp.Compile(v.Text)
	if err != nil {
		return nil, v.Errorf("%s: %w", key, err)
	}
	if re.NumSubexp() != groups && groups > 0 {
		return nil, v.Errorf("%s %q: want one group, such as captured=([0-9]+)", key, v.Text)
	}
	return re, nil
}
