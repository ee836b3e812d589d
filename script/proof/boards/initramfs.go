// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path"
)

// An entry is a file of the board: its content is data, or that of the file from.
type entry struct {
	name string // without a leading slash
	mode uint32 // permissions
	from string
	data []byte
}

// folders that init mounts on, and those that programs expect.
var folders = []string{"dev", "proc", "sys", "run", "tmp", "bin", "etc", "root", "out", "modules", "var", "var/lib"}

const (
	isFile      = 0o100000
	isDirectory = 0o040000
	isCharacter = 0o020000
)

// A cpio writes the form of archive that the kernel unpacks ("newc", buffer-format.rst
// of the kernel's driver-api/early-userspace).
type cpio struct {
	w    *bufio.Writer
	made map[string]bool
	n    int // headers so far
	err  error
}

// writeInitramfs writes an archive of the entries, with the folders that they are in.
func writeInitramfs(w io.Writer, entries []entry) error {
	c := &cpio{w: bufio.NewWriterSize(w, 1<<20), made: map[string]bool{".": true}}
	for _, d := range folders {
		c.folder(d)
	}
	c.header("dev/console", isCharacter|0o600, 0, 5, 1) // init's standard streams
	for _, e := range entries {
		c.folder(path.Dir(e.name))
		data := e.data
		if e.from != "" {
			var err error
			if data, err = os.ReadFile(e.from); err != nil {
				return fmt.Errorf("bring %s to the board: %w", e.name, err)
			}
		}
		c.header(e.name, isFile|e.mode, len(data), 0, 0)
		c.bytes(data)
	}
	c.header("TRAILER!!!", 0, 0, 0, 0)
	if c.err != nil {
		return c.err
	}
	return c.w.Flush()
}

func (c *cpio) folder(name string) {
	if c.made[name] {
		return
	}
	c.folder(path.Dir(name))
	c.made[name] = true
	c.header(name, isDirectory|0o755, 0, 0, 0)
}

func (c *cpio) header(name string, mode uint32, size, major, minor int) {
	c.n++
	fields := []int{c.n, int(mode), 0, 0, 1, 0, size, 0, 0, major, minor, len(name) + 1, 0}
	h := "070701"
	for _, f := range fields {
		h += fmt.Sprintf("%08X", f)
	}
	c.bytes([]byte(h + name + "\x00"))
}

// bytes writes data, and fills up to a multiple of four.
func (c *cpio) bytes(data []byte) {
	for _, d := range [][]byte{data, make([]byte, -len(data)&3)} {
		if _, err := c.w.Write(d); c.err == nil {
			c.err = err
		}
	}
}
