// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"context"
	"path/filepath"
	"strconv"
	"time"

	"boxdyno/host"
	"boxdyno/subject"
	"boxdyno/subject/internal/made"
)

// counter is the least that a program can do with libpcap. It is compiled on the
// machine itself, against its own library.
var counter = Tool{
	Name: "libpcap", Work: Count, check: func(ctx context.Context, _ *Capture) error { _, err := compileCounter(ctx); return err },
	doc: "a libpcap counter of 100 lines of C, compiled on the machine",
	Argv: func(c *Capture, e Place) ([]string, error) {
		program, err := compileCounter(context.Background()) // Check has compiled it
		return []string{program, e.Port.Name, c.Filter, strconv.FormatUint(c.Buffer, 10)}, err
	},
	Said: func(*Capture, subject.Env) (Parser, Parser) { return ParseCounter, nil },
	Lag:  LibpcapLag,
}

// LibpcapLag is above the 10 ms after which programs of ours get a block that is not
// full; the kernel's timer may tick every 10 ms only, and looks twice.
const LibpcapLag = 100 * time.Millisecond

// compileCounter is the compiled counter, from the store where it is there.
func compileCounter(ctx context.Context) (program string, err error) {
	dir, err := made.Store()
	if err != nil {
		return "", err
	}
	c := made.Program{Name: "libpcap-counter", Sources: []string{"count.c"}, Libs: []string{"-lpcap"}, Flags: []string{"-O2"}, Packages: []string{"libpcap-dev"}}
	program = filepath.Join(dir, "libpcap-"+made.Digest(made.Embedded("count.c")))
	return program, c.Make(ctx, &host.Local{}, program)
}
