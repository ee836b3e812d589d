// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"boxdyno/internal/files"
)

// A frame with an 802.1Q tag may be 4 octets longer, as ports carry it; one with
// another tag may not.
func TestCaptureTagged(t *testing.T) {
	tagged := func(n int, kind string) record {
		b := ether(n)
		copy(b[12:], kind)
		return record{data: b}
	}
	const vlan = "\x81\x00"
	file := makePcap(le, magicMicro, linkEthernet, 1e6,
		tagged(100, "\x08\x00"), tagged(101, "\x08\x00"), tagged(104, vlan), tagged(105, vlan), tagged(104, "\x88\xa8"))
	for long, want := range map[LongFrames][]int{Refuse: {100, 104}, Cut: {100, 100, 104, 104, 100}} {
		for _, r := range []io.Reader{bytes.NewReader(file), bufio.NewReader(bytes.NewReader(file))} {
			c, err := OpenCaptureReader(r, "f", CaptureOptions{Longest: 100, LongFrames: long})
			if err != nil {
				t.Fatal(err)
			}
			var lens []int
			for _, s := range whole(t, c) {
				lens = append(lens, int(s.Len))
			}
			if !slices.Equal(lens, want) || c.Shape().Longest != 104 {
				t.Errorf("policy %d: frames of %v octets, the longest of %d, want %v and 104", long, lens, c.Shape().Longest, want)
			}
		}
	}
}

// Reading ends with its context, also from a pipe that nobody writes to.
func TestCaptureEnds(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := OpenCaptureReader(r, "pipe", CaptureOptions{Context: ctx})
		ended <- err
	}()
	stop()
	select {
	case err := <-ended:
		if !errors.Is(err, context.Canceled) || !strings.HasPrefix(err.Error(), "read pipe: ") {
			t.Errorf("%v", err)
		}
	case <-time.After(time.Minute):
		t.Error("it does not end")
	}
	file := makePcap(le, magicMicro, linkEthernet, 1e6, record{data: ether(60)})
	if _, err := OpenCaptureReader(bytes.NewReader(file), "f", CaptureOptions{Context: ctx}); !errors.Is(err, context.Canceled) {
		t.Errorf("a file: %v", err)
	}
}

// A FIFO is no capture, and no file of rates; nothing waits for it.
func TestCaptureIsAFile(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "templates.yaml")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for what, open := range map[string]func() error{
		"a capture": func() error { _, err := OpenCapture(fifo, CaptureOptions{}); return err },
		"rates":     func() error { _, err := OpenTemplates(fifo, TemplateOptions{}); return err },
	} {
		ended := make(chan error, 1)
		go func() { ended <- open() }()
		select {
		case err := <-ended:
			if !errors.Is(err, files.ErrNotRegular) {
				t.Errorf("%s: %v", what, err)
			}
		case <-time.After(time.Minute):
			t.Errorf("%s: it waits", what)
		}
	}
}
