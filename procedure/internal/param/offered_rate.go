// SPDX-License-Identifier: Apache-2.0

package param

import (
	"strings"

	"boxdyno/frame"
	"boxdyno/unit"
)

// An OfferedRate is a rate in frame/s, or in bit/s of a layer; both 0: searched. It is
// a flag.Value.
type OfferedRate struct {
	Text   string
	Frames unit.FrameRate
	Bits   unit.BitRate
	Layer  string // that bits are of: "" layer 2, FCS included
}

// Values of an offeredRate, and its layers.
const (
	SearchRate   = "search"
	LayerLine    = "line"    // layer 1: preamble and gap included, so that a link's rate is all that it carries
	LayerPayload = "payload" // of UDP alone
)

// String implements flag.Value.
func (r *OfferedRate) String() string { return r.Text }

// Set implements flag.Value.
func (r *OfferedRate) Set(s string) (err error) {
	n := OfferedRate{Text: s}
	layer, rest, named := strings.Cut(s, ":")
	switch {
	case s == SearchRate:
	case named && (layer == LayerLine || layer == LayerPayload):
		n.Layer = layer
		n.Bits, err = unit.ParseBitRate(rest)
	case strings.HasSuffix(s, "bps"), strings.HasSuffix(s, "bit/s"):
		n.Bits, err = unit.ParseBitRate(s)
	default:
		n.Frames, err = unit.ParseFrameRate(s)
	}
	if err == nil {
		*r = n
	}
	return err
}

// Searched says whether no rate is stated.
func (r *OfferedRate) Searched() bool { return r.Frames == 0 && r.Bits == 0 }

// Of is the rate in frames whose mean size is mean octets with FCS, with so many of UDP
// payload; published says that bits are of payload where no layer is named.
func (r *OfferedRate) Of(mean float64, payload int, published bool) unit.FrameRate {
	switch {
	case r.Bits == 0:
		return r.Frames
	case r.Layer == LayerLine:
		return unit.LineRate(r.Bits, mean)
	case r.Layer == LayerPayload || published:
		mean = float64(payload)
	}
	return unit.FrameRate(float64(r.Bits) / 8 / mean)
}

// A FrameSize is a FrameMix that may be 0: not given.
type FrameSize struct{ FrameMix }

// String implements flag.Value.
func (f *FrameSize) String() string {
	if f.Name == "" {
		return "0"
	}
	return f.Name
}

// Set implements flag.Value.
func (f *FrameSize) Set(s string) error {
	if s == "0" {
		f.Mix = frame.Mix{}
		return nil
	}
	return f.FrameMix.Set(s)
}
