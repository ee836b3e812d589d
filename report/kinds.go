// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"encoding/json"
	"iter"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"boxdyno/result"
)

// A Block is what rows of a kind have beside figures: their settings in words, and parts of
// their trials. Its text asks the row for figures by metric.
type Block interface {
	name(r *Row, words []string) []string            // the words that name the row
	summary(r *Row) (name, text string, whole bool)  // in a sentence; whole: nothing is said of frames at a load
	clauses(r *Row) []string                         // behind what is said of frames at a load
	order(a, b *Row) int                             // of two rows of the kind
	remarks(r *Row) []string                         // under the tables that have the row
	tail(r *Row) string                              // of a headline: ", through wireguard"
	through() string                                 // behind the service: ", wireguard"
	last() string                                    // the last word of the name: "load 80 %"
	sentence() string                                // the document's, where each row has one
	limited(r *Row, p result.Record) *result.Account // the frames of p by which its limit is judged
}

// usual is the part of a Block that has nothing to add.
type usual struct{}

func (usual) name(_ *Row, words []string) []string            { return words }
func (usual) summary(*Row) (name, text string, whole bool)    { return "", "", false }
func (usual) clauses(*Row) []string                           { return nil }
func (usual) order(_, _ *Row) int                             { return 0 }
func (usual) remarks(*Row) []string                           { return nil }
func (usual) tail(r *Row) string                              { return " (" + r.Name + ")" }
func (usual) through() string                                 { return "" }
func (usual) last() string                                    { return "" }
func (usual) sentence() string                                { return "" }
func (usual) limited(r *Row, p result.Record) *result.Account { return r.Wanted(p.Account) }

// A kind is what is the same for all rows with one type of block.
type kind struct {
	key        string // of the block in JSON
	procedures []string
	fields     reflect.Type            // of the block
	block      func(m *measured) Block // nil: the row has none
	power      int                     // its place among what a box can do; 0: it has none
	aside      bool                    // another row is the summary, where there is one
	unsized    bool                    // its frames have no mean size
	booked     string                  // what its ledger is of; "": the trial that its figures are of
	counted    bool                    // its ledger ends in a subject
	flowless   bool                    // it has connections in place of frames at a load
	local      bool                    // both ends of its streams are on this machine
	ranked     bool                    // its rows stand in the order of procedures
	good       bool                    // frames that the box's rules must drop are among its load
}

// forwarded is the kind of rows without a block: frames at a load.
var forwarded = kind{booked: "last overload trial"}

// kinds has a row for each type of block. What a new procedure measures needs none.
func kinds() []kind {
	var works []string
	for _, t := range workTables {
		works = append(works, t.procedure)
	}
	one := func(procedure string) []string { return []string{procedure} }
	return []kind{
		{key: "suite", procedures: suiteProcedures[1:], fields: reflect.TypeFor[Suite](), block: suiteOf, aside: true, booked: forwarded.booked},
		{key: securityProcedure, procedures: one(securityProcedure), fields: reflect.TypeFor[Security](), block: securityOf, booked: "all phases", good: true},
		{key: connectionsProcedure, procedures: one(connectionsProcedure), fields: reflect.TypeFor[Connections](), block: connectionsOf, aside: true, unsized: true, flowless: true, booked: "frames of both ends"},
		{key: soakProcedure, procedures: one(soakProcedure), fields: reflect.TypeFor[Soak](), block: soakOf, aside: true},
		{key: CaptureProcedure, procedures: one(CaptureProcedure), fields: reflect.TypeFor[Capture](), block: captureOf, aside: true, counted: true},
		{key: inferProcedure, procedures: one(inferProcedure), fields: reflect.TypeFor[Infer](), block: inferOf, aside: true, counted: true},
		{key: "work", procedures: works, fields: reflect.TypeFor[Work](), block: workOf, power: 1, ranked: true, aside: true},
		{key: cryptoProcedure, procedures: one(cryptoProcedure), fields: reflect.TypeFor[Crypto](), block: cryptoOf, power: 2, aside: true},
		{key: storageProcedure, procedures: one(storageProcedure), fields: reflect.TypeFor[Storage](), block: storageOf, power: 4, aside: true},
		{key: IDSProcedure, procedures: one(IDSProcedure), fields: reflect.TypeFor[IDS](), block: idsOf, aside: true, unsized: true, counted: true},
		{key: "tunnel", procedures: []string{vpnProcedure, streamProcedure}, fields: reflect.TypeFor[Tunnel](), block: tunnelOf, power: 3, local: true, booked: forwarded.booked},
		{key: floodProcedure, procedures: one(floodProcedure), fields: reflect.TypeFor[Flood](), block: floodOf, aside: true, booked: "all phases"},
	}
}

// A measured configuration is what blocks are made of.
type measured struct {
	row     *Row
	run     result.Run
	repeats []result.Record
	typical result.Record
	trials  map[string][]result.Record // of all points
}

func (m *measured) get(key string) string { return result.Get(m.typical.Config, key) }

func (m *measured) number(key string) int {
	n, _ := strconv.Atoi(m.get(key))
	return n
}

// set returns a block whose fields have the values of the parameters of the same names.
func set[B any](m *measured) *B {
	var b B
	for f, v := range reflect.ValueOf(&b).Elem().Fields() {
		key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case !v.CanSet():
		case v.Kind() == reflect.String:
			v.SetString(m.get(key))
		case v.Kind() == reflect.Int:
			v.SetInt(int64(m.number(key)))
		}
	}
	return &b
}

// own are the trials of the typical repeat.
func (m *measured) own() []result.Record { return m.trials[m.typical.ID] }

// blocked gives the row its block.
func (r *Row) blocked(m *measured) {
	for _, k := range kinds() {
		if !slices.Contains(k.procedures, r.Procedure) {
			continue
		}
		if b := k.block(m); b != nil {
			r.Block, r.of = b, &k
		}
	}
}

func (r *Row) kind() kind {
	if r.of == nil {
		return forwarded
	}
	return *r.of
}

// at is the row's figure of a metric; nil: it was not measured.
func (r *Row) at(metric string) *Figure { return r.found.figures[metric] }

// said is the row's block, or one that has nothing to add.
func (r *Row) said() Block {
	if r.Block == nil {
		return usual{}
	}
	return r.Block
}

// blockOf is the row's block, where it is of that type; else nil.
func blockOf[B Block](r *Row) B {
	b, _ := r.Block.(B)
	return b
}

// blocksOf are the rows with a block of that type, each with it.
func blocksOf[B Block](rows []Row) iter.Seq2[*Row, B] {
	return func(yield func(*Row, B) bool) {
		for i := range rows {
			if b, ok := rows[i].Block.(B); ok && !yield(&rows[i], b) {
				return
			}
		}
	}
}

// both are the blocks of two rows of one kind.
func both[B Block](a, b *Row) (x, y B) { return blockOf[B](a), blockOf[B](b) }

// Booked is what the row's ledger is of: its name, and of which trials.
func (r *Row) Booked() string {
	if of := r.kind().booked; of != "" {
		return r.Name + ", " + of
	}
	return r.Name
}

// Counted says whether the row's ledger ends in a subject that counts frames.
func (r *Row) Counted() bool { return r.kind().counted }

// Wanted is the row's ledger of the frames that the box should forward alone.
func (r *Row) Wanted(a *result.Account) *result.Account {
	if r.kind().good {
		return wanted(a)
	}
	return a
}

// MarshalJSON implements json.Marshaler: the block follows, with the figures that have no
// field of their own.
func (r Row) MarshalJSON() ([]byte, error) {
	type plain Row
	if r.of == nil {
		return text(plain(r))
	}
	own := fields(r.of.fields)
	figures := []any{r.Block}
	for _, m := range r.found.measured {
		if !own[m.Name] && inBlock(m.Name) {
			figures = append(figures, map[string]*Figure{m.Name: r.at(m.Name)})
		}
	}
	block, err := joinedObjects(figures...)
	if err != nil {
		return nil, err
	}
	return joinedObjects(plain(r), map[string]json.RawMessage{r.of.key: block})
}

// Adds are the fields that MarshalJSON adds, for the schema.
func (Row) Adds() map[string]reflect.Type {
	out := map[string]reflect.Type{}
	for _, k := range kinds() {
		out[k.key] = k.fields
	}
	return out
}

// BlockMetrics are the metrics in each type of block, of those that procedures declare.
func BlockMetrics(declared map[string][]result.Metric) map[string][]string {
	out := map[string][]string{}
	for _, k := range kinds() {
		own := fields(k.fields)
		for _, p := range k.procedures {
			for _, m := range declared[p] {
				if !own[m.Name] && inBlock(m.Name) {
					out[k.fields.Name()] = append(out[k.fields.Name()], m.Name)
				}
			}
		}
	}
	return out
}

// inBlock says whether a metric stands in blocks: it has no field in the row, and is not of
// the tester.
func inBlock(metric string) bool {
	return !fields(reflect.TypeFor[Row]())[metric] && !slices.Contains(ofTester, metric)
}

// fields are a struct's names in JSON.
func fields(t reflect.Type) map[string]bool {
	out := map[string]bool{}
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		out[name] = true
	}
	return out
}

// text is v as JSON, with <, > and & as they are: the outer encoder escapes them.
func text(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSpace(b.Bytes()), err
}

// joinedObjects is one object with the fields of all.
func joinedObjects(objects ...any) (out []byte, err error) {
	for _, o := range objects {
		object, err := text(o)
		if err != nil {
			return nil, err
		}
		if inner := bytes.TrimSuffix(bytes.TrimPrefix(object, []byte("{")), []byte("}")); len(inner) > 0 {
			out = append(append(out, ','), inner...)
		}
	}
	return append(append([]byte("{"), bytes.TrimPrefix(out, []byte(","))...), '}'), nil
}
