// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"os"
	"testing"

	"boxdyno/subject"
)

func TestMain(m *testing.M) {
	subject.Main()
	Main()
	os.Exit(m.Run())
}
