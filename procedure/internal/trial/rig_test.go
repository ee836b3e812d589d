// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"context"
	"fmt"
	"reflect"
	"testing"
	"time"

	"boxdyno/engine"
	"boxdyno/internal/testutil"
	"boxdyno/lab"
	"boxdyno/procedure"
	"boxdyno/procedure/internal/roomtest"
	"boxdyno/result"
)

// In the sandbox every frame is accounted for, at a low load and far above
// capacity, whatever the service, the direction and the IP version.
func TestSandboxBooksClose(t *testing.T) {
	testutil.Privileged(t)
	bed := roomtest.Build(t, "sandbox", nil)
	for _, set := range []map[string]string{
		{"service": "route"}, {"service": "route", "direction": "both", "frame_size": "imix", "flows": "1000"},
		{"service": "route", "direction": "wan-to-lan", "frame_size": "1518", "flows": "1000000"},
		{"service": "route", "ip": "6", "frame_size": "84", "direction": "both"},
		{"service": "route", "networks": "256"}, {"service": "route", "networks": "256", "ip": "6", "frame_size": "84", "direction": "both"},
		{"service": "filter", "networks": "256", "direction": "wan-to-lan", "frame_size": "imix", "flows": "1000"},
		{"service": "filter", "rules": "0"}, {"service": "filter", "rules": "1000"},
		{"service": "nat", "flows": "10000"}, {"service": "nat", "flows": "100", "direction": "wan-to-lan"},
		{"service": "nat", "flows": "1000", "direction": "both"},
		{"service": "drop-xdp"}, {"service": "drop-tc", "direction": "wan-to-lan"}, {"service": "drop-nft"},
	} {
		t.Run(fmt.Sprint(set), func(t *testing.T) {
			if len(set) == 1 && set["service"] == "route" || set["rules"] == "0" || len(set) == 2 && set["networks"] != "" { // others have more of the same
				testutil.Long(t)
			}
			p := NewTraffic(lab.Services)
			roomtest.Assign(t, p.Flags, set)
			if err := p.Check(bed); err != nil {
				t.Fatal(err)
			}
			ctx := context.Background()
			if err := bed.Serve(ctx, p.Asked()); err != nil {
				t.Fatal(err)
			}
			r, err := p.Open(ctx, &procedure.Env{Bed: bed}, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			if p.Service.Value == "nat" {
				if err := p.OpenFlows(ctx, bed, r); err != nil {
					t.Fatal(err)
				}
			}
			for _, l := range []engine.Load{{Rate: 5000, Duration: 40 * time.Millisecond}, {Duration: 40 * time.Millisecond}} {
				o, err := r.trial(ctx, l, l.Rate > 0)
				if err != nil {
					t.Fatal(err)
				}
				a := o.Account
				if a.Unexplained != 0 || !a.Settled || a.Accepted == 0 {
					t.Errorf("load %+v: account %+v", l, a)
				}
				place := DropPlaces[p.Service.Value]
				switch {
				case place == "" && (a.Received == 0 || o.Load.Forwarded == 0):
					t.Errorf("load %+v: nothing came through: %+v", l, a)
				case place != "" && (a.Received != 0 || a.DroppedAt(place) == 0):
					t.Errorf("load %+v: not thrown away in %s: %+v", l, place, a)
				case l.Rate == 0 && o.Load.Forwarded > o.Load.Offered*1.01:
					t.Errorf("load %+v: %v forwarded of %v offered", l, o.Load.Forwarded, o.Load.Offered)
				}
				if o.Load.Broken+o.Load.Duplicate != 0 {
					t.Errorf("load %+v: %d broken, %d duplicate", l, o.Load.Broken, o.Load.Duplicate)
				}
			}
		})
	}
}

func TestMergeHistograms(t *testing.T) {
	a := &result.Histogram{Upper: []float64{1, 3, 5}, Count: []uint64{1, 2, 3}}
	b := &result.Histogram{Upper: []float64{2, 3}, Count: []uint64{7, 8}}
	want := &result.Histogram{Upper: []float64{1, 2, 3, 5}, Count: []uint64{1, 7, 10, 3}}
	for _, got := range []*result.Histogram{result.Merge(a, b), result.Merge(b, a)} {
		if !reflect.DeepEqual(got, want) {
			t.Errorf("merged %+v, want %+v", got, want)
		}
	}
	if result.Merge(nil, a) != a || result.Merge(a, nil) != a {
		t.Error("nil is not empty")
	}
}
