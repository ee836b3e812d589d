// SPDX-License-Identifier: Apache-2.0

package files

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func held(t *testing.T, dir string, o *Owner) *Folder {
	t.Helper()
	f, err := OpenFolder(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// A name in a folder leads to a file of that folder, or to none.
func TestAppendRefuses(t *testing.T) {
	dir, away := t.TempDir(), filepath.Join(t.TempDir(), "file")
	f := held(t, dir, nil)
	fifo := filepath.Join(dir, "fifo")
	if err := errors.Join(os.WriteFile(away, nil, 0o600), os.Symlink(away, filepath.Join(dir, "link")), unix.Mkfifo(fifo, 0o600), os.Mkdir(filepath.Join(dir, "dir"), 0o700)); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"link": "not followed", "fifo": "not a regular file", "dir": "is a directory", "none": "no such file"} {
		file, err := f.Append(name, false)
		if err == nil {
			file.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for range 2 { // made, and then opened
		file, err := f.Append("new", true)
		if err == nil {
			_, err = file.WriteString("x")
			err = errors.Join(err, file.Close())
		}
		if err != nil {
			t.Error(err)
		}
	}
	if data, err := os.ReadFile(filepath.Join(dir, "new")); err != nil || string(data) != "xx" {
		t.Errorf("%q, %v", data, err)
	}
}

// Root appends to no file of somebody who has no part in the folder, and to none that has
// another name elsewhere.
func TestAppendForOthers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to make files of other users: run script/test with sudo")
	}
	const user, other = 12345, 23456
	dir, away := t.TempDir(), filepath.Join(t.TempDir(), "file")
	make := func(name string, uid int) {
		t.Helper()
		if err := errors.Join(os.WriteFile(name, nil, 0o600), os.Chown(name, uid, uid)); err != nil {
			t.Fatal(err)
		}
	}
	in := func(name string) string { return filepath.Join(dir, name) }
	make(away, 0)
	make(in("root's"), 0)
	make(in("theirs"), user)
	make(in("other's"), other)
	if err := errors.Join(os.Link(away, in("second")), os.Chown(dir, user, user)); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"second": "second name", "other's": "belongs to user 23456", "theirs": "", "root's": ""} {
		for _, o := range []*Owner{nil, {user, user}} {
			file, err := held(t, dir, o).Append(name, true)
			if err == nil {
				file.Close()
			}
			if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%s for %+v: %v", name, o, err)
			}
		}
	}
	file, err := held(t, dir, &Owner{user, user}).Append("new", true)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if st, err := status(file); err != nil || st.Uid != user {
		t.Errorf("it belongs to %d, %v", st.Uid, err)
	}
}

// A folder that was exchanged while it was made is not handed over.
func TestGiveRefuses(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to hand folders over: run script/test with sudo")
	}
	dir := t.TempDir()
	f := held(t, dir, &Owner{12345, 12345})
	if err := os.WriteFile(filepath.Join(dir, "root's"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := f.give(); err == nil || !strings.Contains(err.Error(), "exchanged") {
		t.Error(err)
	}
	if info, err := os.Stat(dir); err != nil || info.Sys().(*syscall.Stat_t).Uid != 0 {
		t.Errorf("%+v, %v", info, err)
	}
	if err := errors.Join(os.Remove(filepath.Join(dir, "root's")), f.give()); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(dir); err != nil || info.Sys().(*syscall.Stat_t).Uid != 12345 {
		t.Errorf("%+v, %v", info, err)
	}
}

// A new file takes the place of a link, not of what it leads to, and leads out of no folder.
func TestReplace(t *testing.T) {
	dir, away := t.TempDir(), filepath.Join(t.TempDir(), "file")
	if err := errors.Join(os.WriteFile(away, []byte("old"), 0o600), os.Symlink(away, filepath.Join(dir, "page")), os.WriteFile(filepath.Join(dir, "kept"), []byte("old"), 0o640)); err != nil {
		t.Fatal(err)
	}
	text := func(s string) func(*os.File) error {
		return func(f *os.File) error { _, err := f.WriteString(s); return err }
	}
	for name, mode := range map[string]os.FileMode{"page": 0o644, "kept": 0o640} {
		name = filepath.Join(dir, name)
		err := Replace(name, nil, text("new"))
		data, rerr := os.ReadFile(name)
		info, serr := os.Lstat(name)
		if err := errors.Join(err, rerr, serr); err != nil || string(data) != "new" || info.Mode() != mode {
			t.Errorf("%s: %q, %v, %v", name, data, info, err)
		}
	}
	if data, err := os.ReadFile(away); err != nil || string(data) != "old" {
		t.Errorf("where the link led: %q, %v", data, err)
	}
	f := held(t, dir, nil)
	for _, name := range []string{"", ".", "..", "../out", "a/b", "/"} {
		if err := f.Replace(name, text("x")); err == nil {
			t.Errorf("%q is replaced", name)
		}
	}
}

// A path of links without end ends.
func TestLinksEnd(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink("loop", filepath.Join(dir, "loop")); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenFolder(filepath.Join(dir, "loop"), nil); !errors.Is(err, unix.ELOOP) {
		t.Error(err)
	}
}
