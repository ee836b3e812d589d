// SPDX-License-Identifier: Apache-2.0

package procedure

import "boxdyno/result"

// Own are the rows that tests ask for by name.
var Own = []Spec{ForwardSpec, ThroughputSpec, LatencySpec, LossCurveSpec, BackToBackSpec, RecoverySpec, SecuritySpec, ConnectionsSpec, FloodSpec}

func value(name string, v float64) result.Value { return result.Value{Metric: name, Value: v} }
