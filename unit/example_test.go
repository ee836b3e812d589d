// SPDX-License-Identifier: Apache-2.0

package unit_test

import (
	"fmt"

	"boxdyno/unit"
)

// Line rate on gigabit Ethernet with the smallest frames, FCS included.
func ExampleLineRate() {
	rate := unit.LineRate(1e9, 64)
	fmt.Printf("%.0f frames/s, %sbit/s without preamble and gap\n", float64(rate), unit.SI(float64(unit.L2(rate, 64))))
	// Output: 1488095 frames/s, 762 Mbit/s without preamble and gap
}

func ExampleParseFrameRate() {
	rate, err := unit.ParseFrameRate("200k")
	fmt.Println(float64(rate), err)
	// Output: 200000 <nil>
}
