// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"cmp"
	"context"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"boxdyno/host"
	"boxdyno/internal/files"
	"boxdyno/link"
)

// An Update is a program that takes the agent's place.
type Update struct {
	Version string        `json:"version"`         // as it says itself
	Arch    string        `json:"arch"`            // GOARCH
	SHA256  string        `json:"sha256"`          // in hexadecimal
	Size    int64         `json:"size"`            // octets
	Older   bool          `json:"older,omitempty"` // take one that is older, or of which that is not known
	Within  time.Duration `json:"within_ns"`       // how long it may take until the hub greets it
}

// Methods of an agent that a hub reaches. The update begins when the session ends.
const (
	UpdateCheck Ask[Update, None]         = "update.check"
	UpdatePut   Ask[FileChunk, FileState] = "update.put"
	UpdateApply Ask[Update, None]         = "update.apply"
)

const (
	mostProgram = 64 << 20
	// programChunk is a part that one order of a hub has room for.
	programChunk = 448 << 10
	mostWithin   = 10 * time.Minute
	stating      = 20 * time.Second // how long a program may take to say its version
)

// PutProgram sends a program, as Put sends a file.
func PutProgram(ctx context.Context, c *link.Conn, f io.ReadSeeker) error {
	_, err := put(ctx, c, UpdatePut, programChunk, f)
	return err
}

// An Updater puts another program in the place of an agent that a hub reaches. The agent's
// own stays there until the hub has greeted the new one:
//
//	hub                           agent                        new program
//	update.check ---------------> may it be?
//	update.put, update.apply ---> PROGRAM.new, --version ----> says its version
//	ends the session -----------> leaves the hub, waits -----> connect --trial
//	   <----------------- hello -------------------------------
//	   ------------------ welcome ----------------------------> ends
//	                              PROGRAM.new -> PROGRAM, exec
//
// A new one that crashes, hangs, or is not greeted in time is removed; the agent connects
// again, and says why.
type Updater struct {
	Program string // the path of the agent's own
	Version string
	Leave   func() // is called once a program is to be tried: the agent leaves the hub

	exec    func(path string, argv, env []string) error // nil: unix.Exec
	running string                                      // "": ownProgram

	mu   sync.Mutex
	next *Update
}

// UpdateMethods are those by which a hub updates the agent.
func UpdateMethods(u *Updater) []Method {
	return []Method{
		method(UpdateCheck, "whether a program may take the agent's place", func(_ *Session, _ context.Context, a Update) (None, error) { return None{}, u.may(a) }),
		method(UpdatePut, "keeps a part of a program while the connection lasts", (*Session).putProgram),
		method(UpdateApply, "has a program take the agent's place once the connection has ended", func(s *Session, ctx context.Context, a Update) (None, error) { return None{}, u.apply(ctx, s, a) }),
	}
}

func (s *Session) putProgram(ctx context.Context, a FileChunk) (FileState, error) {
	if a.Size > mostProgram {
		return FileState{}, fmt.Errorf("keep a program: it has %d octets, at most %d are kept", a.Size, mostProgram)
	}
	return s.putFile(ctx, a)
}

// ownProgram is what runs, whatever its name leads to by now.
const ownProgram = "/proc/self/exe"

func (u *Updater) file(suffix string) string { return u.Program + suffix }

// may says why a program may not take the agent's place.
func (u *Updater) may(a Update) error {
	info, err := os.Stat(u.Program)
	var st unix.Statfs_t
	if err == nil {
		err = unix.Statfs(filepath.Dir(u.Program), &st)
	}
	if err != nil {
		return fmt.Errorf("the agent's program was moved since it began: start the agent anew (%w)", err)
	}
	self, err := os.Stat(cmp.Or(u.running, ownProgram))
	if err != nil || !os.SameFile(self, info) {
		return fmt.Errorf("%s was replaced since the agent began: start the agent anew", u.Program)
	}
	if owner := packaged(u.Program); owner != "" {
		return fmt.Errorf("%s belongs to the Debian package %s: update it with apt on the board", u.Program, owner)
	}
	if err := own(filepath.Dir(u.Program)); err != nil {
		return err
	}
	older, known := olderVersion(a.Version, u.Version)
	switch {
	case a.Arch != runtime.GOARCH:
		return fmt.Errorf("the program is for %q, and this board runs those for %s", link.Cut(a.Arch, 16), runtime.GOARCH)
	case a.Size <= 0 || a.Size > mostProgram:
		return fmt.Errorf("a program of %d octets: want 1 to %d", a.Size, mostProgram)
	case a.Within <= 0 || a.Within > mostWithin:
		return fmt.Errorf("a program that the hub greets within %v: want more than 0, at most %v", a.Within, mostWithin)
	case older && !a.Older:
		return fmt.Errorf("version %s is older than %s here: --older installs it all the same", link.Cut(a.Version, 80), u.Version)
	case !known && a.Version != u.Version && !a.Older:
		return fmt.Errorf("whether version %s is older than %s here is not known: --older installs it all the same", link.Cut(a.Version, 80), u.Version)
	case int64(st.Bavail)*int64(st.Bsize) < a.Size+reserve:
		return &host.Missing{What: fmt.Sprintf("room for a program of %d MB in %s", a.Size>>20, filepath.Dir(u.Program)), Hint: "free space on that disk"}
	}
	return nil
}

// lists say which files packages have. Tests have others.
var lists = "/var/lib/dpkg/info"

// packaged is the Debian package that a file belongs to; "": it belongs to none.
func packaged(path string) string {
	all, _ := filepath.Glob(filepath.Join(lists, link.Name+"*.list")) // the pattern is well formed
	for _, name := range all {
		text, err := files.Read(name, 1<<20)
		if err != nil {
			continue
		}
		for l := range strings.Lines(string(text)) {
			if strings.TrimSpace(l) == path {
				owner, _, _ := strings.Cut(strings.TrimSuffix(filepath.Base(name), ".list"), ":")
				return owner
			}
		}
	}
	return ""
}

// apply has the program that was sent take the agent's place, once the session has ended.
func (u *Updater) apply(ctx context.Context, s *Session, a Update) error {
	if err := u.may(a); err != nil {
		return err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.next != nil {
		return errors.New("another update is under way")
	}
	s.mu.Lock()
	whole := s.whole[a.SHA256]
	s.mu.Unlock()
	if !whole {
		return errors.New("the program was not sent whole")
	}
	err := u.stage(filepath.Join(s.filesDir(), a.SHA256), a)
	if err == nil {
		err = u.states(ctx, a)
	}
	if err != nil {
		u.remove()
		return err
	}
	u.next = &a
	s.atEnd(func() error { u.Leave(); return nil })
	return nil
}

// remove takes away what was not put in place.
func (u *Updater) remove() { _ = os.Remove(u.file(newSuffix)) } // it may not be there

// Files beside the program.
const (
	newSuffix = ".new" // one that is tried
	oldSuffix = ".old" // the one before, until the hub has greeted its successor
)

// stage writes the program beside the agent's own, whole and on the disk.
func (u *Updater) stage(path string, a Update) error {
	f, err := files.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	mine, err := elf.Open(ownProgram)
	if err != nil {
		return err
	}
	defer mine.Close()
	theirs, err := elf.NewFile(f)
	if err != nil {
		return fmt.Errorf("what was sent is no program: %w", err)
	}
	if theirs.Machine != mine.Machine || theirs.Class != mine.Class || theirs.Data != mine.Data {
		return fmt.Errorf("what was sent is for %v, and this board runs programs for %v", theirs.Machine, mine.Machine)
	}
	h := sha256.New()
	if err := files.Replace(u.file(newSuffix), nil, func(to *os.File) error {
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return err
		}
		_, err := io.Copy(io.MultiWriter(to, h), f)
		return errors.Join(err, to.Chmod(0o755))
	}); err != nil {
		return fmt.Errorf("put the program beside the agent's: %w", err)
	}
	if hex.EncodeToString(h.Sum(nil)) != a.SHA256 {
		return errors.New("the program's SHA-256 is another than was said")
	}
	return nil
}

// states has the program say its version.
func (u *Updater) states(ctx context.Context, a Update) error {
	ctx, cancel := context.WithTimeout(ctx, stating)
	defer cancel()
	out, err := freshly(func() ([]byte, error) {
		cmd := exec.CommandContext(ctx, u.file(newSuffix), "--version")
		cmd.WaitDelay = time.Second
		return cmd.Output()
	})
	if err != nil {
		return fmt.Errorf("the program does not say its version: %w", err)
	}
	if want := fmt.Sprintf("%s %s %s/%s", link.Name, a.Version, runtime.GOOS, runtime.GOARCH); strings.TrimSpace(string(out)) != want {
		return fmt.Errorf("the program says that it is %q, and not %q", link.Cut(strings.TrimSpace(string(out)), 80), want)
	}
	return nil
}

// freshly starts a program that was written just now: a process that is about to be another
// one may still have it open for writing.
func freshly[T any](start func() (T, error)) (t T, err error) {
	for range 40 {
		if t, err = start(); !errors.Is(err, unix.ETXTBSY) {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	return t, err
}

// olderVersion says whether version a is older than b, as Debian orders them; not known
// where one is no number.
func olderVersion(a, b string) (older, known bool) {
	a, b = strings.TrimPrefix(a, "v"), strings.TrimPrefix(b, "v")
	digit := func(s string) bool { return s != "" && s[0] >= '0' && s[0] <= '9' }
	if !digit(a) || !digit(b) {
		return false, false
	}
	rank := func(s string) int {
		switch {
		case s == "" || digit(s):
			return 0
		case s[0] == '~':
			return -1
		case s[0] >= 'A' && s[0] <= 'Z' || s[0] >= 'a' && s[0] <= 'z':
			return int(s[0])
		}
		return int(s[0]) + 256
	}
	for a != "" || b != "" {
		for a != "" && !digit(a) || b != "" && !digit(b) {
			if x, y := rank(a), rank(b); x != y {
				return x < y, true
			}
			a, b = a[1:], b[1:]
		}
		number := func(s string) (n, rest string) {
			rest = strings.TrimLeft(s, "0123456789")
			return strings.TrimLeft(s[:len(s)-len(rest)], "0"), rest
		}
		var x, y string
		x, a = number(a)
		y, b = number(b)
		if len(x) != len(y) {
			return len(x) < len(y), true
		}
		if x != y {
			return x < y, true
		}
	}
	return false, true
}
