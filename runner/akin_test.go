// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"boxdyno/result"
)

// What a point learns of the trials before it is of its own kind alone, and the same in a
// run that is resumed.
func TestAkin(t *testing.T) {
	for seed := range uint64(3) {
		chance := rand.New(rand.NewPCG(seed, 0))
		plan := fmt.Sprintf("repeat: 2\nprocedures:\n  - {use: probe, kind: [a, b], level: [5, 6, 7]}\nseed: %d\n", seed)
		run := func(full *memory, o Options) []string {
			t.Helper()
			f := &fake{akin: true}
			o.Catalogue = f.catalogue()
			_, recs, err := Run(context.Background(), resolved(t, o.Catalogue, plan), full, o)
			if err != nil {
				t.Fatal(err)
			}
			var ids []string
			for _, r := range recs {
				ids = append(ids, r.ID)
			}
			return ids
		}
		full := &memory{}
		want := run(full, Options{})
		header := full.run
		header.Environments = header.Environments[:1]
		done := last(full.appended[:chance.IntN(len(full.appended))])
		if got := run(&memory{}, Options{Header: header, Done: done, Resume: true}); !slices.Equal(got, want) {
			t.Fatalf("resumed after %d records:\n%q\nwant\n%q", len(done), got, want)
		}
		first := map[string][]string{} // of each kind's points of a repeat, the first rates
		for _, r := range full.appended {
			if r.Parent != "" && r.Procedure == "probe" && r.Finished() && r.ID[len(r.Parent):len(r.Parent)+2] == "/1" {
				kind := fmt.Sprint(result.Get(r.Config, "kind"), r.Repeat)
				first[kind] = append(first[kind], r.Config[len(r.Config)-1].Value)
			}
		}
		for _, kind := range []string{"a1", "a2"} {
			if !slices.Equal(first[kind], []string{"1000", "1004", "1008"}) {
				t.Fatalf("points of kind and repeat %s began at %v, and each has four trials", kind, first[kind])
			}
		}
	}
}

// Trials that have not ended, other parameters, repeats and testbeds, and the point itself
// are not akin.
func TestAkinLeavesOut(t *testing.T) {
	pair := func(k, v string) result.Pair { return result.Pair{Key: k, Value: v} }
	trial := func(id string, s result.Status, cfg ...result.Pair) result.Record {
		return result.Record{ID: id, Parent: "other", Procedure: "probe", Status: s, Config: cfg}
	}
	elsewhere := trial("far/1", result.Passed, pair("kind", "a"), pair("level", "5"))
	elsewhere.Parent = "far"
	again := trial("mine#2/1", result.Passed, pair("kind", "a"), pair("level", "6"))
	again.Parent, again.Repeat = "mine#2", 2
	x := &execution{at: map[string]int{"mine": 7}, recs: []result.Record{
		{ID: "other", Procedure: "probe", Status: result.Passed, Config: []result.Pair{pair("kind", "a"), pair("level", "5")}},
		trial("other/1", result.Failed, pair("kind", "a"), pair("level", "5"), pair("rate", "9")),
		trial("other/2", result.Running, pair("kind", "a"), pair("level", "5")),
		trial("other/3", result.Passed, pair("kind", "b"), pair("level", "5")),
		{ID: "test", Parent: "self-test", Procedure: "self-test", Status: result.Passed, Config: []result.Pair{pair("kind", "a")}},
		elsewhere, again,
		{ID: "mine", Procedure: "probe", Status: result.Running},
		trial("other/4", result.Passed, pair("kind", "a"), pair("level", "5")),
	}}
	v := &visited{Point: Point{ID: "mine", Procedure: "probe", Params: []result.Pair{pair("kind", "a"), pair("level", "6")}}}
	other, far, twice := *v, *v, *v
	other.ID, far.ID, twice.ID = "other", "far", "mine#2"
	far.lab.Use, twice.Repeat = "mem", 2
	x.every = []*visited{v, &other, &far, &twice}
	ids := func(but ...string) (ids []string) {
		for _, r := range x.akin(v, but) {
			ids = append(ids, r.ID)
		}
		return ids
	}
	if got := ids("level"); !slices.Equal(got, []string{"other/1"}) {
		t.Errorf("%v", got)
	}
	if got := ids(); got != nil {
		t.Errorf("%v, of another level or repeat", got)
	}
}
