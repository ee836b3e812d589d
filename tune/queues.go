// SPDX-License-Identifier: Apache-2.0

package tune

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"boxdyno/host"
)

// Steering between CPUs, a file a queue (kernel, Documentation/networking/scaling.rst).
var (
	rps = queueFile("rps", "CPUs that receive work of each queue is handed to (receive packet steering); 0: none, it stays where the interrupt came",
		"a mask in hexadecimal, or all", "rx-", "rps_cpus", checkMask)
	rfs = queueFile("rfs", "flows whose receive work follows their reader's CPU, for each queue; needs sysctl:net.core.rps_sock_flow_entries",
		"a number; the kernel rounds it up to a power of two", "rx-", "rps_flow_cnt", number(0, 1<<30))
	xps = queueFile("xps", "CPUs that send through each queue (transmit packet steering)",
		"a mask in hexadecimal, or all", "tx-", "xps_cpus", checkMask)
)

func checkMask(v string) error {
	if v == "all" {
		return nil
	}
	for _, w := range strings.Split(v, ",") {
		if _, err := strconv.ParseUint(w, 16, 32); err != nil {
			return fmt.Errorf("%q is no mask of CPUs in hexadecimal, in groups of 32 bits between commas", v)
		}
	}
	return nil
}

// number is a Check for an integer from lo to hi.
func number(lo, hi int64) func(string) error {
	return func(v string) error {
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil || n < lo || n > hi {
			return fmt.Errorf("%q is no number from %d to %d", v, lo, hi)
		}
		return nil
	}
}

// queueFile is a knob that is a file of every queue of a port. Its value is that of
// all queues, or "rx-0=1 rx-1=2".
func queueFile(name, doc, values, prefix, file string, check func(string) error) Spec {
	return Spec{
		Name: name, Doc: doc, Values: values, Scope: PerPort, Check: check,
		Read: func(_ context.Context, at Site) (text string, err error) {
			err = at.sys(func(sys *os.Root) error {
				queues, err := queuesOf(sys, at.Port, prefix)
				if err != nil {
					return err
				}
				var each []string
				for _, q := range queues {
					v, err := readFile(sys, "class/net/"+at.Port+"/queues/"+q+"/"+file)
					if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) { // one queue needs no steering
						return fmt.Errorf("%w with one queue", host.ErrNotSupported)
					}
					if err != nil {
						return err
					}
					each = append(each, q+"="+v)
				}
				text = uniform(each)
				return nil
			})
			return text, err
		},
		Resolve: func(_ context.Context, _ Site, asked, now string) (string, error) {
			if file == "rps_flow_cnt" {
				n, err := strconv.ParseUint(asked, 10, 32)
				if err == nil && n > 0 && n&(n-1) != 0 {
					return asked, nil // rounded up: the read-back says to what
				}
				return asked, err
			}
			like := now
			if _, v, ok := strings.Cut(now, "="); ok {
				like, _, _ = strings.Cut(v, " ")
			}
			return maskLike(asked, like)
		},
		Write: func(_ context.Context, at Site, value string) error {
			return at.sys(func(sys *os.Root) error {
				queues, err := queuesOf(sys, at.Port, prefix)
				if err != nil {
					return err
				}
				for _, q := range queues {
					v, ok := eachOf(value, q)
					if !ok {
						continue // a queue that came later has what the kernel gave it
					}
					if err := writeFile(sys, "class/net/"+at.Port+"/queues/"+q+"/"+file, v); err != nil {
						return fmt.Errorf("queue %s: %w", q, err)
					}
				}
				return nil
			})
		},
		Export: func(port, value string) ([]Exported, error) {
			if value == "all" { // those of the machine that the files are made on
				var err error
				if value, err = maskLike(value, ""); err != nil {
					return nil, err
				}
			}
			return command(fmt.Sprintf("/bin/sh -c 'for q in /sys/class/net/%s/queues/%s*/%s; do echo %s > $$q; done'", port, prefix, file, value)), nil
		},
	}
}

// queuesOf are a port's queues of one direction, in order.
func queuesOf(sys *os.Root, port, prefix string) (names []string, err error) {
	if _, err := sys.Stat("class/net/" + port); err != nil {
		return nil, noPort(port)
	}
	entries, err := fs.ReadDir(sys.FS(), "class/net/"+port+"/queues")
	if err != nil {
		return nil, absent(err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), prefix) {
			names = append(names, e.Name())
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%w: it has no such queues", host.ErrNotSupported)
	}
	slices.SortFunc(names, func(a, b string) int { return len(a) - len(b) }) // rx-10 after rx-9
	return names, nil
}

// uniform is the value that all of "name=value" have, else they themselves.
func uniform(each []string) string {
	_, first, _ := strings.Cut(each[0], "=")
	for _, e := range each {
		if _, v, _ := strings.Cut(e, "="); v != first {
			return strings.Join(each, " ")
		}
	}
	return first
}

// eachOf is what a value says of one; false: nothing.
func eachOf(value, name string) (string, bool) {
	if !strings.Contains(value, "=") {
		return value, true
	}
	for _, w := range strings.Fields(value) {
		if v, ok := strings.CutPrefix(w, name+"="); ok {
			return v, true
		}
	}
	return "", false
}

// mixed says whether a value of several is one's here and the other's there: what a
// process leaves that dies while it writes them.
func mixed(value, one, other string) bool {
	if !strings.Contains(value, "=") {
		return false
	}
	for _, w := range strings.Fields(value) {
		name, v, _ := strings.Cut(w, "=")
		a, here := eachOf(one, name)
		b, there := eachOf(other, name)
		if !(here && v == a || there && v == b) {
			return false
		}
	}
	return true
}

// maskLike writes a mask as the kernel does: groups of 32 bits, as wide as like is.
func maskLike(asked, like string) (string, error) {
	groups := strings.Split(like, ",")
	if asked == "all" {
		n, err := presentCPUs()
		if err != nil {
			return "", err
		}
		var words []string
		for ; n > 0; n -= 32 {
			words = append(words, strconv.FormatUint(1<<min(n, 32)-1, 16))
		}
		slices.Reverse(words)
		asked = strings.Join(words, ",")
	}
	have := strings.Split(asked, ",")
	for len(have) < len(groups) {
		have = append([]string{"0"}, have...)
	}
	for i, h := range have {
		n, err := strconv.ParseUint(h, 16, 32)
		if err != nil {
			return "", fmt.Errorf("%q is no mask of CPUs", asked)
		}
		width := 1
		if len(have) > 1 {
			width = 8
		}
		if len(have) == len(groups) {
			width = len(groups[i])
		}
		have[i] = fmt.Sprintf("%0*x", width, n)
	}
	return strings.Join(have, ","), nil
}
