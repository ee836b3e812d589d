// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

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
	k, err := loadKeys(o.Folder, false)
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
