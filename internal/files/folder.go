// SPDX-License-Identifier: Apache-2.0

package files

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Root writes into folders of users who may change them meanwhile: a name of their
// choice must not lead it to another file. So a path is walked name by name, each from
// the folder before it, and a file is opened in the folder that is held:
//
//	/ --openat--> home --openat--> user --openat--> run --openat--> trials.jsonl
//	      a user's link leads only to a folder of that user     no link, no second name

// An Owner is the user for whom root writes. What is made is theirs from the moment on
// that it is made. nil: whoever runs the program.
type Owner struct{ UID, GID int }

// A Folder is a folder that is held open. A name in it is a file's, without a slash.
type Folder struct {
	Name  string
	dir   *os.File // of O_PATH
	owner *Owner
}

// Sync is a variable because only a test that listens sees it.
var Sync = (*os.File).Sync

// ErrLink is the error for a link that root does not follow.
var ErrLink = errors.New("it is a link of another user, which root does not follow")

// most is how many links a path may have, as in the kernel.
const most = 40

// OpenFolder holds an existing folder.
func OpenFolder(dir string, o *Owner) (*Folder, error) { return open(dir, o, 0) }

// MakeFolder makes the folder where it does not exist, with those above it; their names
// are on the disk when it returns.
func MakeFolder(dir string, o *Owner) (*Folder, error) { return open(dir, o, 0o755) }

// MakePrivateFolder is MakeFolder for what nobody but the owner may look into.
func MakePrivateFolder(dir string, o *Owner) (*Folder, error) { return open(dir, o, 0o700) }

// open holds a folder. Missing ones are made with the mode mk; 0: none is made.
func open(dir string, o *Owner, mk uint32) (*Folder, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	links := 0
	f, err := walk(abs, o, mk, &links)
	if err != nil {
		return nil, err
	}
	f.Name = filepath.Clean(dir)
	return f, nil
}

// walk holds the folder at an absolute path.
func walk(path string, o *Owner, mk uint32, links *int) (*Folder, error) {
	fd, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: "/", Err: err}
	}
	at := &Folder{Name: "/", dir: os.NewFile(uintptr(fd), "/"), owner: o}
	for name := range strings.SplitSeq(strings.Trim(filepath.Clean(path), "/"), "/") {
		if name == "" {
			break
		}
		next, err := at.step(name, mk, links)
		err = errors.Join(err, at.Close())
		if err != nil {
			return nil, err
		}
		at = next
	}
	return at, nil
}

// step holds a folder within f.
func (f *Folder) step(name string, mk uint32, links *int) (*Folder, error) {
	made := false
	file, err := f.open(name, unix.O_PATH, 0)
	if errors.Is(err, fs.ErrNotExist) && mk != 0 {
		err = unix.Mkdirat(int(f.dir.Fd()), name, mk)
		if made = err == nil; made || err == unix.EEXIST {
			file, err = f.open(name, unix.O_PATH, 0)
		} else {
			err = &fs.PathError{Op: "mkdir", Path: f.path(name), Err: err}
		}
	}
	if err != nil {
		return nil, err
	}
	next := &Folder{Name: f.path(name), dir: file, owner: f.owner}
	st, err := status(file)
	switch {
	case err != nil:
	case st.Mode&unix.S_IFMT == unix.S_IFLNK && made:
		err = ErrLink
	case st.Mode&unix.S_IFMT == unix.S_IFLNK:
		defer file.Close()
		return f.follow(name, file, st, mk, links)
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		err = unix.ENOTDIR
	case made:
		err = errors.Join(next.give(), f.Sync())
	}
	if err != nil {
		return nil, errors.Join(&fs.PathError{Op: "open", Path: next.Name, Err: err}, file.Close())
	}
	return next, nil
}

// give hands over a folder that was just made. One that is not empty is another by now.
func (f *Folder) give() error {
	if f.owner == nil {
		return nil
	}
	dir, err := f.open(".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer dir.Close()
	if names, _ := dir.Readdirnames(1); len(names) > 0 {
		return errors.New("it was exchanged while it was made")
	}
	return dir.Chown(f.owner.UID, f.owner.GID)
}

// follow holds what a link within f leads to.
func (f *Folder) follow(name string, link *os.File, st unix.Stat_t, mk uint32, links *int) (*Folder, error) {
	refuse := func(err error) (*Folder, error) {
		return nil, &fs.PathError{Op: "open", Path: f.path(name), Err: err}
	}
	if *links++; *links > most {
		return refuse(unix.ELOOP)
	}
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(int(link.Fd()), "", buf)
	if err != nil {
		return refuse(err)
	}
	to := string(buf[:n])
	if !filepath.IsAbs(to) {
		to = f.path(to)
	}
	foreign := os.Geteuid() == 0 && st.Uid != 0
	if foreign {
		mk = 0
	}
	next, err := walk(to, f.owner, mk, links)
	if err != nil || !foreign {
		return next, err
	}
	if there, err := status(next.dir); err != nil || there.Uid != st.Uid {
		_ = next.Close()
		return refuse(ErrLink)
	}
	return next, nil
}

func status(f *os.File) (st unix.Stat_t, err error) {
	err = unix.Fstat(int(f.Fd()), &st)
	return st, err
}

func (f *Folder) path(name string) string { return filepath.Join(f.Name, name) }

// open opens a name in f; a last link is not followed.
func (f *Folder) open(name string, flags int, mode uint32) (*os.File, error) {
	for {
		fd, err := unix.Openat(int(f.dir.Fd()), name, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, mode)
		switch err {
		case nil:
			return os.NewFile(uintptr(fd), f.path(name)), nil
		case unix.EINTR:
			continue
		case unix.ELOOP:
			return nil, &fs.PathError{Op: "open", Path: f.path(name), Err: errors.New("it is a link, which is not followed: remove it")}
		}
		return nil, &fs.PathError{Op: "open", Path: f.path(name), Err: err}
	}
}

// Has says whether f has a file, or a link, of that name.
func (f *Folder) Has(name string) bool {
	var st unix.Stat_t
	return unix.Fstatat(int(f.dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil
}

// Remove removes a file of that name, or a folder with nothing in it.
func (f *Folder) Remove(name string) error {
	err := unix.Unlinkat(int(f.dir.Fd()), name, 0)
	if err == unix.EISDIR {
		err = unix.Unlinkat(int(f.dir.Fd()), name, unix.AT_REMOVEDIR)
	}
	if err != nil {
		return &fs.PathError{Op: "remove", Path: f.path(name), Err: err}
	}
	return nil
}

// Names are those of everything in f.
func (f *Folder) Names() ([]string, error) {
	dir, err := f.open(".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return dir.Readdirnames(-1)
}

// Open opens a regular file for reading.
func (f *Folder) Open(name string) (*os.File, error) {
	file, err := f.open(name, unix.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil {
		err = regular(file.Name(), info)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// appending are the flags of a file that grows.
const appending = unix.O_RDWR | unix.O_APPEND

// Create makes a file for appending to it. For one that exists the error is fs.ErrExist.
func (f *Folder) Create(name string, mode uint32) (*os.File, error) {
	file, err := f.open(name, appending|unix.O_CREAT|unix.O_EXCL, mode)
	if err == nil && f.owner != nil {
		if err = file.Chown(f.owner.UID, f.owner.GID); err != nil {
			return nil, errors.Join(err, file.Close())
		}
	}
	return file, err
}

// Append opens a file for reading, and for appending to it. With mk one that does not
// exist is made.
func (f *Folder) Append(name string, mk bool) (*os.File, error) {
	if mk {
		if file, err := f.Create(name, 0o644); !errors.Is(err, fs.ErrExist) {
			return file, err
		}
	}
	file, err := f.open(name, appending, 0)
	if err != nil {
		return nil, err
	}
	if err := f.own(file); err != nil {
		return nil, errors.Join(&fs.PathError{Op: "open", Path: f.path(name), Err: err}, file.Close())
	}
	return file, nil
}

// own says why an existing file is not one to write to. Of root that is also a file of
// somebody who has no part in the folder, or one that has another name elsewhere.
func (f *Folder) own(file *os.File) error {
	st, err := status(file)
	if err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return ErrNotRegular
	}
	if os.Geteuid() != 0 {
		return nil
	}
	dir, err := status(f.dir)
	switch {
	case err != nil:
		return err
	case st.Nlink > 1:
		return errors.New("it has a second name, which may be another file's: make a copy in its place")
	case st.Uid != 0 && st.Uid != dir.Uid && (f.owner == nil || int(st.Uid) != f.owner.UID):
		return fmt.Errorf("it belongs to user %d, and its folder to user %d", st.Uid, dir.Uid)
	}
	return nil
}

// Replace puts a new file in the place of one, or of a link, of that name: whole, when
// write has succeeded and all of it is on the disk, or not at all. The new one has the
// permissions of the old one.
func (f *Folder) Replace(name string, write func(*os.File) error) (err error) {
	if name != filepath.Base(name) || name == "." || name == ".." || name == "/" {
		return &fs.PathError{Op: "write", Path: f.path(name), Err: errors.New("it is not a file's name")}
	}
	temp := "." + name + "." + rand.Text()[:8]
	file, err := f.open(temp, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, file.Close())
		if err == nil {
			err = unix.Renameat(int(f.dir.Fd()), temp, int(f.dir.Fd()), name)
		}
		if err != nil {
			_ = unix.Unlinkat(int(f.dir.Fd()), temp, 0)
			return
		}
		err = f.Sync()
	}()
	if err := f.like(name, file); err != nil {
		return err
	}
	if err := write(file); err != nil {
		return err
	}
	return Sync(file)
}

// like gives a new file the permissions and the owner of the one that it replaces.
func (f *Folder) like(name string, file *os.File) error {
	owner := f.owner
	var old unix.Stat_t
	if unix.Fstatat(int(f.dir.Fd()), name, &old, unix.AT_SYMLINK_NOFOLLOW) == nil && old.Mode&unix.S_IFMT == unix.S_IFREG {
		if err := file.Chmod(fs.FileMode(old.Mode & 0o777)); err != nil {
			return err
		}
		if owner == nil && os.Geteuid() == 0 {
			owner = &Owner{int(old.Uid), int(old.Gid)}
		}
	}
	if owner == nil {
		return nil
	}
	return file.Chown(owner.UID, owner.GID)
}

// Sync makes the names in f outlive a power cut.
func (f *Folder) Sync() error {
	dir, err := f.open(".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer dir.Close()
	// Some file systems know no such thing, and answer EINVAL.
	if err := Sync(dir); err != nil && !errors.Is(err, unix.EINVAL) {
		return err
	}
	return nil
}

// Close lets go of the folder.
func (f *Folder) Close() error { return f.dir.Close() }

// Replace is Folder.Replace for a path, whose folder must exist.
func Replace(name string, o *Owner, write func(*os.File) error) error {
	f, err := OpenFolder(filepath.Dir(name), o)
	if err != nil {
		return err
	}
	return errors.Join(f.Replace(filepath.Base(name), write), f.Close())
}
