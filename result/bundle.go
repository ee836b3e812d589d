// SPDX-License-Identifier: Apache-2.0

package result

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"boxdyno/internal/files"
)

// The files of a bundle.
const (
	RunFile    = "run.json"
	TrialsFile = "trials.jsonl"
)

// What is read of a bundle at most, in octets: more than the longest plan makes.
const (
	longestRun    = 256 << 20
	longestTrials = 1 << 30
)

// A Bundle is a run on disk, which nobody else writes to while it is open. trials.jsonl
// is append-only and fsynced line by line, so that SIGKILL loses at most the line that
// was being written. Not safe for concurrent use, but that Sample and Log may be called
// beside the rest up to Close.
type Bundle struct {
	Dir       string
	folder    *files.Folder
	trials    *os.File      // locked (flock) for as long as the bundle is open
	telemetry *telemetryLog // nil: nothing was sampled yet
	log       *os.File      // nil: nothing was logged yet
}

// ErrInUse is the error for a bundle that another process, or another Bundle of this
// one, writes to.
var ErrInUse = errors.New("another boxdyno is writing to it")

// Create makes dir (parents too) with run.json and an empty trials.jsonl, all of
// it synced; where it fails it leaves nothing. It refuses a directory that already holds a
// run, or trials of one.
func Create(dir string, r Run) (*Bundle, error) { return CreateFor(nil, dir, r) }

// CreateFor is Create for an owner of all that is made.
func CreateFor(o *files.Owner, dir string, r Run) (*Bundle, error) {
	if _, err := os.Lstat(filepath.Join(dir, RunFile)); err == nil {
		return nil, holdsRun(dir)
	}
	_, there := os.Lstat(dir)
	folder, err := files.MakeFolder(dir, o)
	if err != nil {
		return nil, fmt.Errorf("make the run's folder: %w", err)
	}
	b, err := open(dir, folder, true)
	if err != nil {
		return nil, err
	}
	info, err := b.trials.Stat()
	switch trials := filepath.Join(dir, TrialsFile); {
	case err != nil:
		err = fmt.Errorf("open the run's trials: %w", err)
	case folder.Has(RunFile): // another has made it before the lock was taken
		err = holdsRun(dir)
	case info.Size() != 0:
		err = fmt.Errorf("%s holds trials of a run that lacks its %s: give another --out, or move them away", trials, RunFile)
	default:
		if err = b.WriteRun(r); err != nil {
			err = errors.Join(err, b.discard(o, errors.Is(there, fs.ErrNotExist)))
		}
	}
	if err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

// discard removes what Create has made, and with folder that one, too.
func (b *Bundle) discard(o *files.Owner, folder bool) error {
	if err := b.folder.Remove(TrialsFile); err != nil || !folder {
		return err
	}
	dir := filepath.Clean(b.Dir)
	above, err := files.OpenFolder(filepath.Dir(dir), o)
	if err != nil {
		return err
	}
	return errors.Join(above.Remove(filepath.Base(dir)), above.Close())
}

func holdsRun(dir string) error {
	return fmt.Errorf("%s already holds a run: give another --out, or --resume %s", dir, dir)
}

// Resume opens the bundle in dir for appending, for an owner of what is made. A last line
// that SIGKILL cut short is removed. A run that still goes on is ErrInUse.
func Resume(o *files.Owner, dir string) (*Bundle, Run, []Record, error) {
	run, err := openRun(dir)
	if err != nil {
		return nil, run, nil, err
	}
	folder, err := files.OpenFolder(dir, o)
	if err != nil {
		return nil, run, nil, fmt.Errorf("open the run's folder: %w", err)
	}
	b, err := open(dir, folder, false)
	if err != nil {
		return nil, run, nil, err
	}
	// Only now nobody changes it any more.
	run, recs, err := Open(dir)
	if err == nil {
		err = b.cut()
	}
	if err != nil {
		return nil, run, nil, errors.Join(err, b.Close())
	}
	return b, run, recs, nil
}

// cut removes a last line without its end.
func (b *Bundle) cut() error {
	data, err := io.ReadAll(io.NewSectionReader(b.trials, 0, longestTrials))
	if err == nil {
		err = b.trials.Truncate(int64(bytes.LastIndexByte(data, '\n') + 1))
	}
	if err != nil {
		return fmt.Errorf("resume %s: %w", b.Dir, err)
	}
	return nil
}

// open takes the lock of the bundle in folder, which it closes where it fails.
func open(dir string, folder *files.Folder, mk bool) (*Bundle, error) {
	f, err := folder.Append(TrialsFile, mk)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the run's trials: %w", err), folder.Close())
	}
	b := &Bundle{Dir: dir, folder: folder, trials: f}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		if err == unix.EWOULDBLOCK {
			err = ErrInUse
		}
		return nil, errors.Join(fmt.Errorf("lock the run in %s: %w", dir, err), b.Close())
	}
	return b, nil
}

// WriteRun replaces run.json as a whole.
func (b *Bundle) WriteRun(r Run) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encode %s: %w", RunFile, err)
	}
	// The folder is synced, too: trials.jsonl's name is on the disk then.
	if err := b.folder.Replace(RunFile, func(f *os.File) error { _, err := f.Write(append(data, '\n')); return err }); err != nil {
		return fmt.Errorf("write %s: %w", filepath.Join(b.Dir, RunFile), err)
	}
	return nil
}

// Append writes one record and syncs it to the disk.
func (b *Bundle) Append(r Record) error {
	line, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode record %s: %w", r.ID, err)
	}
	if n, err := b.trials.Write(append(line, '\n')); err != nil {
		// A full disk takes a part: the next line must not stand behind it.
		if info, serr := b.trials.Stat(); serr == nil {
			_ = b.trials.Truncate(info.Size() - int64(n))
		}
		return fmt.Errorf("append to %s: %w", b.trials.Name(), err)
	}
	if err := files.Sync(b.trials); err != nil {
		return fmt.Errorf("sync %s: %w", b.trials.Name(), err)
	}
	return nil
}

// Sample appends lines of telemetry, a TelemetryHead first and then Batches, as one
// part of TelemetryFile: whole or not at all.
func (b *Bundle) Sample(lines []byte) error {
	if b.telemetry == nil {
		l, err := openTelemetryLog(b.folder)
		if err != nil {
			return err
		}
		b.telemetry = l
	}
	return b.telemetry.write(lines)
}

// Close closes the files; the run can still be resumed.
func (b *Bundle) Close() error {
	err := errors.Join(b.trials.Close(), b.folder.Close())
	if b.telemetry != nil {
		err = errors.Join(err, b.telemetry.file.Close())
	}
	if b.log != nil {
		err = errors.Join(err, b.log.Close())
	}
	return err
}

// Open reads the run in dir: the last record of each ID, in the order in which
// the IDs first appeared. A last line without its end is ignored; any other
// line that cannot be read is an error with its number.
func Open(dir string) (Run, []Record, error) {
	run, err := openRun(dir)
	if err != nil {
		return run, nil, err
	}
	if err := run.check(); err != nil {
		return run, nil, fmt.Errorf("%s is not a run: %w", filepath.Join(dir, RunFile), err)
	}
	recs, err := readTrials(filepath.Join(dir, TrialsFile))
	return run, recs, err
}

func openRun(dir string) (run Run, err error) {
	name := filepath.Join(dir, RunFile)
	data, err := files.Read(name, longestRun)
	if errors.Is(err, fs.ErrNotExist) {
		return run, fmt.Errorf("%s is no run: it has no %s", dir, RunFile)
	}
	if err != nil {
		return run, fmt.Errorf("read the run: %w", err)
	}
	if err := json.Unmarshal(data, &run); err != nil {
		return run, fmt.Errorf("%s is not a run: %w", name, err)
	}
	if run.Schema != Schema {
		return run, fmt.Errorf("%s has schema %d, and this boxdyno reads %d", name, run.Schema, Schema)
	}
	return run, nil
}

func readTrials(name string) ([]Record, error) {
	data, err := files.Read(name, longestTrials)
	if err != nil {
		return nil, fmt.Errorf("read the trials: %w", err)
	}
	var recs []Record
	at := map[string]int{}
	for n := 1; ; n++ {
		line, rest, whole := bytes.Cut(data, []byte("\n"))
		if !whole {
			return recs, nil
		}
		data = rest
		r, err := ParseRecord(line)
		if err != nil {
			return recs, fmt.Errorf("%s line %d is not a record: %w", name, n, err)
		}
		if i, ok := at[r.ID]; ok {
			recs[i] = r
			continue
		}
		at[r.ID] = len(recs)
		recs = append(recs, r)
	}
}
