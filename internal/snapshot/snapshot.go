// SPDX-License-Identifier: Apache-2.0

// Package snapshot reads all settings of a network namespace and its ports, so that a
// proof can say that nothing was left changed. It reads them by other ways than
// package tune does, where there are any.
package snapshot

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"boxdyno/internal/ethtool"
	"boxdyno/internal/netns"
)

// moving are what changes by itself.
var moving = []string{"sys/net/netfilter/nf_conntrack_count", "sys/kernel/random/*", "sys/kernel/ns_last_pid", "sys/kernel/pty/nr", "sys/vm/nr_hugepages*", "sys/vm/stat_refresh", "sys/net/core/somaxconn_*"}

// Take reads the namespace at path ("": this one): every kernel parameter of net, vm
// and kernel, the CPUs of every interrupt, every file of its ports and their queues, their features, channels,
// rings, coalescing and pause settings, and their root qdiscs.
func Take(namespace string) (map[string]string, error) {
	all := map[string]string{}
	err := netns.DoSys(namespace, func(sys *os.Root) error {
		for _, dir := range []string{"sys/net", "sys/vm", "sys/kernel"} {
			if err := walk(os.DirFS("/proc"), dir, all); err != nil {
				return err
			}
		}
		irqs, err := filepath.Glob("/proc/irq/*/smp_affinity_list")
		if err != nil {
			return err
		}
		for _, name := range irqs {
			if text, err := os.ReadFile(name); err == nil {
				all[name] = string(text)
			}
		}
		links, err := netlink.LinkList()
		if err != nil {
			return err
		}
		e, err := ethtool.Open()
		if err != nil {
			return err
		}
		defer e.Close()
		for _, l := range links {
			if err := port(sys, e, l, all); err != nil {
				return err
			}
		}
		return nil
	})
	return all, err
}

func walk(root fs.FS, dir string, all map[string]string) error {
	return fs.WalkDir(root, dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || slices.ContainsFunc(moving, func(p string) bool { ok, _ := path.Match(p, name); return ok }) {
			return err
		}
		if text, err := fs.ReadFile(root, name); err == nil { // some are write-only, some answer that they have nothing
			all[name] = string(text)
		}
		return nil
	})
}

func port(sys *os.Root, e *ethtool.Socket, l netlink.Link, all map[string]string) error {
	name := l.Attrs().Name
	dir := "class/net/" + name
	entries, err := fs.ReadDir(sys.FS(), dir)
	if err != nil {
		return err
	}
	for _, f := range entries {
		text, err := fs.ReadFile(sys.FS(), dir+"/"+f.Name())
		if err == nil && f.Name() != "carrier_changes" && f.Name() != "carrier_up_count" && f.Name() != "carrier_down_count" {
			all[name+" "+f.Name()] = string(text)
		}
	}
	for _, direction := range []string{"rx", "tx"} {
		files, _ := fs.Glob(sys.FS(), dir+"/queues/"+direction+"-*/*s*") // rps, xps, and what else steers
		for _, f := range files {
			if text, err := fs.ReadFile(sys.FS(), f); err == nil {
				all[strings.TrimPrefix(f, "class/net/")] = string(text)
			}
		}
	}
	features, err := e.Features(name)
	all[name+" features"] = fmt.Sprint(features, err) // maps print in the order of their keys
	channels, err := e.Channels(name)
	all[name+" channels"] = fmt.Sprint(channels, err)
	rings, err := e.Ring(name)
	all[name+" rings"] = fmt.Sprint(rings, err)
	coalesce, err := e.Coalesce(name)
	all[name+" coalesce"] = fmt.Sprint(coalesce, err)
	pause, err := e.Pause(name)
	all[name+" pause"] = fmt.Sprint(pause, err)
	qdiscs, err := netlink.QdiscList(l)
	if err != nil {
		return err
	}
	for _, q := range qdiscs {
		all[name+" qdisc "+netlink.HandleStr(q.Attrs().Parent)] = q.Type() + " " + netlink.HandleStr(q.Attrs().Handle)
	}
	all[name+" link"] = fmt.Sprint(l.Attrs().MTU, l.Attrs().TxQLen, l.Attrs().RawFlags&^unix.IFF_RUNNING, l.Attrs().Promisc)
	return nil
}

// Diff says what differs, in words, in order of names.
func Diff(before, after map[string]string) (out []string) {
	for k, v := range before {
		if w, ok := after[k]; !ok {
			out = append(out, k+" is gone")
		} else if v != w {
			out = append(out, fmt.Sprintf("%s was %q and is %q", k, v, w))
		}
	}
	for k := range after {
		if _, ok := before[k]; !ok {
			out = append(out, k+" is new")
		}
	}
	slices.Sort(out)
	return out
}
