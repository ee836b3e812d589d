// SPDX-License-Identifier: Apache-2.0

package ethtool

import (
	"fmt"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Sets of strings (enum ethtool_stringset).
const (
	statNames    = 1
	featureNames = 4
)

const (
	nameLen = 32      // ETH_GSTRING_LEN
	most    = 1 << 15 // strings of a set
	growth  = 1 << 12 // more than a set can grow by between two questions: the kernel writes them all
)

// names are a set's strings in their order; some are "".
func (s *Socket) names(port string, set uint32) ([]string, error) {
	count := &struct {
		command, _ uint32
		sets       uint64 // bits
		length     uint32
		_          uint32
	}{command: unix.ETHTOOL_GSSET_INFO, sets: 1 << set}
	if err := s.ask(port, unsafe.Pointer(count)); err != nil {
		return nil, err
	}
	switch {
	case count.sets == 0 || count.length == 0:
		return nil, nil
	case count.length > most:
		return nil, fmt.Errorf("%s has %d names of a kind, more than %d", port, count.length, most)
	}
	const head = 3 // words before the strings
	data := make([]uint32, head+(count.length+growth)*nameLen/4)
	data[0], data[1], data[2] = unix.ETHTOOL_GSTRINGS, set, count.length
	if err := s.ask(port, unsafe.Pointer(&data[0])); err != nil {
		return nil, err
	}
	text := unsafe.Slice((*byte)(unsafe.Pointer(&data[head])), 4*(len(data)-head))
	names := make([]string, min(data[2], count.length))
	for i := range names {
		names[i] = strings.TrimSpace(unix.ByteSliceToString(text[i*nameLen : (i+1)*nameLen]))
	}
	return names, nil
}

// Stats are the driver's own counters since it came up, by their names (ethtool -S).
func (s *Socket) Stats(port string) (map[string]uint64, error) {
	names, err := s.names(port, statNames)
	if err != nil || len(names) == 0 {
		return nil, err
	}
	data := make([]uint64, 1+len(names)+growth)
	head := (*[2]uint32)(unsafe.Pointer(&data[0]))
	head[0], head[1] = unix.ETHTOOL_GSTATS, uint32(len(names))
	if err := s.ask(port, unsafe.Pointer(&data[0])); err != nil {
		return nil, err
	}
	stats := make(map[string]uint64, len(names))
	for i, name := range names[:min(len(names), int(head[1]))] {
		stats[name] = data[1+i]
	}
	return stats, nil
}

// A Feature is what the kernel or a port's hardware may do to frames (ethtool -k).
type Feature struct {
	Available    bool // it can be switched
	Requested    bool // somebody wants it
	Active       bool // it is on
	NeverChanged bool // it cannot be switched, whatever else is said
}

// words is how many words of 32 features each n features take.
func words(n int) int { return (n + 31) / 32 }

// Features are the port's, by the kernel's names (net/ethtool/common.c).
func (s *Socket) Features(port string) (map[string]Feature, error) {
	names, err := s.names(port, featureNames)
	if err != nil {
		return nil, err
	}
	const head, word = 2, 4 // available, requested, active, never changed
	data := make([]uint32, head+word*words(len(names)))
	data[0], data[1] = unix.ETHTOOL_GFEATURES, uint32(words(len(names)))
	if err := s.ask(port, unsafe.Pointer(&data[0])); err != nil {
		return nil, err
	}
	features := make(map[string]Feature, len(names))
	for i, name := range names {
		if name == "" {
			continue
		}
		at := data[head+word*(i/32):]
		is := func(n int) bool { return at[n]>>(i%32)&1 != 0 }
		features[name] = Feature{Available: is(0), Requested: is(1), Active: is(2), NeverChanged: is(3)}
	}
	return features, nil
}

// SetFeatures asks for features to be on or off; those not named stay. The kernel may not
// comply, and gives no error then: see Features.
func (s *Socket) SetFeatures(port string, want map[string]bool) error {
	names, err := s.names(port, featureNames)
	if err != nil {
		return err
	}
	const head, word = 2, 2 // valid, requested
	data := make([]uint32, head+word*words(len(names)))
	data[0], data[1] = unix.ETHTOOL_SFEATURES, uint32(words(len(names)))
	for name, on := range want {
		i := slices.Index(names, name)
		if i < 0 {
			return fmt.Errorf("%s: this kernel has no feature %q", port, name)
		}
		at := data[head+word*(i/32):]
		at[0] |= 1 << (i % 32)
		if on {
			at[1] |= 1 << (i % 32)
		}
	}
	return s.ask(port, unsafe.Pointer(&data[0]))
}
