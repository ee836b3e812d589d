// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"errors"
	"net"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// What the kernel answers never lies where the garbage collector looks for a pointer.
func TestIndexOfAPort(t *testing.T) {
	lo, err := net.InterfaceByName("lo")
	if err != nil {
		t.Fatal(err)
	}
	tool, err := openTool()
	if err != nil {
		t.Fatal(err)
	}
	defer tool.Close()
	if _, err := tool.count("lo"); err != nil {
		t.Fatal(err)
	}
	if n, err := tool.index("lo"); n != lo.Index || err != nil {
		t.Errorf("lo has index %d: %v; want %d", n, err, lo.Index)
	}
	if tool.req.data != unsafe.Pointer(&tool.buf[0]) {
		t.Errorf("the request points to %v, which is no memory of ours", tool.req.data)
	}
	for _, port := range []string{"none0", strings.Repeat("n", unix.IFNAMSIZ)} {
		if n, err := tool.index(port); !errors.Is(err, unix.ENODEV) {
			t.Errorf("%s has index %d: %v", port, n, err)
		}
	}
	if n := testing.AllocsPerRun(20, func() { _, _ = tool.index("lo") }); n > 0 {
		t.Errorf("a question makes %v allocations", n)
	}
}
