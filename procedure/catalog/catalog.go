// SPDX-License-Identifier: Apache-2.0

// Package catalog is the table of all procedures.
package catalog

import (
	"slices"

	"boxdyno/procedure"
	"boxdyno/procedure/compute"
	"boxdyno/procedure/soak"
	"boxdyno/procedure/storage"
	"boxdyno/procedure/tunnel"
)

// All is every procedure.
var All = procedure.WithBeside(slices.Concat(procedure.Own, []procedure.Spec{
	compute.CryptoSpec, storage.Spec, soak.Spec, compute.CPUSpec, compute.HashSpec, compute.MemorySpec, compute.CodecSpec, compute.HPLSpec,
	tunnel.StreamSpec, tunnel.VPNSpec,
}))
