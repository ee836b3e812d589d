// SPDX-License-Identifier: Apache-2.0

package ports

import "boxdyno/internal/ethtool"

// IsTap says whether a port of the calling thread's namespace is a tap. Its queue is in
// memory, and whoever reads it, such as a virtual machine, is slower than any sender. Of
// a bulk that finds no room it counts one tx_dropped, so its drops are counted by the
// sender: the port has refused them.
func IsTap(port string) bool {
	e, err := ethtool.Open()
	if err != nil {
		return false
	}
	defer e.Close()
	d, err := e.Driver(port)
	return err == nil && d.Name == "tun"
}
