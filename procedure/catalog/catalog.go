// SPDX-License-Identifier: Apache-2.0

// Package catalog is the table of all procedures.
package catalog

import (
	"boxdyno/procedure"
	"boxdyno/procedure/capture"
	"boxdyno/procedure/compute"
	"boxdyno/procedure/connections"
	"boxdyno/procedure/flood"
	"boxdyno/procedure/infer"
	"boxdyno/procedure/rfc2544"
	"boxdyno/procedure/security"
	"boxdyno/procedure/soak"
	"boxdyno/procedure/storage"
	"boxdyno/procedure/tunnel"
)

// All is every procedure.
var All = procedure.WithBeside([]procedure.Spec{
	rfc2544.ForwardSpec, rfc2544.SelfTestSpec, rfc2544.ThroughputSpec, rfc2544.LatencySpec, rfc2544.LossCurveSpec, rfc2544.BackToBackSpec, rfc2544.RecoverySpec,
	security.SecuritySpec, connections.ConnectionsSpec, capture.CaptureSpec, capture.IDSSpec, infer.InferSpec, flood.FloodSpec,
	compute.CryptoSpec, storage.Spec, soak.Spec, compute.CPUSpec, compute.HashSpec, compute.MemorySpec, compute.CodecSpec, compute.HPLSpec,
	tunnel.StreamSpec, tunnel.VPNSpec,
})
