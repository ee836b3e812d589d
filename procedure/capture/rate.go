// SPDX-License-Identifier: Apache-2.0

package capture

import "boxdyno/procedure/internal/param"

// A captureRate is an offeredRate that may be more than a subject can count.
type captureRate struct {
	param.OfferedRate
	overload bool
}

const overloadRate = "overload"

// Set implements flag.Value.
func (r *captureRate) Set(s string) error {
	if s == overloadRate {
		*r = captureRate{param.OfferedRate{Text: overloadRate}, true}
		return nil
	}
	r.overload = false
	return r.OfferedRate.Set(s)
}
