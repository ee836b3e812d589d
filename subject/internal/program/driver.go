// SPDX-License-Identifier: Apache-2.0

package program

import (
	"cmp"
	"strconv"
	"strings"
)

// KernelDriver is the driver of a cipher ("skcipher" "cbc(aes)", "aead" "gcm(aes)") that the
// kernel takes, by the text of /proc/crypto: of those that are not internal and did not fail
// their self-test the one of highest priority; "": there is none.
func KernelDriver(text, kind, name string) (driver string) {
	best := -1
	for block := range strings.SplitSeq(text, "\n\n") {
		keys := map[string]string{}
		for line := range strings.Lines(block) {
			if k, v, ok := strings.Cut(line, ":"); ok {
				keys[strings.TrimSpace(k)] = strings.TrimSpace(v)
			}
		}
		priority, err := strconv.Atoi(keys["priority"])
		cipher := keys["type"] == kind || kind == "skcipher" && keys["type"] == "lskcipher"
		if err != nil || !cipher || keys["name"] != name || keys["internal"] == "yes" || cmp.Or(keys["selftest"], "passed") != "passed" || priority <= best {
			continue
		}
		best, driver = priority, keys["driver"]
	}
	return driver
}
