// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"boxdyno/host"
	"boxdyno/internal/cables"
	"boxdyno/internal/netns"
)

// The cables to a box are found by real ssh, kept, compared with those that were known,
// and ports that were down are down again.
func TestBoxCables(t *testing.T) {
	tester, box := stranger(t)
	err := netns.Do(tester.Path(), func() error { // a third cable, down at both ends
		attrs := netlink.NewLinkAttrs()
		attrs.Name = "e2"
		return netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "i2", PeerNamespace: netlink.NsFd(box.Fd())})
	})
	if err != nil {
		t.Fatal(err)
	}
	state := func() string {
		var all string
		for _, ns := range []*netns.Namespace{tester, box} {
			out, err := (&host.Local{Netns: ns.Path()}).Run(t.Context(), "ip -o link | sed 's/.*: \\(.*\\)@.*state/\\1/; s/mode.*//'; ip -o address | sed 's/valid_lft.*//'", "sh", "-eu")
			if err != nil {
				t.Fatal(err)
			}
			all += string(out)
		}
		return all
	}
	run := func(want int, args ...string) string {
		t.Helper()
		var out, errw bytes.Buffer
		if code := Main(t.Context(), args, &out, &errw); code != want {
			t.Fatalf("%s: exit code %d, want %d: %s%s", args, code, want, out.Bytes(), errw.Bytes())
		}
		return out.String()
	}
	addBox(t, box, "e0=i1", "e1=i0")
	find := []string{"box", "cables", "box", "--netns", tester.Path()}
	before := state()
	if said := run(exitOK, append(find, "--dry-run")...); !strings.Contains(said, "e2") || !strings.Contains(said, "free, and set up for the search") {
		t.Error(said)
	}
	if after := state(); after != before {
		t.Errorf("a dry run changed\n%s\nto\n%s", before, after)
	}
	var doc struct {
		Kept []string
		cables.Found
	}
	if err := json.Unmarshal([]byte(run(exitOK, append(find, "--json")...)), &doc); err != nil {
		t.Fatal(err)
	}
	if want := []cables.Cable{{Here: "e0", There: "i0"}, {Here: "e1", There: "i1"}, {Here: "e2", There: "i2"}}; !slices.Equal(doc.Cables, want) || !slices.Equal(doc.Kept, []string{"e0=i0", "e1=i1"}) ||
		!strings.HasPrefix(doc.Faults[0], "swapped: cable e0=i1") {
		t.Errorf("%+v", doc)
	}
	if after := state(); after != before {
		t.Errorf("it was\n%s\nand is\n%s", before, after)
	}
	if said := run(exitOK, "box", "ls"); !strings.Contains(said, "e0=i0 e1=i1") {
		t.Error(said)
	}
	if said := run(exitOK, find...); strings.Contains(said, "swapped") || !strings.Contains(said, "e2=i2") {
		t.Error(said)
	}
}
