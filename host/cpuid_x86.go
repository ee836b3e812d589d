// SPDX-License-Identifier: Apache-2.0

//go:build amd64 || 386

package host

import "encoding/binary"

func cpuid(leaf uint32) (eax, ebx, ecx, edx uint32)

// signature is what the CPU says its hypervisor is called, "" where it says that there
// is none (leaf 0x40000000; bit 31 of leaf 1's ecx promises it).
func signature() string {
	if _, _, features, _ := cpuid(1); features>>31 == 0 {
		return ""
	}
	_, ebx, ecx, edx := cpuid(0x4000_0000)
	var b []byte
	for _, r := range []uint32{ebx, ecx, edx} {
		b = binary.LittleEndian.AppendUint32(b, r)
	}
	return cstr(b)
}
