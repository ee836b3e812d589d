// SPDX-License-Identifier: Apache-2.0

package mpi

import (
	"os"
	"testing"

	"boxdyno/subject"
)

func TestMain(m *testing.M) {
	subject.Main()
	os.Exit(m.Run())
}
