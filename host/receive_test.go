// SPDX-License-Identifier: Apache-2.0

package host

import (
	"fmt"
	"testing"
	"testing/fstest"
	"time"

	"boxdyno/result"
)

// receivingFrom is a machine of two CPUs: ticks of softirq and idle of CPU 1, its squeezes and
// drops, and ns that its ksoftirqd ran.
func receivingFrom(softirq, idle, squeezed, dropped, ran int) fstest.MapFS {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	return fstest.MapFS{
		"proc/stat":                  file(fmt.Sprintf("cpu  0 0 0 0 0 0 0 0 0 0\ncpu0 10 0 0 %d 0 0 1 0 0 0\ncpu1 0 0 0 %d 0 0 %d 0 0 0\n", 100+idle+softirq, idle, softirq)),
		"proc/softirqs":              file(fmt.Sprintf("                    CPU0       CPU1\n      NET_RX:          5       %d\n", 7+softirq)),
		"proc/self/net/softnet_stat": file(fmt.Sprintf("00000001 00000000 00000000\n00000001 %08x %08x\n", dropped, squeezed)),
		"proc/17/comm":               file("ksoftirqd/0\n"),
		"proc/25/comm":               file("ksoftirqd/1\n"),
		"proc/99/comm":               file("ksoftirqd/x\n"),
		"proc/17/schedstat":          file("0 0 0\n"),
		"proc/25/schedstat":          file(fmt.Sprintf("%d %d 3\n", ran, ran/10)),
	}
}

func TestReceiving(t *testing.T) {
	begin := time.Unix(100, 0)
	before, err := receiving(receivingFrom(100, 1000, 5, 2, 1e6), begin)
	if err != nil {
		t.Fatal(err)
	}
	now, err := receiving(receivingFrom(190, 1010, 25, 42, 1e6+5e8), begin.Add(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	r := now.Since(before)
	if r == nil || r.Ran != 0.9 || r.Ksoftirqd != 0.5 || r.Waited != 0.05 || r.Dropped != 40 || len(r.CPUs) != 2 ||
		r.CPUs[1].Role != "dut" || r.CPUs[0].Role != "" || r.CPUs[1].Squeezed != 20 || r.CPUs[1].Polls != 90 {
		t.Errorf("%+v", r)
	}
	if r := now.Since(now); r != nil {
		t.Errorf("no time and no frame: %+v", r)
	}
	if _, err := receiving(fstest.MapFS{}, begin); err == nil {
		t.Error("a machine without CPU times was read")
	}
}

func TestQueueState(t *testing.T) {
	sys := fstest.MapFS{
		"class/net/e0/mtu":                  {Data: []byte("1500\n")},
		"class/net/e0/queues/rx-0/rps_cpus": {Data: []byte("00000000,00000000\n")},
		"class/net/e0/queues/rx-1/rps_cpus": {Data: []byte("0,2\n")},
	}
	kv := QueueState(sys, "e0")
	if result.Get(kv, "e0 mtu") != "1500" || result.Get(kv, "e0 rx queues") != "2" || result.Get(kv, "e0 rps") != "on" {
		t.Errorf("%v", kv)
	}
	for _, name := range []string{"none", "../e0", "", "/etc"} {
		if kv := QueueState(sys, name); len(kv) != 0 {
			t.Errorf("%q: %v", name, kv)
		}
	}
}
