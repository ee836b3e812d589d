// SPDX-License-Identifier: Apache-2.0

// Package catalog is the table of all procedures.
package catalog

import (
	"boxdyno/procedure"
	"boxdyno/procedure/compute"
	"boxdyno/procedure/soak"
	"boxdyno/procedure/storage"
	"boxdyno/procedure/tunnel"
)

// All is every procedure.
var All = procedure.WithBeside([]procedure.Spec{
	procedure.ForwardSpec, procedure.SelfTestSpec, procedure.ThroughputSpec, procedure.LatencySpec, procedure.LossCurveSpec, procedure.BackToBackSpec, procedure.RecoverySpec,
	procedure.SecuritySpec, procedure.ConnectionsSpec, procedure.CaptureSpec, procedure.IDSSpec, procedure.InferSpec, procedure.FloodSpec,
	compute.CryptoSpec, storage.Spec, soak.Spec, compute.CPUSpec, compute.HashSpec, compute.MemorySpec, compute.CodecSpec, compute.HPLSpec,
	tunnel.StreamSpec, tunnel.VPNSpec,
})
