// SPDX-License-Identifier: Apache-2.0

package result

// The settings of a point that say what ran on the DUT beside its trials, on which
// CPUs, and how the DUT was heated before them; the first and the last also name the
// phase and the usage of a trial that are the load's, and of the heating.
const (
	BesideKey     = "beside"
	BesideCPUsKey = "beside_cpus"
	HeatKey       = "heat"
)

// Alone is those settings where nothing ran beside and nothing was heated. They are
// not in records of versions that do not know them, and true of those.
var Alone = []Pair{{BesideKey, "none"}, {BesideCPUsKey, "auto"}, {HeatKey, "0"}}

// Unsaid are settings of points that stand in no record of a version without these
// parameters, and are true of each such record. Points with them and without them have
// the same configuration.
var Unsaid = append([]Pair{{"networks", "1"}, {"userland", "native"}, {"vlan", "0"}, {"dut_cpus", "1"}, {"senders", "1"}, {"target", "through"}, {"requests", "100"}}, Alone...)
