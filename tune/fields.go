// SPDX-License-Identifier: Apache-2.0

package tune

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"boxdyno/internal/ethtool"
)

// A field is one number of a setting that has several, "rx=4096 tx=256".
type field struct {
	name string
	get  func() *uint32
	max  func() uint32 // nil: no maximum is known
	flag bool          // on or off
	some bool          // many drivers have none of it: 0 is left out
}

func (f field) text() string {
	v := *f.get()
	if f.flag {
		return [...]string{"off", "on"}[min(v, 1)]
	}
	return strconv.FormatUint(uint64(v), 10)
}

// nothing is the value of fields that are all 0.
const nothing = "none"

// fieldsText is how the fields read, in order.
func fieldsText(fs []field) string {
	var words []string
	for _, f := range fs {
		if !f.some || *f.get() != 0 {
			words = append(words, f.name+"="+f.text())
		}
	}
	if len(words) == 0 {
		return nothing
	}
	return strings.Join(words, " ")
}

// pairs splits "rx=4096 tx=256"; a comma separates too.
func pairs(value string) (out [][2]string, err error) {
	for _, w := range strings.FieldsFunc(value, func(r rune) bool { return r == ' ' || r == ',' }) {
		k, v, ok := strings.Cut(w, "=")
		if !ok || k == "" || v == "" {
			return nil, fmt.Errorf("%q is not NAME=VALUE", w)
		}
		out = append(out, [2]string{k, v})
	}
	if len(out) == 0 {
		return nil, errors.New("nothing is set: want NAME=VALUE")
	}
	return out, nil
}

// setFields puts what value names into the fields. Those that it does not name stay.
func setFields(fs []field, value string) error {
	ps, err := pairs(value)
	if err != nil {
		return err
	}
	for _, p := range ps {
		i := slices.IndexFunc(fs, func(f field) bool { return f.name == p[0] })
		if i < 0 {
			var names []string
			for _, f := range fs {
				names = append(names, f.name)
			}
			return fmt.Errorf("there is no %s: there are %s", p[0], strings.Join(names, ", "))
		}
		f := fs[i]
		switch {
		case f.flag && (p[1] == "on" || p[1] == "off"):
			*f.get() = map[string]uint32{"off": 0, "on": 1}[p[1]]
		case f.flag:
			return fmt.Errorf("%s=%s: want on or off", p[0], p[1])
		case p[1] == "max" && f.max != nil:
			*f.get() = f.max()
		default:
			n, err := strconv.ParseUint(p[1], 10, 32)
			if err != nil {
				return fmt.Errorf("%s=%s: want a number", p[0], p[1])
			}
			if f.max != nil && uint32(n) > f.max() {
				return fmt.Errorf("%s=%d: the driver has at most %d", p[0], n, f.max())
			}
			*f.get() = uint32(n)
		}
	}
	return nil
}

// tool runs f with ethtool's socket in the site's namespace. It needs CAP_NET_ADMIN
// to set anything.
func (s Site) tool(f func(e *ethtool.Socket) error) error {
	return s.within(func() error {
		e, err := ethtool.Open()
		if err != nil {
			return err
		}
		defer e.Close()
		err = f(e)
		if errors.Is(err, unix.ENODEV) {
			return noPort(s.Port)
		}
		return absent(err)
	})
}

// fielded is a knob over a struct T of ethtool's. blank makes T's fields, for
// Check; T is read and written as a whole, as the ioctl wants it.
func fielded[T any](s Spec, fields func(*T) []field, get func(*ethtool.Socket, string) (T, error), set func(*ethtool.Socket, string, T) error) Spec {
	s.Scope = PerPort
	s.Check = func(v string) error {
		var t T
		all := fields(&t)
		for i := range all {
			if all[i].max != nil {
				all[i].max = func() uint32 { return math.MaxUint32 } // unknown without a driver
			}
		}
		return setFields(all, v)
	}
	read := func(at Site) (t T, err error) {
		err = at.tool(func(e *ethtool.Socket) (err error) {
			t, err = get(e, at.Port)
			return err
		})
		return t, err
	}
	s.Read = func(_ context.Context, at Site) (string, error) {
		t, err := read(at)
		return fieldsText(fields(&t)), err
	}
	s.Resolve = func(_ context.Context, at Site, asked, _ string) (string, error) {
		t, err := read(at)
		if err == nil {
			err = setFields(fields(&t), asked)
		}
		return fieldsText(fields(&t)), err
	}
	s.Write = func(_ context.Context, at Site, value string) error {
		t, err := read(at)
		if err != nil {
			return err
		}
		for _, f := range fields(&t) {
			if f.some {
				*f.get() = 0
			}
		}
		if value != nothing {
			if err := setFields(fields(&t), value); err != nil {
				return err
			}
		}
		return at.tool(func(e *ethtool.Socket) error { return set(e, at.Port, t) })
	}
	return s
}
