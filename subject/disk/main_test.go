// SPDX-License-Identifier: Apache-2.0

package disk

import (
	"os"
	"testing"

	"boxdyno/subject"
)

func TestMain(m *testing.M) {
	subject.Main()
	KeeperMain()
	os.Exit(m.Run())
}
