// SPDX-License-Identifier: Apache-2.0

package subject

import (
	"context"
	"path/filepath"
	"strconv"
	"time"

	"boxdyno/host"
)

// counter is the least that a program can do with libpcap. It is compiled on the
// machine itself, against its own library.
var counter = tool{
	name: "libpcap", work: Count, check: func(ctx context.Context, _ *Capture) error { _, err := compileCounter(ctx); return err },
	doc: "a libpcap counter of 100 lines of C, compiled on the machine",
	argv: func(c *Capture, e place) ([]string, error) {
		program, err := compileCounter(context.Background()) // Check has compiled it
		return []string{program, e.Port.Name, c.Filter, strconv.FormatUint(c.Buffer, 10)}, err
	},
	said: func(*Capture, Env) (parser, parser) { return parseCounter, nil },
	lag:  libpcapLag,
}

// libpcapLag is above the 10 ms after which programs of ours get a block that is not
// full; the kernel's timer may tick every 10 ms only, and looks twice.
const libpcapLag = 100 * time.Millisecond

// compileCounter is the compiled counter, from the store where it is there.
func compileCounter(ctx context.Context) (program string, err error) {
	dir, err := store()
	if err != nil {
		return "", err
	}
	c := madeHere{name: "libpcap-counter", sources: []string{"count.c"}, libs: []string{"-lpcap"}, flags: []string{"-O2"}, packages: []string{"libpcap-dev"}}
	program = filepath.Join(dir, "libpcap-"+digest(embedded("count.c")))
	return program, c.make(ctx, &host.Local{}, program)
}
