// SPDX-License-Identifier: Apache-2.0

package host

import (
	"fmt"
	"testing"
	"time"
)

func TestCPUs(t *testing.T) {
	read := func(stat, softirqs, softnet, sched string) CPUs {
		c, err := readCPUs(tree(map[string]string{
			"proc/stat": stat, "proc/softirqs": softirqs, "proc/self/net/softnet_stat": softnet, "proc/77/schedstat": sched,
		}), []int{77, 78})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	const columns = "                    CPU0       CPU2\n          HI:          0          0\n"
	before := read("cpu  1 1 1 1 1 1 1 1 0 0\ncpu0 100 0 0 1000 5 0 0 0 0 0\ncpu2 0 0 0 0 0 0 0 0 0 0\nintr 1\n",
		columns+"      NET_RX:        100 4294967295\n",
		"00000000 00000000 00000004 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000\n"+
			"00000000 00000000 ffffffff 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000002\n",
		"1000000 500 3\n")
	after := read("cpu  1 1 1 1 1 1 1 1 0 0\ncpu0 110 10 20 1040 4 5 10 5 0 0\ncpu2 0 0 0 0 0 0 0 0 0 0\n",
		columns+"      NET_RX:        150          9\n",
		"00000000 00000000 00000006 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000\n"+
			"00000000 00000000 00000001 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000002\n",
		"41000000 9000500 5\n")
	got := after.Since(before)
	if want := "[{0  false 0.2 0.2 0.05 0.1 0.05 0.4 50 2} {2  false 0 0 0 0 0 0 10 2}]"; fmt.Sprint(got) != want {
		t.Errorf("got %v, want %v", got, want)
	}
	if ran, waited := after.Threads(before); ran != 40*time.Millisecond || waited != 9*time.Millisecond {
		t.Errorf("threads ran %v and waited %v", ran, waited)
	}
	two := func(a, b [2]time.Duration) CPUs { return CPUs{threads: map[int][2]time.Duration{1: a, 2: b}} }
	// Each waits while the other runs; then something else runs for 3.
	if ran, waited := two([2]time.Duration{15, 8}, [2]time.Duration{5, 13}).Threads(two([2]time.Duration{10, 0}, [2]time.Duration{0, 5})); ran != 10 || waited != 3 {
		t.Errorf("two threads ran %d and waited %d", ran, waited)
	}
	if _, err := readCPUs(tree(map[string]string{"proc/stat": "cpu 1\n"}), nil); err == nil {
		t.Error("a file without CPUs was taken")
	}
}

func TestCPUsHere(t *testing.T) {
	before, err := CPUsHere()
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(60 * time.Millisecond); time.Now().Before(end); {
	}
	after, err := CPUsHere()
	if err != nil {
		t.Fatal(err)
	}
	var busy float64
	for _, c := range after.Since(before) {
		if sum := c.User + c.System + c.IRQ + c.SoftIRQ + c.Steal + c.Idle; sum < 0.999 || sum > 1.001 {
			t.Errorf("CPU %d: shares make %v", c.CPU, sum)
		}
		busy += 1 - c.Idle
	}
	if busy == 0 {
		t.Error("no CPU was busy while this test was")
	}
}
