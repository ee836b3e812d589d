// SPDX-License-Identifier: Apache-2.0

package tune

import (
	"context"
	"fmt"
	"strings"

	"boxdyno/host"
)

// irqbalance is the service of that name, which moves interrupts between CPUs every
// ten seconds. It is started and stopped by systemd, not enabled: a reboot forgets.
var irqbalance = Spec{
	Name: "irqbalance", Doc: "the service that moves interrupts between CPUs; guides contradict each other on it", Values: "on, off",
	Scope: PerMachine, Check: oneOf("on", "off"),
	Read: func(ctx context.Context, at Site) (string, error) {
		out, err := systemctl(ctx, "show", "irqbalance.service", "--property=LoadState,ActiveState")
		if err != nil {
			return "", err
		}
		switch {
		case !strings.Contains(out, "LoadState=loaded"):
			return "", &host.Missing{What: "the service irqbalance", Remedy: [][]string{{"apt-get", "install", "-y", "irqbalance"}}}
		case strings.Contains(out, "ActiveState=active"), strings.Contains(out, "ActiveState=activating"):
			return "on", nil
		}
		return "off", nil
	},
	Write: func(ctx context.Context, at Site, value string) error {
		_, err := systemctl(ctx, map[string]string{"on": "start", "off": "stop"}[value], "irqbalance.service")
		return err
	},
	Export: func(_, value string) ([]Exported, error) {
		return command("systemctl --no-block " + map[string]string{"on": "start", "off": "stop"}[value] + " irqbalance.service"), nil
	},
}

func systemctl(ctx context.Context, args ...string) (string, error) {
	out, err := (&host.Local{}).Run(ctx, "", append([]string{"systemctl"}, args...)...)
	if err != nil && strings.Contains(err.Error(), "not been booted with systemd") {
		err = fmt.Errorf("%w: this machine was not started by systemd", host.ErrNotSupported)
	}
	return string(out), err
}
