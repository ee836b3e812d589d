// SPDX-License-Identifier: Apache-2.0

package procedure

// A captureRate is an offeredRate that may be more than a subject can count.
type captureRate struct {
	offeredRate
	overload bool
}

const overloadRate = "overload"

// Set implements flag.Value.
func (r *captureRate) Set(s string) error {
	if s == overloadRate {
		*r = captureRate{offeredRate{text: overloadRate}, true}
		return nil
	}
	r.overload = false
	return r.offeredRate.Set(s)
}
