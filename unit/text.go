// SPDX-License-Identifier: Apache-2.0

package unit

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

var prefixes = []struct {
	name   string
	factor float64
}{{"T", 1e12}, {"G", 1e9}, {"M", 1e6}, {"k", 1e3}, {"", 1}, {"m", 1e-3}, {"µ", 1e-6}, {"n", 1e-9}}

// SI prints v with 3 significant digits and an SI prefix: "1.26 M", "290 n",
// "0 ". The unit follows directly: SI(v) + "frame/s".
func SI(v float64) string { return si(v, 3) }

// Quantity prints v with its unit: "1.26 Mframe/s", "38 frames", "200/s".
func Quantity(v float64, sym Symbol) string {
	switch sym {
	case "1", "":
		return strconv.FormatFloat(v, 'g', 3, 64)
	case "frame":
		return strconv.FormatFloat(v, 'g', 3, 64) + " frames"
	case "1/s":
		return strings.TrimSpace(SI(v)) + "/s"
	}
	return SI(v) + string(sym)
}

// Apart is SI of two numbers, with as many digits as tell them apart, at most 6.
func Apart(a, b float64) (string, string) {
	for digits := 3; ; digits++ {
		if x, y := si(a, digits), si(b, digits); x != y || a == b || digits == 6 {
			return x, y
		}
	}
}

func si(v float64, digits int) string {
	if v == 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		return strconv.FormatFloat(v, 'g', -1, 64) + " "
	}
	mag := math.Abs(v)
	i := 0
	for i < len(prefixes)-1 && roundSig(mag/prefixes[i].factor, digits) < 1 {
		i++
	}
	x := mag / prefixes[i].factor
	decimals := digits - 1 - int(math.Floor(math.Log10(roundSig(x, digits))))
	s := strconv.FormatFloat(math.Copysign(x, v), 'f', max(decimals, 0), 64)
	return s + " " + prefixes[i].name
}

func roundSig(x float64, digits int) float64 {
	if x == 0 {
		return 0
	}
	scale := math.Pow(10, float64(digits-1)-math.Floor(math.Log10(x)))
	return math.Round(x*scale) / scale
}

func (r FrameRate) String() string { return SI(float64(r)) + "frame/s" }
func (r BitRate) String() string   { return SI(float64(r)) + "bit/s" }

// ParseBitRate reads "1G", "1Gbps", "2.5 Mbit/s": a positive bit rate.
func ParseBitRate(s string) (BitRate, error) {
	t := s
	for _, suffix := range []string{"bit/s", "bps"} {
		if rest, ok := strings.CutSuffix(t, suffix); ok {
			t = rest
			break
		}
	}
	v, err := scaled(t)
	if err != nil {
		return 0, fmt.Errorf("bit rate %q: want a positive number with k, M or G, such as 1Gbps", s)
	}
	return BitRate(v), nil
}

// ParseFrameRate reads "200k", "1.488M", "200k frame/s", "200kfps": a positive frame rate.
func ParseFrameRate(s string) (FrameRate, error) {
	t := s
	for _, suffix := range []string{"frame/s", "fps"} {
		if rest, ok := strings.CutSuffix(t, suffix); ok {
			t = rest
			break
		}
	}
	v, err := scaled(t)
	if err != nil {
		return 0, fmt.Errorf("frame rate %q: want a positive number with k, M or G, such as 200k", s)
	}
	return FrameRate(v), nil
}

func scaled(s string) (float64, error) {
	s = strings.TrimSpace(s)
	factor := 1.0
	for _, p := range prefixes[:4] {
		if rest, ok := strings.CutSuffix(s, p.name); ok {
			s, factor = strings.TrimSpace(rest), p.factor
			break
		}
	}
	v, err := strconv.ParseFloat(s, 64)
	if v *= factor; err != nil || !(v > 0) || math.IsInf(v, 0) {
		return 0, strconv.ErrSyntax
	}
	return v, nil
}

// Grouped prints v with commas and at least so many digits; 0: whole.
func Grouped(v float64, digits int) string {
	decimals := 0
	if v > 0 && digits > 0 {
		decimals = max(0, digits-1-int(math.Floor(math.Log10(v)+1e-9)))
	}
	s := strconv.FormatFloat(v, 'f', decimals, 64)
	whole, rest, _ := strings.Cut(s, ".")
	for i := len(whole) - 3; i > 0 && whole[i-1] != '-'; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if rest != "" {
		return whole + "." + rest
	}
	return whole
}
