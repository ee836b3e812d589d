// SPDX-License-Identifier: Apache-2.0

// Package catalog is the table of all procedures.
package catalog

import (
	"slices"

	"boxdyno/procedure"
)

// All is every procedure.
var All = procedure.WithBeside(slices.Concat(procedure.Own, procedure.Rest))
