// SPDX-License-Identifier: Apache-2.0

package result

import (
	"math"
	"strings"
	"testing"
)

// A shared part with a figure that is none, or a word that is none, is refused by its name.
func TestParts(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "none": "", "switch=60USD,6..8W,inside": "switch=60USD,6..8W,inside", "fans=15USD,meter=command": "fans=15USD,0W,meter=command",
		"switch=8W;power supply=9USD": "switch=0USD,8W;power supply=9USD,0W", "fans=3..0W,meter=a": "fans=0USD,3..0W,meter=a",
	} {
		parts, err := ParseParts(text)
		if got := PartsText(parts); err != nil || got != want {
			t.Errorf("%q: %q, %v", text, got, err)
		}
		if again, err := ParseParts(want); err != nil || PartsText(again) != want {
			t.Errorf("%q: %v, %v", want, again, err)
		}
	}
	for text, want := range map[string]string{
		"switch=60USD,volts=8": `"volts=8" is none of its figures`, "switch=-1W": "its power is -1 W", "switch=NaNW": `"NaNW" is none of its figures`, "switch=NaN..8W": "none of its figures",
		"switch=InfUSD": "its price is +Inf USD", "switch=-3USD": "its price is -3 USD", "switch=9..8W": "9 W idle and 8 W loaded", "switch=2e9W": "its power is 2e+09 W",
		"switch=8W;switch=9W": "named twice", "switch=8W,9W": `"9W" is none`, "switch=inside": "nothing is known of it", "switch=8W;": "it is no shared part", "a\x1b=8W": "is named",
		strings.Repeat("a=1W;", mostParts) + "b=1W": "65 shared parts: 64 are the most",
	} {
		if parts, err := ParseParts(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80q: %v, %v, want %q", text, parts, err, want)
		}
	}
	nan := math.NaN()
	for _, p := range []Part{{Name: "a", USD: nan}, {Name: "a", Watts: nan}, {Name: "a", Watts: 1, Idle: &nan}, {}, {Name: "a", Meter: "x;y"}} {
		if p.Check() == nil {
			t.Errorf("%+v is no part", p)
		}
	}
}

func TestParsePart(t *testing.T) {
	for text, want := range map[string]string{
		"switch=60USD,8W": "switch=60USD,8W", "s=8W": "s=0USD,8W", "s=6..8W,1.5USD,inside": "s=1.5USD,6..8W,inside", "fans=meter=command": "fans=0USD,0W,meter=command",
	} {
		p, err := ParsePart(text)
		if err != nil || p.String() != want {
			t.Errorf("%q: %q, %v", text, p, err)
		}
		if again, err := ParsePart(p.String()); err != nil || again.String() != want {
			t.Errorf("%q: %q, %v", p, again, err)
		}
	}
	for _, text := range []string{"", "switch", "=8W", "s=", "s=8", "s=-1W", "s=NaNW", "s=9..8W", "s=..8W", "s=1..W", "s;t=8W", "s=InfUSD", "s=meter=", "s=meter=a;b", "s=8W,meter=a;b=9W", "s=inside"} {
		if p, err := ParsePart(text); err == nil {
			t.Errorf("%q: %+v", text, p)
		}
	}
}
