// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"

	"boxdyno/script/proof/boards/job"
)

// A board is one model that QEMU computes, and what it needs.
//
//	this machine                         the board
//	boards --- QEMU (TCG) ------------- init, boxdyno
//	  console  <------ serial line ----- kernel, init
//	  results  <------ virtio port ----- tar stream (a Raspberry Pi: its SD card)
//	  hub 0    -- e1000e, vmxnet3, igb   one Ethernet segment, on which nothing else is
//	  tap      -- virtio-net, two queues in a network namespace of QEMU's own (root)
type board struct {
	name     string
	goarch   string
	deb      string // Debian's name of the architecture
	suite    string // Debian's release where the kernel is taken from; "": that of this machine
	kernel   string // Debian's package that depends on the present kernel
	qemu     string // program
	machine  []string
	size     []string // CPUs and memory
	console  string
	dtb      string // description of the hardware, a file of the kernel's package below usr/lib/linux-image-*; "": QEMU makes it
	card     bool   // no PCI and no virtio: results go to an SD card, and there is no NIC
	results  string // device in the board, as a pattern
	modules  []string
	networks []string // QEMU's devices; those that it does not have are left out
}

var boards = []board{
	{
		name: "amd64", goarch: "amd64", deb: "amd64", kernel: "linux-image-amd64", qemu: "qemu-system-x86_64",
		machine: []string{"-machine", "q35", "-cpu", "max"}, size: []string{"-smp", "2", "-m", "640"}, console: "ttyS0", results: "/dev/vport*",
		modules:  slices.Concat(virtio, network, ciphers, tunnels, blocks, adapters, []string{"igb", "vmxnet3", "aesni_intel", "twofish_avx_x86_64", "serpent_avx_x86_64", "camellia_aesni_avx_x86_64", "chacha_x86_64"}),
		networks: []string{"e1000e", "igb", "vmxnet3"},
	},
	{
		name: "arm64", goarch: "arm64", deb: "arm64", kernel: "linux-image-arm64", qemu: "qemu-system-aarch64",
		machine: []string{"-machine", "virt", "-cpu", "cortex-a72"}, size: []string{"-smp", "2", "-m", "640"}, console: "ttyAMA0", results: "/dev/vport*",
		modules:  slices.Concat(virtio, network, ciphers, tunnels, blocks, adapters, []string{"igb", "aes_ce_blk", "aes_neon_bs", "chacha_neon", "ghash_ce"}),
		networks: []string{"e1000e", "igb"},
	},
	{
		name: "raspi3b", goarch: "arm64", deb: "arm64", kernel: "linux-image-arm64", qemu: "qemu-system-aarch64",
		machine: []string{"-machine", "raspi3b"}, console: "ttyS1", dtb: "broadcom/bcm2837-rpi-3-b.dtb", card: true, results: "/dev/mmcblk*",
		modules: slices.Concat([]string{"bcm2835_wdt", "bcm2835_thermal", "bcm2835", "sdhci_iproc", "mmc_block"}, network, adapters),
	},
	{
		name: "armhf", goarch: "arm", deb: "armhf", kernel: "linux-image-armmp", qemu: "qemu-system-arm",
		machine: []string{"-machine", "virt,highmem=off", "-cpu", "cortex-a15"}, size: []string{"-smp", "2", "-m", "512"}, console: "ttyAMA0", results: "/dev/vport*",
		modules: slices.Concat(virtio, network, ciphers, tunnels, blocks, []string{"aes_arm_bs", "chacha_neon"}), networks: []string{"e1000e"},
	},
	{
		name: "riscv64", goarch: "riscv64", deb: "riscv64", suite: "trixie", kernel: "linux-image-riscv64", qemu: "qemu-system-riscv64",
		// One CPU: of two, with OpenSBI 1.1 of Debian 12, the second now and then begins the kernel as well as the first, and both stand.
		machine: []string{"-machine", "virt"}, size: []string{"-smp", "1", "-m", "512"}, console: "ttyS0", results: "/dev/vport*",
		modules: slices.Concat(virtio, network, ciphers, tunnels, blocks), networks: []string{"e1000e"},
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
	dtb                        string
	has                        []string // devices of this QEMU
	queues                     bool     // a tap of two queues may be made
}

// arguments are QEMU's, for TCG alone: where /dev/kvm exists it need not work, and an
// emulated board is to be the same on every machine.
func (b board) arguments(d drive) []string {
	args := slices.Concat([]string{"-accel", "tcg"}, b.machine, b.size, []string{
		"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
		"-kernel", d.kernel, "-initrd", d.initramfs, "-append", "console=" + b.console + " panic=-1 loglevel=4 " + job.Emulated,
	})
	if b.card {
		// The first serial line of a Raspberry Pi belongs to its Bluetooth.
		return append(args, "-dtb", d.dtb, "-serial", "null", "-serial", "stdio", "-drive", "if=sd,format=raw,file="+d.results)
	}
	args = append(args, "-serial", "stdio",
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
