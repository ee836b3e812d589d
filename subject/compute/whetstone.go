// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"boxdyno/result"

	"boxdyno/subject/internal/made"
)

// whetstonePass is how many Whetstone instructions a pass of whetstone_1.c is.
const whetstonePass = 1e6

// whetstone is Whetstone in double precision: arithmetic, arrays, calls and the C
// library's functions. The values are those of modules 2, 3, 4, 6, 7, 8, 9 and 11 as
// the program is published with, for ten rounds.
var whetstone = benchmark{
	name: "whetstone", sources: []string{"whetstone_1.c", "whetstone_2.c", "whetstone.h"}, libs: []string{"-lm"},
	right: "-6.8342E-02 -4.6264E-01 -7.2972E-01 -1.1240E+00 -5.5336E-02 -4.4744E-01 -7.1097E-01 -1.1031E+00 " +
		"1.0000E+00 1.0000E+00 1.0000E+00 1.0000E+00 6.0000E+00 6.0000E+00 -7.1097E-01 -1.1031E+00 " +
		"4.9041E-01 4.9041E-01 4.9039E-01 4.9039E-01 1.0000E+00 1.0000E+00 9.9994E-01 9.9994E-01 " +
		"3.0000E+00 2.0000E+00 3.0000E+00 -1.1031E+00 8.3467E-01 8.3467E-01 8.3467E-01 8.3467E-01",
	figures: func(r made.Ran) []result.Value {
		return []result.Value{{Metric: "whetstones_per_s", Unit: "1/s", Value: r.Runs * whetstonePass / r.Seconds}}
	},
}
