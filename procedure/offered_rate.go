// SPDX-License-Identifier: Apache-2.0

package procedure

import (
	"strings"

	"boxdyno/frame"
	"boxdyno/procedure/internal/param"
	"boxdyno/unit"
)

// An offeredRate is a rate in frame/s, or in bit/s of a layer; both 0: searched. It is
// a flag.Value.
type offeredRate struct {
	text   string
	frames unit.FrameRate
	bits   unit.BitRate
	layer  string // that bits are of: "" layer 2, FCS included
}

// Values of an offeredRate, and its layers.
const (
	searchRate   = "search"
	layerLine    = "line"    // layer 1: preamble and gap included, so that a link's rate is all that it carries
	layerPayload = "payload" // of UDP alone
)

// String implements flag.Value.
func (r *offeredRate) String() string { return r.text }

// Set implements flag.Value.
func (r *offeredRate) Set(s string) (err error) {
	n := offeredRate{text: s}
	layer, rest, named := strings.Cut(s, ":")
	switch {
	case s == searchRate:
	case named && (layer == layerLine || layer == layerPayload):
		n.layer = layer
		n.bits, err = unit.ParseBitRate(rest)
	case strings.HasSuffix(s, "bps"), strings.HasSuffix(s, "bit/s"):
		n.bits, err = unit.ParseBitRate(s)
	default:
		n.frames, err = unit.ParseFrameRate(s)
	}
	if err == nil {
		*r = n
	}
	return err
}

// searched says whether no rate is stated.
func (r *offeredRate) searched() bool { return r.frames == 0 && r.bits == 0 }

// of is the rate in frames whose mean size is mean octets with FCS, with so many of UDP
// payload; published says that bits are of payload where no layer is named.
func (r *offeredRate) of(mean float64, payload int, published bool) unit.FrameRate {
	switch {
	case r.bits == 0:
		return r.frames
	case r.layer == layerLine:
		return unit.LineRate(r.bits, mean)
	case r.layer == layerPayload || published:
		mean = float64(payload)
	}
	return unit.FrameRate(float64(r.bits) / 8 / mean)
}

// A frameSize is a FrameMix that may be 0: not given.
type frameSize struct{ param.FrameMix }

// String implements flag.Value.
func (f *frameSize) String() string {
	if f.Name == "" {
		return "0"
	}
	return f.Name
}

// Set implements flag.Value.
func (f *frameSize) Set(s string) error {
	if s == "0" {
		f.Mix = frame.Mix{}
		return nil
	}
	return f.FrameMix.Set(s)
}
