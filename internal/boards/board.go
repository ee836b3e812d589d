// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"

	"boxdyno/internal/boards/job"
)

// A board is one model that QEMU computes, and what it needs.
//
//	this machine                         the board
//	boards --- QEMU (TCG) ------------- init, boxdyno
//	  console  <------ serial line ----- kernel, init
//	  results  <------ virtio port ----- tar stream
//	  hub 0    -- e1000e, vmxnet3, igb   one Ethernet segment, on which nothing else is
//	  tap      -- virtio-net, two queues in a network namespace of QEMU's own (root)
type board struct {
	name     string
	goarch   string
	deb      string // Debian's name of the architecture
	kernel   string // Debian's package that depends on the present kernel
	qemu     string // program
	machine  []string
	console  string
	results  string // device in the board, as a pattern
	modules  []string
	networks []string // QEMU's devices; those that it does not have are left out
}

// What every board with PCI and virtio loads, for there is no modprobe in it; what
// these need comes before them.
var common = []string{
	"virtio_pci", "virtio_console", "virtio_net", "e1000e", "igb", "veth",
	"crc32c_generic", "nf_tables", "nf_conntrack", "nf_conntrack_netlink", "nf_nat", "sch_ingress", "sch_tbf", "cls_bpf",
}

var boards = []board{
	{
		name: "amd64", goarch: "amd64", deb: "amd64", kernel: "linux-image-amd64", qemu: "qemu-system-x86_64",
		machine: []string{"-machine", "q35", "-cpu", "max"}, console: "ttyS0", results: "/dev/vport*",
		modules: append(slices.Clone(common), "vmxnet3"), networks: []string{"e1000e", "igb", "vmxnet3"},
	},
	{
		name: "arm64", goarch: "arm64", deb: "arm64", kernel: "linux-image-arm64", qemu: "qemu-system-aarch64",
		machine: []string{"-machine", "virt", "-cpu", "cortex-a72"}, console: "ttyAMA0", results: "/dev/vport*",
		modules: common, networks: []string{"e1000e", "igb"},
	},
}

// find is the board of a name. Its error says which there are.
func find(name string) (board, error) {
	var names []string
	for _, b := range boards {
		if b.name == name {
			return b, nil
		}
		names = append(names, b.name)
	}
	return board{}, fmt.Errorf("there is no board %q: the boards are %s", name, strings.Join(names, ", "))
}

// A drive is where QEMU puts what the board says.
type drive struct {
	kernel, initramfs, results string
	has                        []string // devices of this QEMU
	queues                     bool     // a tap of two queues may be made
}

// arguments are QEMU's, for TCG alone: where /dev/kvm exists it need not work, and an
// emulated board is to be the same on every machine.
func (b board) arguments(d drive) []string {
	args := append([]string{"-accel", "tcg"}, b.machine...)
	args = append(args, "-smp", "2", "-m", "640", "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
		"-kernel", d.kernel, "-initrd", d.initramfs, "-append", "console="+b.console+" panic=-1 loglevel=4",
		"-serial", "stdio",
		"-device", "virtio-serial-pci", "-chardev", "file,id=results,path="+d.results, "-device", "virtserialport,chardev=results,name="+job.Port)
	add := func(device, netdev string) {
		id := fmt.Sprintf("net%d", strings.Count(strings.Join(args, " "), "-netdev"))
		args = append(args, "-netdev", netdev+",id="+id, "-device", fmt.Sprintf("%s,netdev=%s,romfile=,mac=02:00:00:00:00:%02x", device, id, len(args)))
	}
	if d.queues {
		add("virtio-net-pci,mq=on,vectors=6", "tap,ifname=board,queues=2,script=no,downscript=no")
	} else {
		add("virtio-net-pci", "hubport,hubid=0")
	}
	for _, n := range b.networks {
		if slices.Contains(d.has, n) {
			add(n, "hubport,hubid=0")
		}
	}
	return args
}
