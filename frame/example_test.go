// SPDX-License-Identifier: Apache-2.0

package frame_test

import (
	"fmt"
	"net/netip"

	"boxdyno/frame"
	"boxdyno/unit"
)

// A frame of stream 1 is built, stamped, and told apart by the meter's parser.
func ExampleBuilder() {
	b, err := frame.NewBuilder(frame.Spec{
		Sizes: []unit.FrameSize{64, 512}, Flows: 1,
		SrcMAC: [6]byte{2, 0, 0, 0, 0, 1}, DstMAC: [6]byte{2, 0, 0, 0, 0, 2},
		Src: netip.MustParseAddr("198.18.0.2"), Dst: netip.MustParseAddr("198.19.0.2"),
		SrcPort: frame.FirstPort, DstPort: frame.Port,
	}, 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	buf := make([]byte, 2048)
	n := b.Build(1, buf) // the second frame has the second size, FCS included
	b.Stamp(buf[:n], 1000)
	sig, class := frame.Parse(buf[:n])
	fmt.Println(n, sig.Stream, sig.Sequence, int64(sig.Time), class == frame.Whole)
	// Output: 508 1 1 1000 true
}
