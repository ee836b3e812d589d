// SPDX-License-Identifier: Apache-2.0

package subject

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"boxdyno/host"
)

//go:embed programs/count.c
var counterSource string

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
	program = filepath.Join(dir, "libpcap-"+digest(counterSource))
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	if err := host.Has("cc"); err != nil {
		return "", &host.Missing{What: "a C compiler, which makes the libpcap counter", Remedy: [][]string{{"apt-get", "install", "-y", "gcc", "libc6-dev", "libpcap-dev"}}}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("keep the libpcap counter: %w", err)
	}
	made, err := os.MkdirTemp(dir, "making-")
	if err != nil {
		return "", fmt.Errorf("keep the libpcap counter: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(made)) }()
	source, out := filepath.Join(made, "count.c"), filepath.Join(made, "count")
	if err := os.WriteFile(source, []byte(counterSource), 0o644); err != nil {
		return "", fmt.Errorf("compile the libpcap counter: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if _, err := (&host.Local{}).Run(ctx, "", "cc", "-O2", "-o", out, source, "-lpcap"); err != nil {
		if strings.Contains(err.Error(), "pcap/pcap.h") || strings.Contains(err.Error(), "lpcap") {
			return "", &host.Missing{What: "libpcap's header", Remedy: [][]string{{"apt-get", "install", "-y", "libpcap-dev"}}}
		}
		return "", fmt.Errorf("compile the libpcap counter: %w", err)
	}
	if err := errors.Join(os.Chmod(out, 0o755), os.Rename(out, program)); err != nil {
		return "", fmt.Errorf("keep the libpcap counter: %w", err)
	}
	return program, nil
}
