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
	"time"

	"boxdyno/result"
)

// An owner is who shall own what is written: under sudo the user who called it,
// so that they can read and delete it; else nil.
type owner struct {
	uid, gid int
	home     string
}

func sudoer() *owner {
	if os.Geteuid() != 0 {
		return nil
	}
	uid, err1 := strconv.Atoi(os.Getenv("SUDO_UID"))
	gid, err2 := strconv.Atoi(os.Getenv("SUDO_GID"))
	if err1 != nil || err2 != nil || uid == 0 {
		return nil
	}
	o := &owner{uid: uid, gid: gid}
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil {
		o.home = u.HomeDir
	}
	return o
}

// give hands over a file or folder. Links are not followed.
func (o *owner) give(name string) error {
	if o == nil {
		return nil
	}
	if err := os.Lchown(name, o.uid, o.gid); err != nil {
		return fmt.Errorf("hand over to the user who called sudo: %w", err)
	}
	return nil
}

// mkdir makes a folder with its parents, and hands over those it made.
func (o *owner) mkdir(dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	if parent := filepath.Dir(dir); parent != dir {
		if err := o.mkdir(parent); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return nil
		}
		return err
	}
	return o.give(dir)
}

// runsDir is where runs are kept by default.
func runsDir() (string, error) {
	state := os.Getenv("XDG_STATE_HOME")
	if state == "" {
		home, err := os.UserHomeDir()
		if o := sudoer(); o != nil && o.home != "" {
			home, err = o.home, nil
		}
		if err != nil {
			return "", fmt.Errorf("find a place for the run: %w; give --out", err)
		}
		state = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(state, "boxdyno", "runs"), nil
}

// newDir is the default folder of a run that begins now. It does not exist yet.
func newDir(what string, now time.Time) (string, error) {
	runs, err := runsDir()
	if err != nil {
		return "", err
	}
	base := filepath.Join(runs, now.Format("20060102-150405")+"-"+what)
	for n, dir := 2, base; ; n++ {
		if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
			return dir, nil
		}
		dir = fmt.Sprintf("%s-%d", base, n)
	}
}

// findRun is the folder of a run given as a path, as a name among the runs at
// the default place, or as "last", the newest of those.
func findRun(name string) (string, error) {
	if _, err := os.Stat(name); err == nil {
		if !holdsRun(name) {
			return "", fmt.Errorf("%s holds no run: there is no %s", name, result.RunFile)
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

func holdsRun(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, result.RunFile))
	return err == nil
}

// A sink is a bundle that is made when the first thing is written to it, so that
// a run that cannot begin leaves nothing behind.
type sink struct {
	dir     string
	bundle  *result.Bundle // nil: not made yet
	owner   *owner
	sampled bool // there is telemetry
}

func (s *sink) WriteRun(r result.Run) error {
	if s.bundle == nil {
		if err := s.owner.mkdir(s.dir); err != nil {
			return fmt.Errorf("make the run's folder: %w; give another one with --out", err)
		}
		b, err := result.Create(s.dir, r)
		if err != nil {
			return err
		}
		s.bundle = b
		return s.handOver()
	}
	if err := s.bundle.WriteRun(r); err != nil {
		return err
	}
	return s.handOver()
}

// handOver gives away the files, which a rename has replaced.
func (s *sink) handOver() error {
	return errors.Join(s.owner.give(filepath.Join(s.dir, result.RunFile)), s.owner.give(filepath.Join(s.dir, result.TrialsFile)))
}

func (s *sink) Append(r result.Record) error { return s.bundle.Append(r) }

// Sample hands over the file that the first call makes.
func (s *sink) Sample(lines []byte) error {
	if err := s.bundle.Sample(lines); err != nil || s.sampled {
		return err
	}
	s.sampled = true
	return s.owner.give(filepath.Join(s.dir, result.TelemetryFile))
}

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
