// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"boxdyno/internal/testutil"
)

// traffic runs boxdyno send, replay or meter for a moment in a namespace whose
// ports eth1 and eth2 are the ends of one cable, with captures of the names
// that the page gives.
func (c *caller) traffic(args []string) {
	if !privileged() {
		c.unprivileged++
		c.flags(args)
		return
	}
	path := testutil.Cable{A: "eth1", B: "eth2"}.Make(c.t)
	for _, a := range args {
		if ext := filepath.Ext(a); ext == ".pcap" || ext == ".pcapng" {
			if err := os.WriteFile(a, onePacket(), 0o644); err != nil {
				c.t.Fatal(err)
			}
		}
	}
	c.succeeds(append(slices.Clone(args), "--netns", path, "--duration", "0.05"))
}

// onePacket is a pcap file of one frame of the local experimental Ethernet type.
func onePacket() []byte {
	le := binary.LittleEndian
	b := le.AppendUint32(nil, 0xa1b2c3d4)
	b = le.AppendUint32(b, 2|4<<16)
	b = append(b, make([]byte, 8)...)
	b = le.AppendUint32(b, 65535)
	b = le.AppendUint32(b, 1)
	b = append(b, make([]byte, 8)...)
	b = le.AppendUint32(b, 60)
	b = le.AppendUint32(b, 60)
	frame := make([]byte, 60)
	frame[0], frame[6], frame[12], frame[13] = 2, 2, 0x88, 0xb5
	return append(b, frame...)
}

var flagName = regexp.MustCompile(`(?m)^(?:  -\w, |      )--([a-z0-9-]+)`)

// The page's flags are those of the commands, each at the commands that have it.
func TestTrafficFlags(t *testing.T) {
	p := named(t, "docs/send.md")
	said := map[string][]string{}
	for _, cells := range tables(p.section(t, "Flags")) {
		of := strings.Split(cells[1], ", ")
		if cells[1] == "all" {
			of = []string{"send", "replay", "meter"}
		}
		for _, code := range codes(cells[0]) {
			if flag, ok := strings.CutPrefix(code, "--"); ok {
				for _, cmd := range of {
					said[cmd] = append(said[cmd], flag)
				}
			}
		}
	}
	c := caller{t: t, root: root(t)}
	for _, cmd := range []string{"send", "replay", "meter"} {
		help, _, _ := strings.Cut(string(c.succeeds([]string{cmd, "--help"})), "Global Flags:")
		var want []string
		for _, m := range flagName.FindAllStringSubmatch(help, -1) {
			if m[1] != "help" {
				want = append(want, m[1])
			}
		}
		slices.Sort(want)
		slices.Sort(said[cmd])
		if !slices.Equal(want, said[cmd]) {
			t.Errorf("%s: the flags of %s are\n%v\nnot\n%v", p.name, cmd, want, said[cmd])
		}
	}
}
