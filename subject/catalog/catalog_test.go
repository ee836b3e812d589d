// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"slices"
	"strings"
	"testing"

	"boxdyno/subject/capture"
)

func TestFind(t *testing.T) {
	if _, err := All.Find("nothing"); err == nil || !strings.Contains(err.Error(), "tcpdump") {
		t.Error(err)
	}
	if s, err := All.Find("scapy"); err != nil || s.Work != capture.Dissection {
		t.Error(s, err)
	}
}

func TestNamesAreUnique(t *testing.T) {
	var names []string
	for _, s := range All {
		if slices.Contains(names, s.Name) || s.Doc == "" || s.Work == "" {
			t.Errorf("%+v", s)
		}
		names = append(names, s.Name)
	}
}
