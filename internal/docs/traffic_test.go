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
		c.unprivileged = true
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

var flagName = regexp.MustCompile(`(?m)^(?:  -\w, |      )--([a-z0-9-]+)(.*)$`)

// The page's flags are those of the commands, whose help explains each.
func TestTrafficFlags(t *testing.T) {
	p := named(t, "docs/send.md")
	known := map[string]bool{}
	c := caller{t: t, root: root(t)}
	for _, cmd := range []string{"send", "replay", "meter"} {
		help, _, _ := strings.Cut(string(c.succeeds([]string{cmd, "--help"})), "Global Flags:")
		for _, m := range flagName.FindAllStringSubmatch(help, -1) {
			known[m[1]] = true
			if _, meaning, ok := strings.Cut(m[2], "  "); !ok || strings.TrimSpace(meaning) == "" {
				t.Errorf("%s --help does not explain --%s", cmd, m[1])
			}
		}
	}
	seen := 0
	for _, code := range codes(p.prose) {
		for _, word := range strings.Fields(code) {
			if flag, ok := strings.CutPrefix(word, "--"); ok {
				seen++
				if !known[flag] && flag != "help" {
					t.Errorf("%s: no command has --%s", p.name, flag)
				}
			}
		}
	}
	if seen < 10 || !strings.Contains(p.prose, "`--help`") {
		t.Errorf("%s has %d flags, and must name --help, which explains all", p.name, seen)
	}
}
