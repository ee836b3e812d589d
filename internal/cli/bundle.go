// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"boxdyno/internal/files"
	"boxdyno/result"
)

// sudoer is who shall own what is written: under sudo the user who called it, so that
// they can read and delete it; else nil.
func sudoer() *files.Owner {
	if os.Geteuid() != 0 {
		return nil
	}
	uid, err1 := strconv.Atoi(os.Getenv("SUDO_UID"))
	gid, err2 := strconv.Atoi(os.Getenv("SUDO_GID"))
	if err1 != nil || err2 != nil || uid <= 0 || gid < 0 {
		return nil
	}
	return &files.Owner{UID: uid, GID: gid}
}

// runsDir is where runs are kept by default.
func runsDir() (string, error) {
	dir, err := userFolder("XDG_STATE_HOME", ".local/state")
	if err != nil {
		return "", fmt.Errorf("find a place for the run: %w; give --out", err)
	}
	return filepath.Join(dir, "boxdyno", "runs"), nil
}

// userFolder is the folder that a variable of the XDG base directories names, or that
// below the home of the user, under sudo of the caller.
func userFolder(variable, below string) (string, error) {
	if dir := os.Getenv(variable); dir != "" {
		return dir, nil
	}
	home, err := os.UserHomeDir()
	if o := sudoer(); o != nil {
		if u, uerr := user.LookupId(strconv.Itoa(o.UID)); uerr == nil && u.HomeDir != "" {
			home, err = u.HomeDir, nil
		}
	}
	return filepath.Join(home, below), err
}

// newDir is the default folder of a run that begins now. It does not exist yet.
func newDir(what string, now time.Time) (string, error) {
	runs, err := runsDir()
	if err != nil {
		return "", err
	}
	base := filepath.Join(runs, now.Format("20060102-150405")+"-"+what)
	for n, dir := 2, base; ; n++ {
		switch _, err := os.Lstat(dir); {
		case errors.Is(err, fs.ErrNotExist):
			return dir, nil
		case err != nil:
			return "", fmt.Errorf("find a place for the run: %w; give --out", err)
		}
		dir = fmt.Sprintf("%s-%d", base, n)
	}
}

// findRun is the folder of a run given as a path, as a name among the runs at
// the default place, or as "last", the newest of those.
func findRun(name string) (string, error) {
	if _, err := os.Stat(name); err == nil {
		if !holdsRun(name) {
			return "", fmt.Errorf("%s is no run: it has no %s", name, result.RunFile)
		}
		return name, nil
	}
	runs, err := runsDir()
	if err != nil {
		return "", err
	}
	if name == "last" {
		entries, err := os.ReadDir(runs)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		for _, e := range slices.Backward(entries) { // names begin with the time
			if dir := filepath.Join(runs, e.Name()); holdsRun(dir) {
				return dir, nil
			}
		}
		return "", fmt.Errorf("there is no run in %s", runs)
	}
	if dir := filepath.Join(runs, name); filepath.Base(name) == name {
		if _, err := os.Stat(dir); err == nil {
			return dir, nil
		}
	}
	return "", fmt.Errorf("there is no run %s, neither here nor in %s", name, runs)
}

func holdsRun(dir string) bool { return holds(dir, result.RunFile) }

func holds(dir, file string) bool {
	_, err := os.Stat(filepath.Join(dir, file))
	return err == nil
}

// A sink is a bundle that is made when the first thing is written to it, so that
// a run that cannot begin leaves nothing behind.
type sink struct {
	dir    string
	bundle *result.Bundle // nil: not made yet
	owner  *files.Owner

	mu     sync.Mutex       // of what follows, and of bundle.Log
	early  []result.LogLine // before the bundle is made
	unkept error            // why the log has an end before the run's
}

// Log keeps a line of the run's log. A log that cannot be written costs no measurement.
func (s *sink) Log(l result.LogLine) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.unkept != nil:
	case s.bundle == nil:
		s.early = append(s.early, l)
	default:
		s.unkept = s.bundle.Log(l)
	}
}

func (s *sink) WriteRun(r result.Run) (err error) {
	if s.bundle != nil {
		return s.bundle.WriteRun(r)
	}
	s.mu.Lock()
	s.bundle, err = result.CreateFor(s.owner, s.dir, r)
	early := s.early
	s.early = nil
	s.mu.Unlock()
	if err == nil {
		for _, l := range early {
			s.Log(l)
		}
	}
	return err
}

func (s *sink) Append(r result.Record) error { return s.bundle.Append(r) }

func (s *sink) Sample(lines []byte) error { return s.bundle.Sample(lines) }

func (s *sink) Close() error {
	if s.bundle == nil {
		return nil
	}
	return s.bundle.Close()
}

// kept are the names of the runs at the default place, the oldest first.
func kept() (names []string) {
	runs, err := runsDir()
	if err != nil {
		return nil
	}
	entries, _ := os.ReadDir(runs) // none: no run
	for _, e := range entries {
		if holdsRun(filepath.Join(runs, e.Name())) {
			names = append(names, e.Name())
		}
	}
	return names
}
