// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"boxdyno/fleet"
	"boxdyno/host"
)

// A second hub in a folder is refused, and what the first one keeps from then on is there
// after its end.
func TestOneHub(t *testing.T) {
	o := Options{Folder: filepath.Join(t.TempDir(), "hub"), Listen: "127.0.0.1:0"}
	h, err := Start(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	another, err := Start(context.Background(), o)
	if err == nil {
		another.Close()
	}
	if missing := (*host.Missing)(nil); !errors.As(err, &missing) {
		t.Errorf("a second hub: %v", err)
	}
	w := &world{Hub: h, folder: o.Folder}
	if w.fleet, err = Open(o.Folder); err != nil {
		t.Fatal(err)
	}
	_, err = fleet.Join(t.Context(), filepath.Join(t.TempDir(), "board"), h.URL, w.token(t, TokenArgs{Lasts: 1e12}), "pi", nil)
	if err == nil {
		err = w.fleet.Revoke(t.Context(), "pi")
	}
	w.fleet.Close()
	if err != nil {
		t.Fatal(err)
	}
	h.Close()
	k, err := loadKeys(o.Folder, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	r, err := openRegistry(k)
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	if len(r.boards) != 1 {
		t.Fatalf("%d boards", len(r.boards))
	}
	for _, b := range r.boards {
		if b.Revoked.IsZero() {
			t.Error("the board was revoked, and is not any more")
		}
	}
}

// A board that says much of itself makes the hub's list no longer than others do.
func TestTalker(t *testing.T) {
	w := &world{folder: filepath.Join(t.TempDir(), "hub")}
	w.o = Options{Folder: w.folder, Listen: "127.0.0.1:0", Note: w.note}
	w.start(t)
	defer w.Close()
	var err error
	if w.fleet, err = Open(w.folder); err != nil {
		t.Fatal(err)
	}
	defer w.fleet.Close()
	folder := t.TempDir()
	id, err := fleet.Join(t.Context(), folder, w.URL, w.token(t, TokenArgs{}), "talker", nil)
	if err != nil {
		t.Fatal(err)
	}
	nc, _, err := w.as(t, seed(t, folder))
	if err != nil {
		t.Fatal(err)
	}
	for _, hello := range []fleet.Hello{{Version: strings.Repeat("v", 1000)}, {Version: strings.Repeat("v", fleet.MaxMessage-1000)}} {
		data, err := json.Marshal(hello)
		if err == nil {
			err = nc.Publish(fleet.Up(id.Key(), "hello"), data)
		}
		if err == nil {
			err = nc.Flush()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for begin := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		all, _, err := w.fleet.List(t.Context())
		if err != nil || len(all) != 1 || len(all[0].Version) > 200 {
			t.Fatalf("%d boards, %v", len(all), err)
		}
		if all[0].Version != "" && strings.Contains(all[0].Why, "it says of itself") {
			break
		}
		if time.Since(begin) > time.Minute {
			t.Fatalf("%+v", all[0])
		}
	}
}
