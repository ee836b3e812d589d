// SPDX-License-Identifier: Apache-2.0

package subject

import (
	"errors"
	"testing"
	"time"

	"boxdyno/host"
)

// A part that fails when the time of all is nearly over names that time; an earlier one
// failed by itself.
func TestAtLimit(t *testing.T) {
	exit := &host.Exit{Name: "hpcc", Code: 14}
	const late = "hpcc ended with exit code 14, after 4m59s of the 5m0s that it may take: another machine, whose time was over, may have ended it"
	for after, want := range map[time.Duration]string{
		time.Minute:                 exit.Error(),
		299*time.Second - 100*1e6:   late,
		5*time.Minute - time.Minute: exit.Error(),
	} {
		if err := AtLimit(exit, after, 5*time.Minute); err.Error() != want || !errors.Is(err, exit) {
			t.Errorf("after %v: %v", after, err)
		}
	}
	if err := AtLimit(nil, time.Hour, time.Minute); err != nil {
		t.Errorf("of one that did not fail: %v", err)
	}
}
