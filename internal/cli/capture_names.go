// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"
)

// captureKeys are parameters whose value may be a capture's name.
var captureKeys = []string{"file", "traffic"}

// captureFiles completes the name of a capture, or of a folder that may hold some; before
// stands in front of each.
func captureFiles(before, name string) (all []string) {
	folder, begin := filepath.Split(name)
	list, _ := os.ReadDir(cmp.Or(folder, "."))
	for _, e := range list {
		n := e.Name()
		plain := strings.TrimSuffix(strings.TrimSuffix(n, ".gz"), ".zst")
		capture := strings.HasSuffix(plain, ".pcap") || strings.HasSuffix(plain, ".pcapng") || strings.HasSuffix(plain, ".cap")
		switch {
		case !strings.HasPrefix(n, begin) || strings.HasPrefix(n, ".") && begin == "":
		case e.IsDir():
			all = append(all, before+folder+n+"/")
		case capture:
			all = append(all, before+folder+n)
		}
	}
	return all
}
