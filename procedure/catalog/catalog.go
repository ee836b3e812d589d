// SPDX-License-Identifier: Apache-2.0

// Package catalog is the table of all procedures.
package catalog

import (
	"slices"

	"boxdyno/procedure"
	"boxdyno/procedure/soak"
	"boxdyno/procedure/storage"
)

// All is every procedure.
var All = procedure.WithBeside(slices.Concat(procedure.Own, []procedure.Spec{procedure.CryptoSpec, storage.Spec, soak.Spec}, procedure.Rest))
