// SPDX-License-Identifier: Apache-2.0

package unit

import (
	"math"
	"testing"
)

func TestLineRate(t *testing.T) {
	for _, c := range []struct {
		link BitRate
		size float64
		want float64
	}{{1e9, 64, 1488095}, {10e9, 64, 14880952}, {1e9, 1518, 81274}, {100e6, 64, 148809}} {
		if got := math.Floor(float64(LineRate(c.link, c.size))); got != c.want {
			t.Errorf("LineRate(%v, %v) = %v, want %v", c.link, c.size, got, c.want)
		}
	}
	if got := L1(LineRate(1e9, 594), 594); math.Abs(float64(got)-1e9) > 1e-3 {
		t.Errorf("L1 of line rate is %v", got)
	}
}

func TestSI(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0 ", 1: "1.00 ", 999.6: "1.00 k", 1488095: "1.49 M", 2.9e-7: "290 n",
		-1260: "-1.26 k", 12.34: "12.3 ", 1e15: "1000 T", 999: "999 ", 0.0004: "400 µ",
	} {
		if got := SI(v); got != want {
			t.Errorf("SI(%v) = %q, want %q", v, got, want)
		}
	}
}

func TestParseRates(t *testing.T) {
	for s, want := range map[string]FrameRate{"200k": 200e3, "1.488M": 1.488e6, "64": 64, "3 k frame/s": 3000, "5kfps": 5000} {
		if got, err := ParseFrameRate(s); err != nil || math.Abs(float64(got-want)) > 1e-6 {
			t.Errorf("ParseFrameRate(%q) = %v, %v", s, got, err)
		}
	}
	for s, want := range map[string]BitRate{"1Gbps": 1e9, "2Mbps": 2e6, "100M": 100e6, "2.5Gbit/s": 2.5e9} {
		if got, err := ParseBitRate(s); err != nil || got != want {
			t.Errorf("ParseBitRate(%q) = %v, %v", s, got, err)
		}
	}
	for _, s := range []string{"", "k", "-1", "0", "1x", "Inf", "NaN", "1e400", "1e300G"} {
		if _, err := ParseFrameRate(s); err == nil {
			t.Errorf("ParseFrameRate(%q) was taken", s)
		}
		if _, err := ParseBitRate(s); err == nil {
			t.Errorf("ParseBitRate(%q) was taken", s)
		}
	}
}

func TestGrouped(t *testing.T) {
	for _, c := range []struct {
		v      float64
		digits int
		want   string
	}{{0, 0, "0"}, {999.6, 0, "1,000"}, {1234567, 0, "1,234,567"}, {-123456, 0, "-123,456"}, {12, 3, "12.0"}, {1234.5, 3, "1,234"}, {0.0123, 2, "0.012"}, {999.61, 4, "999.6"}} {
		if got := Grouped(c.v, c.digits); got != c.want {
			t.Errorf("%g to %d digits: %q, want %q", c.v, c.digits, got, c.want)
		}
	}
}

func TestApart(t *testing.T) {
	for _, c := range []struct {
		a, b       float64
		said, says string
	}{
		{1e6, 2e6, "1.00 M", "2.00 M"},
		{199_600, 200_400, "199.6 k", "200.4 k"},
		{199_951, 200_049, "199.95 k", "200.05 k"},
		{5, 5, "5.00 ", "5.00 "},
		{1_000_000, 1_000_001, "1.00000 M", "1.00000 M"},
	} {
		if a, b := Apart(c.a, c.b); a != c.said || b != c.says {
			t.Errorf("%v and %v read %q and %q, want %q and %q", c.a, c.b, a, b, c.said, c.says)
		}
	}
}
