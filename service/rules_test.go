// SPDX-License-Identifier: Apache-2.0

package service

import (
	"regexp"
	"strconv"
	"testing"

	"boxdyno/frame"
	"boxdyno/internal/testutil"
)

// However many there are, rules before the match are for other valid ports.
func TestFilterRules(t *testing.T) {
	testutil.Computed(t)
	rules := regexp.MustCompile(`udp dport (\d+) counter name (\w+)`).FindAllStringSubmatch(filterRules(Service{Rules: MaxRules, Block: true}), -1)
	if len(rules) != MaxRules+1 {
		t.Fatalf("%d rules, want %d and the match", len(rules), MaxRules)
	}
	for i, r := range rules {
		port, _ := strconv.Atoi(r[1])
		if match := i == MaxRules; match != (port == frame.Port) || match != (r[2] == "matched") || port < 1 || port > 65535 {
			t.Fatalf("rule %d is for port %d and counts %s", i, port, r[2])
		}
	}
}
