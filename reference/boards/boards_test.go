// SPDX-License-Identifier: Apache-2.0

package boards

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"boxdyno/reference"
)

// Every board is whole, every value names a source of the table and keeps to its key's
// form and range, and what may occur once does.
func TestCatalogue(t *testing.T) {
	seen, used, names := map[string]bool{}, map[string]bool{}, map[string]bool{}
	kinds := map[string]int{}
	for _, b := range All() {
		if !regexp.MustCompile(`^[a-z0-9][a-z0-9-]*$`).MatchString(b.ID) || seen[b.ID] || b.Name == "" || names[b.Name] || !slices.Contains(Kinds, b.Kind) || len(b.Values) == 0 {
			t.Errorf("board %q, %q, %q with %d values: no whole board, or there are two", b.ID, b.Name, b.Kind, len(b.Values))
		}
		seen[b.ID], names[b.Name] = true, true
		kinds[b.Kind]++
		count := map[string]int{}
		texts := map[string]bool{}
		for _, v := range b.Values {
			if _, ok := SourceOf(v.Source); !ok {
				t.Errorf("%s: %s: the source %q is not in sources.csv", b.ID, v.Key, v.Source)
			}
			used[v.Source] = true
			if count[v.Key]++; count[v.Key] > 1 && !keyOf(v.Key).Many {
				t.Errorf("%s: %d values of %s", b.ID, count[v.Key], v.Key)
			}
			if text := v.Key + " " + v.Text + " " + v.Note + v.Source; v.Key != "port" && texts[text] {
				t.Errorf("%s: %s is there twice", b.ID, text)
			} else {
				texts[text] = true
			}
			if method := strings.HasPrefix(v.Key, "load") || v.Key == "idle" || v.Key == "hpl" || v.Key == "forward"; method && v.Note == "" {
				t.Errorf("%s: %s %s: by which method?", b.ID, v.Key, v.Text)
			}
		}
		min, ok1 := b.Number("temperature_min")
		max, ok2 := b.Number("temperature_max")
		if ok1 != ok2 || ok1 && min >= max {
			t.Errorf("%s: from %g to %g degrees", b.ID, min, max)
		}
		idle, ok1 := b.Number("idle")
		load, ok2 := b.Number("load")
		if ok1 && ok2 && idle > load {
			t.Errorf("%s: idle %g W, under load %g W", b.ID, idle, load)
		}
	}
	if len(All()) < 60 {
		t.Errorf("%d boards", len(All()))
	}
	for _, k := range Kinds {
		if kinds[k] < 5 {
			t.Errorf("%d boards of the kind %s", kinds[k], k)
		}
	}
	for _, s := range Sources() {
		if !used[s.ID] || s.What == "" || s.Where == "" || !regexp.MustCompile(`^20\d\d(-\d\d-\d\d)?$`).MatchString(s.Date) {
			t.Errorf("source %+v: no value has it (%v), or it does not say what, where and when", s, used[s.ID])
		}
		if strings.Contains(s.Where, "figures.csv") {
			if _, ok := reference.SourceOf(s.ID); !ok {
				t.Errorf("source %s: there is no such source of figures", s.ID)
			}
		}
	}
}

// No two boards claim one name of a device tree or of a DMI table.
func TestIdentify(t *testing.T) {
	claimed := map[string]string{}
	for _, b := range All() {
		for _, v := range append(b.Of("compatible"), b.Of("dmi")...) {
			if claimed[v.Text] != "" {
				t.Errorf("%s and %s are both %s", claimed[v.Text], b.ID, v.Text)
			}
			claimed[v.Text] = b.ID
		}
	}
	for _, c := range []struct {
		compatible []string
		dmi, want  string
	}{
		{[]string{"raspberrypi,5-model-b", "brcm,bcm2712"}, "", "rpi-5"},
		{[]string{"pine64,rockpro64-v2.0", "pine64,rockpro64", "rockchip,rk3399"}, "", "rockpro64"},
		{nil, "PC Engines apu2", "apu2"},
		{[]string{"rockchip,rk3588"}, "QEMU Standard PC", ""},
		{nil, "", ""},
	} {
		if b, _ := Identify(c.compatible, c.dmi); b.ID != c.want {
			t.Errorf("%v %q is %q, want %q", c.compatible, c.dmi, b.ID, c.want)
		}
	}
}

// A model as firmware writes it is the board whose name it begins with.
func TestModel(t *testing.T) {
	for model, want := range map[string]string{
		"Raspberry Pi 5 Model B Rev 1.0": "rpi-5", "Raspberry Pi 500 Rev 1.0": "rpi-500", "Raspberry Pi 3 Model B Plus Rev 1.3": "rpi-3-b-plus", "Raspberry Pi 3 Model B Rev 1.2": "rpi-3-b",
		"Raspberry Pi Compute Module 4 Rev 1.0": "rpi-cm4", "Raspberry Pi Zero 2 W Rev 1.0": "rpi-zero-2-w", "FriendlyElec NanoPi R5S": "nanopi-r5s", "Protectli VP2420": "protectli-vp2420",
		"Raspberry": "", "": "", "QEMU Virtual Machine": "",
	} {
		if b := Model(model); b.ID != want {
			t.Errorf("%q is %q, want %q", model, b.ID, want)
		}
	}
}

// Values that a few boards must have, read in their sources.
func TestKnownValues(t *testing.T) {
	b, _ := Find("rpi-4-b")
	if p, _, ok := b.Price("USD"); !ok || p.Amount != 35 {
		t.Errorf("the least price of %s is %+v", b.ID, p)
	}
	zero, _ := Find("rpi-zero-w")
	if p, _, ok := zero.Price("USD"); !ok || p != (Price{15, "USD", 2022}) {
		t.Errorf("the newest price of %s is %+v", zero.ID, p)
	}
	if v := b.Of("instructions"); len(v) != 1 || v[0].Text != "none" {
		t.Errorf("%s has the instructions %v", b.ID, v)
	}
	if m, _ := b.Number("memory"); m != 8 {
		t.Errorf("%s has up to %g GiB", b.ID, m)
	}
	b, _ = Find("ten64")
	if ports, ok := b.Ports(); !ok || len(ports) != 2 || ports[1] != (Port{2, 10e9, "soc", "sfp+"}) {
		t.Errorf("%s has the ports %+v", b.ID, ports)
	}
	b, _ = Find("rpi-5")
	if c, ok := b.Cores(); !ok || c != 4 {
		t.Errorf("%s has %d cores", b.ID, c)
	}
}

// Text that is no value of its key is refused.
func TestBadValues(t *testing.T) {
	for key, bad := range map[string][]string{
		"port":            {"", "x", "2x", "-1", "1x5", "1x1000@isa", "1x1000 rj45", "1x1e30"},
		"price":           {"", "10", "10 USD", "0 USD 2020", "-3 USD 2020", "10 DOLLARS 2020", "10 USD 1980", "NaN USD 2020", "Inf USD 2020"},
		"cores":           {"", "4", "0 Cortex-A53", "x Cortex-A53"},
		"until":           {"", "soon", "2034-13", "1999"},
		"idle":            {"", "0", "NaN", "1e9"},
		"temperature_min": {"-273", "100"},
		"width":           {"16", "64 "},
	} {
		for _, s := range bad {
			if keyOf(key).check(s) == nil {
				t.Errorf("%s: %q was taken", key, s)
			}
		}
	}
}

func TestNeeds(t *testing.T) {
	ids := func(s string) (yes, unknown []string) {
		n, err := ParseNeeds(s)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range All() {
			switch a, why := n.Of(b); a {
			case Yes:
				yes = append(yes, b.ID)
			case Unknown:
				if len(why) == 0 {
					t.Errorf("%s: %s is unknown for no reason", s, b.ID)
				}
				unknown = append(unknown, b.ID)
			}
		}
		return yes, unknown
	}
	for _, c := range []struct {
		needs             string
		yes, unknown, not []string
	}{
		{"ports>=2 speed>=1G", []string{"nanopi-r5s", "ten64", "visionfive-2", "bpi-r3"}, []string{"protectli-fw4b", "rpi-cm3"}, []string{"rpi-5", "rpi-2-b", "rpi-zero"}},
		{"ports>=4 speed>=1G", []string{"ten64"}, []string{"bpi-r3"}, []string{"nanopi-r5s"}},
		{"ports>=2", []string{"protectli-fw4b", "bpi-r3"}, nil, []string{"rpi-5"}},
		{"aes", []string{"rpi-5"}, []string{"star64"}, []string{"rpi-4-b"}},
		{"temperature<=-20", []string{"rpi-cm4", "mikrotik-rb4011"}, []string{"rpi-5"}, []string{"rpi-4-b", "radxa-e24c"}},
		{"temperature>=70", []string{"radxa-e24c"}, nil, []string{"rpi-4-b"}},
		{"price<=40 wifi", []string{"rpi-4-b"}, []string{"openwrt-one"}, []string{"rpi-400"}},
		{"kind=riscv,cores>=8", []string{"bpi-f3"}, nil, []string{"star64", "rpi-5"}},
		{"storage=nvme", []string{"nanopi-r5s"}, []string{"rpi-4-b"}, nil},
		{"until>=2030", []string{"rpi-cm4"}, []string{"rpi-5"}, []string{"rpi-cm3"}},
		{"soc=rk3588 idle<=2", []string{"orangepi-5"}, []string{"nanopi-r6s"}, []string{"rock-5b"}},
	} {
		yes, unknown := ids(c.needs)
		for _, id := range c.yes {
			if !slices.Contains(yes, id) {
				t.Errorf("%s: %s does not match", c.needs, id)
			}
		}
		for _, id := range c.unknown {
			if !slices.Contains(unknown, id) {
				t.Errorf("%s: %s is not unknown", c.needs, id)
			}
		}
		for _, id := range c.not {
			if slices.Contains(yes, id) || slices.Contains(unknown, id) {
				t.Errorf("%s: %s may match", c.needs, id)
			}
		}
	}
	for _, bad := range []string{"ports", "ports<=2", "ports>=two", "speed=1G", "frobnicate", "none", "kind=boat", "kind>=sbc", "price<=", "price<=NaN", "colour=red", "depth>=3", ">=", "=", "ports>=1e99"} {
		if _, err := ParseNeeds(bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
	if n, err := ParseNeeds(" \n"); err != nil || len(n.needs) != 0 || n.ports != 0 {
		t.Errorf("no needs: %+v, %v", n, err)
	}
}
