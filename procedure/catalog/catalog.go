// SPDX-License-Identifier: Apache-2.0

// Package catalog is the table of all procedures.
package catalog

import (
	"slices"

	"boxdyno/procedure"
	"boxdyno/procedure/capture"
	"boxdyno/procedure/connections"
	"boxdyno/procedure/far"
	"boxdyno/procedure/flood"
	"boxdyno/procedure/infer"
	"boxdyno/procedure/replay"
	"boxdyno/procedure/rfc2544"
	"boxdyno/procedure/security"
	"boxdyno/procedure/tunnel"
)

// All is every procedure.
var All = procedure.WithBeside(slices.Concat([]procedure.Spec{
	rfc2544.ForwardSpec, rfc2544.SelfTestSpec, rfc2544.ThroughputSpec, rfc2544.LatencySpec, rfc2544.LossCurveSpec, rfc2544.BackToBackSpec, rfc2544.RecoverySpec,
	security.SecuritySpec, connections.ConnectionsSpec, capture.CaptureSpec(), capture.IDSSpec(), infer.InferSpec, flood.FloodSpec, replay.Spec,
}, far.Specs, []procedure.Spec{tunnel.StreamSpec, tunnel.VPNSpec}))
