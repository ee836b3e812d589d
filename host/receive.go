// SPDX-License-Identifier: Apache-2.0

package host

import (
	"io/fs"
	"path"
	"strconv"
	"strings"
	"time"

	"boxdyno/result"
)

// A Receiving is what a machine's CPUs had done at one instant, and the threads among them that
// take frames where softirqs are too many.
type Receiving struct {
	cpus    CPUs
	threads map[int]int // ksoftirqd by CPU; without those that are not to be seen
	at      time.Time
}

// Receiving reads it; about 1 ms, for it looks for the threads.
func (l *Local) Receiving() (Receiving, error) { return receiving(l.Files(), time.Now()) }

func receiving(root fs.FS, at time.Time) (r Receiving, err error) {
	r.at, r.threads = at, ksoftirqd(root)
	var ids []int
	for _, tid := range r.threads {
		ids = append(ids, tid)
	}
	r.cpus, err = readCPUs(root, ids)
	return r, err
}

// ksoftirqd is the threads of that name, by CPU. They are children of kthreadd, so that a
// container sees none.
func ksoftirqd(root fs.FS) map[int]int {
	threads := map[int]int{}
	names, _ := fs.Glob(root, "proc/[0-9]*/comm")
	for _, name := range names {
		comm, err := fs.ReadFile(root, name)
		number, ours := strings.CutPrefix(strings.TrimSpace(string(comm)), "ksoftirqd/")
		if err != nil || !ours {
			continue
		}
		cpu, err := strconv.Atoi(number)
		tid, err2 := strconv.Atoi(path.Base(path.Dir(name)))
		if err == nil && err2 == nil {
			threads[cpu] = tid
		}
	}
	return threads
}

// Since is how the CPUs took frames from before to r; nil where none did.
func (r Receiving) Since(before Receiving) *result.Receive {
	out := &result.Receive{CPUs: r.cpus.Since(before.cpus), Dropped: r.cpus.Dropped(before.cpus)}
	busiest := -1
	for i, c := range out.CPUs {
		if c.SoftIRQ > 0 && (busiest < 0 || c.SoftIRQ > out.CPUs[busiest].SoftIRQ) {
			busiest = i
		}
	}
	took := r.at.Sub(before.at).Seconds()
	if busiest < 0 || took <= 0 {
		return nil
	}
	c := &out.CPUs[busiest]
	c.Role, out.Ran = "dut", c.SoftIRQ
	if tid := r.threads[c.CPU]; tid != 0 && tid == before.threads[c.CPU] {
		ran, waited := r.cpus.Thread(before.cpus, tid)
		out.Ksoftirqd, out.Waited = ran.Seconds()/took, waited.Seconds()/took
	}
	return out
}

// QueueState is how a port's receiving is set up, from sys, its machine's /sys: MTU, receive
// queues, and whether RPS is on. What is not there is left out.
func QueueState(sys fs.FS, port string) (kv []result.Pair) {
	dir := "class/net/" + port
	if b, err := fs.ReadFile(sys, dir+"/mtu"); err == nil {
		kv = append(kv, result.Pair{Key: port + " mtu", Value: strings.TrimSpace(string(b))})
	}
	queues, rps := 0, "off"
	for {
		b, err := fs.ReadFile(sys, path.Join(dir, "queues", "rx-"+strconv.Itoa(queues), "rps_cpus"))
		if err != nil {
			break
		}
		if queues++; strings.Trim(strings.TrimSpace(string(b)), "0,") != "" {
			rps = "on"
		}
	}
	if queues > 0 {
		kv = append(kv, result.Pair{Key: port + " rx queues", Value: strconv.Itoa(queues)}, result.Pair{Key: port + " rps", Value: rps})
	}
	return kv
}

// ConnectionState is how full the connection table of root, a machine's files, is; nothing
// where there is none.
func ConnectionState(root fs.FS) (kv []result.Pair) {
	for _, f := range [][2]string{{"conntrack entries", "nf_conntrack_count"}, {"conntrack most", "nf_conntrack_max"}} {
		if b, err := fs.ReadFile(root, "proc/sys/net/netfilter/"+f[1]); err == nil {
			kv = append(kv, result.Pair{Key: f[0], Value: strings.TrimSpace(string(b))})
		}
	}
	return kv
}
