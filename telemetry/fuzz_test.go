// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"encoding/binary"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"golang.org/x/sys/unix"
)

// Whatever a file says, no collector faults, and no value is below zero.
func FuzzKernelFiles(f *testing.F) {
	names := []string{"proc/stat", "proc/self/net/softnet_stat", "proc/softirqs", "proc/interrupts", "proc/thread-self/net/snmp", "proc/thread-self/net/snmp6",
		"proc/thread-self/net/stat/nf_conntrack", "proc/thread-self/net/sockstat", "proc/thread-self/net/packet", "proc/pressure/io", "proc/meminfo",
		"proc/diskstats", "proc/loadavg", "ethtool/eth0", "proc/self/cgroup", "proc/self/mountinfo", "sys/devices/system/cpu/present"}
	for _, tree := range []string{"kernel-vm", "kernel-board", "kernel-old"} {
		r := record(f, tree)
		for i, name := range names {
			before, after := r.files[name], r.files["@2/"+name]
			if len(before) > 0 && len(before) < 4096 {
				f.Add(uint8(i), []byte(before), []byte(after))
			}
		}
	}
	r := record(f, "kernel-board")
	f.Fuzz(func(t *testing.T, which uint8, before, after []byte) {
		name := names[int(which)%len(names)]
		tree := fstest.MapFS{name: &fstest.MapFile{Data: before}}
		for k, v := range r.root {
			if _, ok := tree[k]; !ok {
				tree[k] = v
			}
		}
		for _, collector := range kernelCollectors {
			c, err := spec(t, collector).New(t.Context(), &Machine{Root: tree})
			if err != nil {
				continue
			}
			check := func() {
				dst := make([]float64, len(c.Series()))
				if err := c.Read(dst); err != nil {
					return
				}
				for i, v := range dst {
					if v < 0 {
						t.Errorf("%s is %v", prom(c.Series()[i]), v)
					}
				}
			}
			check()
			tree[name].Data = after
			check()
			tree[name].Data = before
		}
	})
}

// The numbers that are parsed in place are those that the library finds.
func FuzzNumbers(f *testing.F) {
	for _, s := range []string{"0", "18446744073709551615", "18446744073709551616", "00ff", "ffffffffffffffff", "-1", "+1", "", "1_0", "12.50"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		plain := s != "" && strings.Trim(s, "0123456789") == ""
		want, err := strconv.ParseUint(s, 10, 64)
		if got, ok := decimal([]byte(s)); ok != (plain && err == nil) || ok && got != want {
			t.Errorf("decimal %q is %d (%v), want %d (%v)", s, got, ok, want, err)
		}
		want, err = strconv.ParseUint(s, 16, 64)
		lower := s != "" && len(s) <= 16 && strings.Trim(s, "0123456789abcdef") == ""
		if got, ok := hexadecimal([]byte(s)); ok != (lower && err == nil) || ok && got != want {
			t.Errorf("hexadecimal %q is %d (%v), want %d (%v)", s, got, ok, want, err)
		}
		if got, ok := decimals([]byte(s)); ok {
			want, err := strconv.ParseFloat(s, 64)
			if err != nil || math.Abs(got-want) > 1e-9*want {
				t.Errorf("%q is %v, want %v (%v)", s, got, want, err)
			}
		}
		words := strings.FieldsFunc(s, func(r rune) bool { return r == ' ' || r == '\t' })
		line := scan(s)
		for _, w := range words {
			if got := line.field(); string(got) != w {
				t.Errorf("a word of %q is %q, want %q", s, got, w)
			}
		}
		if got := line.field(); got != nil {
			t.Errorf("behind the last word of %q is %q", s, got)
		}
	})
}

// message is one netlink message.
func message(kind uint16, seq uint32, body []byte) []byte {
	b := binary.NativeEndian.AppendUint32(nil, uint32(nlmsgHeader+len(body)))
	b = binary.NativeEndian.AppendUint16(b, kind)
	b = binary.NativeEndian.AppendUint16(b, unix.NLM_F_MULTI)
	b = binary.NativeEndian.AppendUint32(b, seq)
	b = binary.NativeEndian.AppendUint32(b, 0)
	b = append(b, body...)
	return append(b, make([]byte, -len(b)&3)...)
}

func attr(kind uint16, value []byte) []byte {
	b := binary.NativeEndian.AppendUint16(nil, uint16(4+len(value)))
	b = binary.NativeEndian.AppendUint16(b, kind)
	b = append(b, value...)
	return append(b, make([]byte, -len(b)&3)...)
}

// Whatever netlink answers, nothing faults.
func FuzzNetlink(f *testing.F) {
	stats := slices.Concat([]byte{0, 0, 0, 0, 7, 0, 0, 0, 1, 0, 0, 0}, attr(unix.IFLA_STATS_LINK_64, make([]byte, 200)))
	f.Add(slices.Concat(message(unix.RTM_NEWSTATS, 1, stats), message(unix.NLMSG_DONE, 1, []byte{0, 0, 0, 0})))
	f.Add(message(unix.NLMSG_ERROR, 1, []byte{0xf3, 0xff, 0xff, 0xff}))
	qdisc := make([]byte, tcMessage)
	binary.NativeEndian.PutUint32(qdisc[4:], 7)
	binary.NativeEndian.PutUint32(qdisc[12:], tcRoot)
	f.Add(message(unix.RTM_NEWQDISC, 1, slices.Concat(qdisc, attr(tcaKind, []byte("fq_codel\x00")), attr(tcaStats2, attr(tcaStatsQueue, make([]byte, queueStats))))))
	f.Fuzz(func(t *testing.T, b []byte) {
		l := &links{slots: []*linkSlot{newLinkSlot(&port{index: 7, hardware: true}, 0)}, dst: make([]float64, len(linkCounters))}
		_, _, _ = messages(b, 1, l.message)
		q := &queuesOf{ports: []*queuePort{{index: 7, counts: make([]counter, len(queueCounters)+1)}}, dst: make([]float64, len(queueCounters)+1)}
		_, _, _ = messages(b, 1, q.message)
	})
}
