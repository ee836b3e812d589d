// SPDX-License-Identifier: Apache-2.0

package subject

import (
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	Main()
	os.Exit(m.Run())
}
