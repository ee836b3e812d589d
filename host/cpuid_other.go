// SPDX-License-Identifier: Apache-2.0

//go:build !amd64 && !386

package host

// signature is known on x86 alone.
func signature() string { return "" }
