// SPDX-License-Identifier: Apache-2.0

package flood

import (
	"os"
	"testing"

	"boxdyno/subject/catalog"
)

func TestMain(m *testing.M) {
	catalog.Main()
	os.Exit(m.Run())
}
