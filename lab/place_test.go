// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"errors"
	"fmt"
	"testing"
	"testing/fstest"

	"boxdyno/host"
)

// machine is a /sys whose cores have the given siblings: "0-1" for CPUs 0 and 1.
func machine(siblings ...string) fstest.MapFS {
	m := fstest.MapFS{}
	for cpu, s := range siblings {
		m[fmt.Sprintf("devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu)] = &fstest.MapFile{Data: []byte(s + "\n")}
	}
	return m
}

func TestChoosePlace(t *testing.T) {
	cores2, cores4 := machine("0", "1"), machine("0", "1", "2", "3")
	for _, c := range []struct {
		name, want string
		cpus       []int
		sys        fstest.MapFS
		place      place
	}{
		{"one CPU shares", "", []int{1}, cores2, place{shared, 1, 1, false}},
		{"two split", "", []int{0, 1}, cores2, place{split, 0, 1, false}},
		{"shared if asked", shared, []int{0, 1}, cores2, place{shared, 1, 1, false}},
		{"the first is for interrupts", split, []int{0, 1, 2, 3}, cores4, place{split, 2, 3, false}},
		{"not the sibling", split, []int{0, 1, 2, 3}, machine("0-1", "0-1", "2-3", "2-3"), place{split, 1, 3, false}},
		{"siblings if there is nothing else", split, []int{2, 3}, machine("0-1", "0-1", "2-3", "2-3"), place{split, 2, 3, true}},
		{"a machine that does not say", split, []int{0, 1}, fstest.MapFS{}, place{split, 0, 1, false}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := choosePlace(c.want, c.cpus, c.sys)
			if err != nil || got != c.place {
				t.Errorf("got %+v, %v; want %+v", got, err, c.place)
			}
		})
	}
}

func TestSplitNeedsTwoCPUs(t *testing.T) {
	_, err := choosePlace(split, []int{3}, machine("0", "1", "2", "3"))
	var missing *host.Missing
	if !errors.As(err, &missing) {
		t.Fatalf("got %v, want a *host.Missing", err)
	}
}
