// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
)

// A port of a recorded tree is read from
//
//	sys/class/net/NAME/statistics/   the files of rtnl_link_stats64, one a counter
//	sys/class/net/NAME/device/uevent DRIVER=...
//	ethtool/NAME                     what ethtool -S NAME printed
//
// It has no queueing discipline and no tc.

func recordedDriver(root fs.FS, port string) (string, error) {
	text, err := fs.ReadFile(root, "sys/class/net/"+port+"/device/uevent")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		if d, ok := strings.CutPrefix(line, "DRIVER="); ok {
			return strings.TrimSpace(d), nil
		}
	}
	return "", fmt.Errorf("sys/class/net/%s/device/uevent names no driver", port)
}

func recordedCounters(root fs.FS, port string, c counters) error {
	dir := "sys/class/net/" + port + "/statistics"
	files, err := fs.ReadDir(root, dir)
	if err != nil {
		return err
	}
	for _, f := range files {
		text, err := fs.ReadFile(root, dir+"/"+f.Name())
		if err != nil {
			return err
		}
		if c[f.Name()], err = strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64); err != nil {
			return fmt.Errorf("%s/%s: %w", dir, f.Name(), err)
		}
	}
	text, err := fs.ReadFile(root, "ethtool/"+port)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // a driver without statistics of its own
	}
	if err != nil {
		return err
	}
	return parseEthtool(string(text), c)
}

// parseEthtool parses what ethtool -S prints, "     RX Dropped Frames: 12", into
// "ethtool RX Dropped Frames".
func parseEthtool(text string, c counters) error {
	for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		if strings.HasPrefix(line, "NIC statistics:") {
			continue
		}
		at := strings.LastIndex(line, ": ")
		if at < 0 {
			return fmt.Errorf("line %d of ethtool -S has no value: %q", i+1, line)
		}
		n, err := strconv.ParseUint(strings.TrimSpace(line[at+2:]), 10, 64)
		if err != nil {
			return fmt.Errorf("line %d of ethtool -S: %w", i+1, err)
		}
		c["ethtool "+strings.TrimSpace(line[:at])] = n
	}
	return nil
}
