// SPDX-License-Identifier: Apache-2.0

package cli

import "fmt"

// guard refuses a port that must not be flooded, and says why and how to go on.
func (p *trafficPort) guard() error {
	why, err := p.Needed()
	if err != nil {
		return err
	}
	if why != "" {
		return usage(fmt.Errorf("%s %s: choose another port, or give --force to flood it all the same", p.Name, why))
	}
	return nil
}
