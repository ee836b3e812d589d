// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"encoding/binary"
	"os"

	"boxdyno/internal/caps"
	"boxdyno/result"
)

// awake keeps the CPUs out of their sleep states for as long as the returned file
// is open (Documentation/power/pm_qos_interface.rst): in a sandbox the tester
// would pay for waking the DUT, which on a wire the NIC does, and on a virtual
// machine that costs more than the frame. The kernel takes it back when the
// process ends, however it ends. It is nil where the machine has no such
// interface, or no right to it; the setting says which.
func awake() (*os.File, result.Pair) {
	const path = "/dev/cpu_dma_latency"
	var f *os.File
	err := caps.Override(func() (err error) {
		f, err = os.OpenFile(path, os.O_WRONLY, 0)
		return err
	})
	if err == nil {
		if _, err = f.Write(binary.NativeEndian.AppendUint32(nil, 0)); err != nil {
			f.Close()
		}
	}
	if err != nil {
		return nil, result.Pair{Key: "idle", Value: "CPUs sleep as they like (" + err.Error() + ")"}
	}
	return f, result.Pair{Key: "idle", Value: "CPUs poll, " + path + " is 0"}
}
