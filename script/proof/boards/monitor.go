// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"
)

// lastMain does something to a board that lasts: "stop", "reset", "link".
func lastMain(what string, args []string) error {
	if len(args) < 2 {
		return fmt.Errorf("%s: say which bench and board", what)
	}
	l := lasting{bench: args[0], name: args[1]}
	if _, err := os.Stat(l.dir()); err != nil {
		return fmt.Errorf("there is no board %q: script/boards --start %s starts one", l.name, l.name)
	}
	switch {
	case what == "stop":
		return l.stop()
	case what == "reset":
		begin := time.Now()
		before, _, _ := l.boot() // "" of a board that hangs
		if err := l.monitor("system_reset", nil); err != nil {
			return err
		}
		if err := l.awaitSSH(6*time.Minute, before); err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "%s is back after %.0f s\n", l.name, time.Since(begin).Seconds())
		return nil
	case what == "link" && len(args) == 4 && (args[3] == "on" || args[3] == "off"):
		port := args[2] // the control network's
		if _, err := strconv.Atoi(port); err == nil {
			port = "p" + port
		} else if port != "ssh" {
			return fmt.Errorf("link: %q is neither ssh nor the number of a port", port)
		}
		return l.monitor("set_link", map[string]any{"name": port, "up": args[3] == "on"})
	}
	return fmt.Errorf("%s: say a board, the number of a port or ssh, and on or off", what)
}

// monitor has QEMU execute one command (QEMU's docs/interop/qmp-spec).
func (l lasting) monitor(command string, arguments any) error {
	c, err := net.Dial("unix", l.at("qmp"))
	if err != nil {
		return fmt.Errorf("reach QEMU, which a board behind virtual cables has not: %w", err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return err
	}
	lines, enc := bufio.NewScanner(c), json.NewEncoder(c)
	type request struct {
		Execute   string `json:"execute"`
		Arguments any    `json:"arguments,omitempty"`
	}
	for _, r := range []request{{Execute: "qmp_capabilities"}, {command, arguments}} {
		if err := enc.Encode(r); err != nil {
			return fmt.Errorf("ask QEMU: %w", err)
		}
		for {
			if !lines.Scan() {
				return fmt.Errorf("QEMU did not answer %s: %v", r.Execute, lines.Err())
			}
			var reply struct {
				Return *json.RawMessage
				Error  *struct{ Desc string }
			}
			if err := json.Unmarshal(lines.Bytes(), &reply); err != nil {
				return fmt.Errorf("read QEMU's answer: %w", err)
			}
			if reply.Error != nil {
				return fmt.Errorf("QEMU refuses %s: %s", command, reply.Error.Desc)
			}
			if reply.Return != nil {
				break
			}
		}
	}
	return nil
}
