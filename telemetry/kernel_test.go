// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"errors"
	"io/fs"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"boxdyno/result"
)

// some compares what want has.
func some(t testing.TB, when string, got, want map[string]float64) {
	t.Helper()
	for _, k := range slices.Sorted(maps.Keys(want)) {
		if g, ok := got[k]; !ok || !near(g, want[k]) {
			t.Errorf("%s: %s is %v (%v), want %v", when, k, g, ok, want[k])
		}
	}
}

// nowhere fails if a series has one of the words in its name or labels.
func nowhere(t testing.TB, got map[string]float64, words ...string) {
	t.Helper()
	for k := range got {
		for _, w := range words {
			if strings.Contains(k, w) {
				t.Errorf("there is %s", k)
			}
		}
	}
}

// placed are the places of a collector's series that have one.
func placed(c Collector) map[string]result.Place {
	all := map[string]result.Place{}
	for _, s := range c.Series() {
		if s.Place != "" {
			all[prom(s)] = s.Place
		}
	}
	return all
}

var nan = math.NaN()

// kernelCollectors are those that read a tree.
var kernelCollectors = []string{"cpu", "softnet", "softirqs", "interrupts", "interfaces", "ethtool", "protocols", "conntrack", "sockets", "pressure", "memory", "disks", "cgroup", "load"}

func spec(t testing.TB, name string) Spec {
	t.Helper()
	for _, s := range All() {
		if s.Name == name {
			return s
		}
	}
	t.Fatalf("there is no collector %q", name)
	return Spec{}
}

func TestRecordedKernel(t *testing.T) {
	r := record(t, "kernel-vm")
	all := map[string]Collector{}
	for _, name := range kernelCollectors {
		all[name] = collect(t, r.machine(), spec(t, name).New)
		defer closed(t, all[name])
	}
	state := func() map[string]float64 {
		got := map[string]float64{}
		for _, c := range all {
			maps.Copy(got, values(t, c))
		}
		return got
	}
	before := state()
	for k, v := range before {
		if math.IsNaN(v) {
			t.Errorf("%s is absent", k)
		}
	}
	r.step(2)
	after := state()
	grown := map[string]float64{}
	for k, v := range after {
		grown[k] = v - before[k]
	}
	// Loopback: 3000 datagrams, none of which was read, and 9 found room.
	some(t, "grown", grown, map[string]float64{
		`node_network_receive_packets_total{device="lo"}`:      3000,
		`node_network_transmit_packets_total{device="lo"}`:     3000,
		`node_network_receive_bytes_total{device="lo"}`:        3000 * 128,
		`node_network_transmit_dropped_total{device="lo"}`:     0,
		`node_network_receive_crc_errors_total{device="eth0"}`: 0,
		"node_netstat_Udp_RcvbufErrors":                        2991,
		"node_netstat_Udp_InErrors":                            2991,
		"node_netstat_TcpExt_ListenDrops":                      0,
		"node_nf_conntrack_entries_limit":                      0,
		"node_memory_MemTotal_bytes":                           0,
	})
	some(t, "before", before, map[string]float64{
		"node_nf_conntrack_entries_limit":       262144,
		"node_sockstat_UDP_mem":                 want1(t, r, "proc/thread-self/net/sockstat", "UDP: inuse 0 mem "),
		`node_ethtool_rx0_drops{device="eth0"}`: 0,
	})
	if d := grown[`node_softnet_processed_total{cpu="0"}`] + grown[`node_softnet_processed_total{cpu="1"}`]; d < 3000 || d > 1e7 {
		t.Errorf("softnet processed %v frames", d)
	}
	busy := 0.
	for k, v := range grown {
		if strings.HasPrefix(k, "node_cpu_seconds_total") {
			busy += v
		}
	}
	if busy < 1.5 || busy > 2.6 {
		t.Errorf("two CPUs had %v s in one second", busy)
	}
	for _, irq := range []string{"37", "38", "39"} {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(after)), func(k string) bool {
			return strings.HasPrefix(k, `node_interrupts_total{device="eth0",cpu="1",type="`+irq+`"`)
		}) {
			t.Errorf("eth0 has no interrupt %s", irq)
		}
	}
	nowhere(t, after, "loop0", "zram", `type="NMI"`, `type="28"`, `crc_errors_total{device="lo"}`)
	places := map[string]result.Place{}
	for _, c := range all {
		maps.Copy(places, placed(c))
	}
	for k, want := range map[string]result.Place{
		`node_softnet_dropped_total{cpu="1"}`:                         result.Softnet,
		`node_nf_conntrack_stat_drop`:                                 result.Conntrack,
		`node_netstat_IpExt_InNoRoutes`:                               result.Routing,
		`node_netstat_Udp_RcvbufErrors`:                               result.Socket,
		`node_network_receive_otherhost_dropped_total{device="eth0"}`: "",
		`node_netstat_Ip_InDelivers`:                                  "",
		`node_netstat_Ip_ForwDatagrams`:                               "",
	} {
		if places[k] != want {
			t.Errorf("%s is at %q, want %q", k, places[k], want)
		}
	}
}

// want1 is the number behind prefix in a file of the tree.
func want1(t testing.TB, r *recorded, name, prefix string) float64 {
	t.Helper()
	_, rest, ok := strings.Cut(r.files[name], prefix)
	n, good := decimal([]byte(strings.FieldsFunc(rest, func(c rune) bool { return c < '0' || c > '9' })[0]))
	if !ok || !good {
		t.Fatalf("%s has no %q", name, prefix)
	}
	return float64(n)
}

func TestBoardKernel(t *testing.T) {
	r := record(t, "kernel-board")
	m := r.machine()
	cpu, softnet := collect(t, m, newCPUTime), collect(t, m, newSoftnet)
	some(t, "cpu", values(t, cpu), map[string]float64{
		`node_cpu_seconds_total{cpu="3",mode="idle"}`:       100,
		`node_cpu_seconds_total{cpu="3",mode="steal"}`:      0,
		`node_cpu_guest_seconds_total{cpu="3",mode="nice"}`: 0,
		"node_intr_total": 5000, "node_context_switches_total": 7000, "node_forks_total": 900, "node_procs_running": 2, "node_procs_blocked": 1,
	})
	some(t, "softnet", values(t, softnet), map[string]float64{
		`node_softnet_processed_total{cpu="0"}`: 0xfffffff0, `node_softnet_backlog_len{cpu="0"}`: 3, `node_softnet_dropped_total{cpu="1"}`: 16,
	})
	irqs, ports, stats := collect(t, m, newInterrupts), collect(t, m, newInterfaces), collect(t, m, newDriverStats)
	some(t, "interrupts", values(t, irqs), map[string]float64{
		`node_interrupts_total{device="eth0",cpu="0",type="106",devices="eth0"}`:          5000,
		`node_interrupts_total{device="eth1",cpu="1",type="131",devices="xhci-hcd:usb1"}`: 50,
		`node_interrupts_total{cpu="0",type="160",devices="uart, spi"}`:                   1,
		`node_interrupts_total{cpu="3",type="IPI0",devices="Rescheduling interrupts"}`:    1000,
		`node_interrupts_total{cpu="2",type="11",devices="arch_timer"}`:                   14000,
	})
	nowhere(t, values(t, irqs), `type="136"`, `type="Err"`)
	equal(t, "interfaces", values(t, ports), map[string]float64{
		`node_network_receive_packets_total{device="eth0"}`:       1e6,
		`node_network_receive_over_errors_total{device="eth0"}`:   0,
		`node_network_receive_missed_errors_total{device="eth0"}`: 0,
		`node_network_receive_packets_total{device="eth1"}`:       5000,
	})
	equal(t, "ethtool", values(t, stats), map[string]float64{
		`node_ethtool_received_resource_errors{device="eth0"}`: 0,
		`node_ethtool_received_overruns{device="eth0"}`:        7,
		`node_ethtool_q0_received_packets{device="eth0"}`:      600000,
	})
	if got, want := placed(stats), map[string]result.Place{`node_ethtool_received_resource_errors{device="eth0"}`: result.DUTNIC, `node_ethtool_received_overruns{device="eth0"}`: result.DUTNIC}; !maps.Equal(got, want) {
		t.Errorf("places are %v, want %v", got, want)
	}

	r.step(2)
	some(t, "a CPU off", values(t, cpu), map[string]float64{
		`node_cpu_seconds_total{cpu="3",mode="idle"}`:   nan,
		`node_cpu_seconds_total{cpu="3",mode="user"}`:   nan,
		`node_cpu_seconds_total{cpu="0",mode="user"}`:   1.1,
		`node_cpu_seconds_total{cpu="0",mode="iowait"}`: 0.1, // it fell by a tick
		`node_cpu_seconds_total{cpu="1",mode="idle"}`:   100, // by two
	})
	some(t, "a CPU off", values(t, softnet), map[string]float64{
		`node_softnet_processed_total{cpu="0"}`: 0x100000010, `node_softnet_dropped_total{cpu="1"}`: 21, `node_softnet_processed_total{cpu="3"}`: nan,
		`node_softnet_backlog_len{cpu="3"}`: nan, `node_softnet_times_squeezed_total{cpu="1"}`: 1,
	})
	some(t, "a CPU off", values(t, irqs), map[string]float64{
		`node_interrupts_total{device="eth0",cpu="0",type="106",devices="eth0"}`:          5500,
		`node_interrupts_total{device="eth0",cpu="3",type="106",devices="eth0"}`:          nan,
		`node_interrupts_total{device="eth1",cpu="1",type="131",devices="xhci-hcd:usb1"}`: 60,
		`node_interrupts_total{cpu="0",type="160",devices="uart, spi"}`:                   nan, // another device's now
		`node_interrupts_total{cpu="0",type="IPI0",devices="Rescheduling interrupts"}`:    701,
	})
	some(t, "drops", values(t, ports), map[string]float64{`node_network_receive_over_errors_total{device="eth0"}`: 100})
	some(t, "drops", values(t, stats), map[string]float64{`node_ethtool_received_resource_errors{device="eth0"}`: 100, `node_ethtool_q0_received_packets{device="eth0"}`: 600500})

	r.step(3)
	some(t, "on again", values(t, cpu), map[string]float64{
		`node_cpu_seconds_total{cpu="3",mode="idle"}`:   100, // not the 0.2 that the kernel says
		`node_cpu_seconds_total{cpu="3",mode="user"}`:   1,
		`node_cpu_seconds_total{cpu="0",mode="iowait"}`: 0.11,
		`node_cpu_seconds_total{cpu="1",mode="idle"}`:   100.03,
	})
	some(t, "set back", values(t, ports), map[string]float64{`node_network_receive_packets_total{device="eth1"}`: 5020})

	disks := values(t, collect(t, m, newDisks))
	some(t, "disks", disks, map[string]float64{
		`node_disk_read_bytes_total{device="mmcblk0"}`:                  2000 * 512,
		`node_disk_write_time_seconds_total{device="mmcblk0"}`:          0.6,
		`node_disk_io_now{device="mmcblk0"}`:                            1,
		`node_disk_discarded_sectors_total{device="mmcblk0"}`:           80,
		`node_disk_flush_requests_time_seconds_total{device="mmcblk0"}`: 0.02,
		`node_disk_written_bytes_total{device="zram0"}`:                 160 * 512,
	})
	nowhere(t, disks, "mmcblk0p1", "loop0", "ram0\"}0", `flush_requests_total{device="zram0"}`, `device="ram0"`)
	equal(t, "pressure", values(t, collect(t, m, newPressure)), map[string]float64{
		"node_pressure_cpu_waiting_seconds_total": 1.5, "node_pressure_irq_stalled_seconds_total": 0.25,
	})
	const id = `{id="/user.slice/user-1000.slice/session-3.scope"}`
	equal(t, "cgroup", values(t, collect(t, m, newCgroup)), map[string]float64{
		"container_cpu_usage_seconds_total" + id: 2.5, "container_cpu_cfs_periods_total" + id: 10, "container_cpu_cfs_throttled_periods_total" + id: 3,
		"container_cpu_cfs_throttled_seconds_total" + id: 0.15, "container_memory_usage_bytes" + id: 4096000, "container_memory_max_usage_bytes" + id: 8192000,
		"container_oom_events_total" + id: 1, "boxdyno_cgroup_memory_limit_hits_total" + id: 4,
	})
	equal(t, "sockets", values(t, collect(t, m, newSockets)), map[string]float64{"boxdyno_packet_sockets": 2, "boxdyno_packet_socket_queue_bytes": 6400})
}

func TestOldKernel(t *testing.T) {
	r := record(t, "kernel-old")
	m := r.machine()
	cpu, softnet, disks, conntrack := collect(t, m, newCPUTime), collect(t, m, newSoftnet), collect(t, m, newDisks), collect(t, m, newConntrack)
	got := values(t, cpu)
	some(t, "cpu", got, map[string]float64{`node_cpu_seconds_total{cpu="3",mode="softirq"}`: 0.03, `node_cpu_seconds_total{cpu="2",mode="idle"}`: nan, "node_procs_running": nan})
	nowhere(t, got, "steal", "guest")
	got = values(t, softnet)
	some(t, "softnet", got, map[string]float64{
		`node_softnet_processed_total{cpu="1"}`: 2, `node_softnet_processed_total{cpu="2"}`: nan, `node_softnet_dropped_total{cpu="3"}`: 0x30, `node_softnet_received_rps_total{cpu="0"}`: 0,
	})
	nowhere(t, got, "flow_limit", "backlog")
	some(t, "disks", values(t, disks), map[string]float64{`node_disk_read_time_seconds_total{device="sda"}`: 4294967})
	nowhere(t, values(t, disks), "discard", "flush", "sda1")
	got = values(t, conntrack)
	some(t, "conntrack", got, map[string]float64{
		"node_nf_conntrack_entries": 0x21, "node_nf_conntrack_stat_drop": 9 + 0xfffffff0, "node_nf_conntrack_stat_insert_failed": 8,
		"node_nf_conntrack_stat_invalid": 4, "node_nf_conntrack_stat_search_restart": 15,
	})
	nowhere(t, got, "clashres", "limit")
	const id = `{id="/docker/4f2a"}`
	equal(t, "cgroup", values(t, collect(t, m, newCgroup)), map[string]float64{
		"container_cpu_usage_seconds_total" + id: 1.5, "container_cpu_cfs_periods_total" + id: 7, "container_cpu_cfs_throttled_periods_total" + id: 2,
		"container_cpu_cfs_throttled_seconds_total" + id: 0.3, "container_memory_usage_bytes" + id: 1000000, "boxdyno_cgroup_memory_limit_hits_total" + id: 5,
	})
	for _, name := range []string{"pressure", "load", "memory", "interfaces", "ethtool", "interrupts", "qdisc"} {
		if c, err := spec(t, name).New(t.Context(), m); !errors.Is(err, ErrAbsent) {
			t.Errorf("%s is %v (%v), want %v", name, c, err, ErrAbsent)
		}
	}

	r.step(2)
	some(t, "wrapped", values(t, disks), map[string]float64{`node_disk_read_time_seconds_total{device="sda"}`: 4294968, `node_disk_reads_completed_total{device="sda"}`: 101})
	some(t, "wrapped", values(t, conntrack), map[string]float64{"node_nf_conntrack_entries": 0x22, "node_nf_conntrack_stat_drop": 9 + 0x100000004})

	const line = "00000009 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000\n"
	r.set("proc/self/net/softnet_stat", strings.Repeat(line, 2))
	some(t, "one line fewer than CPUs", values(t, softnet), map[string]float64{`node_softnet_processed_total{cpu="0"}`: nan, `node_softnet_processed_total{cpu="3"}`: nan})
	r.set("proc/self/net/softnet_stat", strings.Repeat(line, 3)) // as many as before, of others
	some(t, "other CPUs", values(t, softnet), map[string]float64{
		`node_softnet_processed_total{cpu="0"}`: 9, `node_softnet_processed_total{cpu="1"}`: nan, `node_softnet_processed_total{cpu="2"}`: 9, `node_softnet_processed_total{cpu="3"}`: 9,
	})
}

// What is malformed is absent, and an error that names the file; never a number.
func TestMalformedKernel(t *testing.T) {
	for name, data := range map[string]string{
		"proc/stat":                   "cpu0 1 2 x 4\n",
		"proc/self/net/softnet_stat":  "00000001 0000000g 00000000\n",
		"proc/softirqs":               "   CPU0 CPU1\n NET_RX: 1\n",
		"proc/loadavg":                "0.1 a 0.2\n",
		"proc/meminfo":                "MemTotal: -1 kB\n",
		"proc/vmstat":                 "oom_kill\n",
		"proc/diskstats":              " 8 0 sda 1 2 3 4 5 6 7 8 9 10 -11\n",
		"proc/pressure/io":            "some avg10=0.00\n",
		"proc/thread-self/net/snmp":   "Ip: InReceives\nIp: many\n",
		"proc/thread-self/net/packet": "head\n0 3 3 0003 2 yes 0 0 0\n",
		"proc/interrupts":             " CPU0 XPU1\n",
	} {
		failed := 0
		for _, collector := range kernelCollectors {
			_, err := spec(t, collector).New(t.Context(), &Machine{Root: mapOf(map[string]string{name: data, "sys/block/sda/size": "1\n"})})
			if err != nil && !errors.Is(err, ErrAbsent) {
				failed++
				if !strings.Contains(err.Error(), "/"+name) {
					t.Errorf("%s: the error does not name the file: %v", name, err)
				}
			}
		}
		if failed != 1 {
			t.Errorf("%s: %d collectors fail, want one", name, failed)
		}
	}
}

// A file that goes bad, or away, later does not keep back the others.
func TestOneFileFails(t *testing.T) {
	r := record(t, "kernel-vm")
	c := collect(t, r.machine(), newMemory)
	r.set("proc/vmstat", "pswpin 5\noom_kill x\n")
	some(t, "vmstat is bad", values(t, c), map[string]float64{"node_vmstat_oom_kill": nan, "node_vmstat_pswpin": nan, "node_memory_MemTotal_bytes": want1(t, r, "proc/meminfo", "MemTotal:") * 1024})
	r.set("proc/meminfo", "MemTotal: x\n")
	if _, err := read(c); err == nil || !strings.Contains(err.Error(), "/proc/") {
		t.Errorf("both are bad: %v", err)
	}
}

func mapOf(files map[string]string) fs.FS {
	m := fstest.MapFS{}
	for name, data := range files {
		m[name] = &fstest.MapFile{Data: []byte(data)}
	}
	return m
}
