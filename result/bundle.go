// SPDX-License-Identifier: Apache-2.0

package result

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

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

// A Bundle is a run on disk. trials.jsonl is append-only and fsynced line by
// line, so that SIGKILL loses at most the line that was being written. Not safe
// for concurrent use, but that Sample may be called beside the rest up to Close.
type Bundle struct {
	Dir       string
	trials    *os.File
	telemetry *telemetryLog // nil: nothing was sampled yet
}

// Create makes dir (parents too) with run.json and an empty trials.jsonl, all of
// it synced. It refuses a directory that already holds a run, or trials of one.
func Create(dir string, r Run) (*Bundle, error) {
	if _, err := os.Stat(filepath.Join(dir, RunFile)); err == nil {
		return nil, fmt.Errorf("%s already holds a run: give another --out, or --resume %s", dir, dir)
	}
	trials := filepath.Join(dir, TrialsFile)
	if info, err := os.Stat(trials); err == nil && info.Size() != 0 {
		return nil, fmt.Errorf("%s holds trials of a run that lacks its %s: give another --out, or move them away", trials, RunFile)
	}
	if err := makeDir(filepath.Clean(dir)); err != nil {
		return nil, fmt.Errorf("make the run's folder: %w", err)
	}
	b, err := open(dir)
	if err != nil {
		return nil, err
	}
	if err := b.WriteRun(r); err != nil {
		b.trials.Close()
		return nil, err
	}
	return b, nil
}

// makeDir is os.MkdirAll that outlives a power cut.
func makeDir(dir string) error {
	if info, err := os.Stat(dir); err == nil && info.IsDir() {
		return nil
	}
	parent := filepath.Dir(dir)
	if parent != dir {
		if err := makeDir(parent); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncDir(parent)
}

// syncDir makes the names in dir outlive a power cut.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	// Some file systems know no such thing, and answer EINVAL.
	if err := sync(d); err != nil && !errors.Is(err, syscall.EINVAL) {
		return err
	}
	return nil
}

// sync is a variable because only a test that listens sees it.
var sync = (*os.File).Sync

// Resume opens the bundle in dir for appending. A last line that SIGKILL cut
// short is removed.
func Resume(dir string) (*Bundle, Run, []Record, error) {
	run, recs, err := Open(dir)
	if err != nil {
		return nil, run, nil, err
	}
	b, err := open(dir)
	if err != nil {
		return nil, run, nil, err
	}
	data, err := os.ReadFile(filepath.Join(dir, TrialsFile))
	if err == nil {
		err = b.trials.Truncate(int64(bytes.LastIndexByte(data, '\n') + 1))
	}
	if err != nil {
		b.trials.Close()
		return nil, run, nil, fmt.Errorf("resume %s: %w", dir, err)
	}
	return b, run, recs, nil
}

func open(dir string) (*Bundle, error) {
	f, err := os.OpenFile(filepath.Join(dir, TrialsFile), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open the run's trials: %w", err)
	}
	return &Bundle{Dir: dir, trials: f}, nil
}

// WriteRun replaces run.json as a whole.
func (b *Bundle) WriteRun(r Run) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encode %s: %w", RunFile, err)
	}
	name := filepath.Join(b.Dir, RunFile)
	if err := writeSynced(name+".tmp", append(data, '\n')); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	if err := os.Rename(name+".tmp", name); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	if err := syncDir(b.Dir); err != nil { // trials.jsonl's name too
		return fmt.Errorf("sync %s: %w", b.Dir, err)
	}
	return nil
}

func writeSynced(name string, data []byte) (err error) {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := f.Write(data); err != nil {
		return err
	}
	return sync(f)
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
	if err := sync(b.trials); err != nil {
		return fmt.Errorf("sync %s: %w", b.trials.Name(), err)
	}
	return nil
}

// Sample appends lines of telemetry, a TelemetryHead first and then Batches, as one
// part of TelemetryFile: whole or not at all.
func (b *Bundle) Sample(lines []byte) error {
	if b.telemetry == nil {
		l, err := openTelemetryLog(filepath.Join(b.Dir, TelemetryFile))
		if err != nil {
			return err
		}
		b.telemetry = l
	}
	return b.telemetry.write(lines)
}

// Close closes the files; the run can still be resumed.
func (b *Bundle) Close() error {
	err := b.trials.Close()
	if b.telemetry != nil {
		err = errors.Join(err, b.telemetry.file.Close())
	}
	return err
}

// Open reads the run in dir: the last record of each ID, in the order in which
// the IDs first appeared. A last line without its end is ignored; any other
// line that cannot be read is an error with its number.
func Open(dir string) (Run, []Record, error) {
	var run Run
	name := filepath.Join(dir, RunFile)
	data, err := files.Read(name, longestRun)
	if errors.Is(err, fs.ErrNotExist) {
		return run, nil, fmt.Errorf("%s holds no run: there is no %s", dir, RunFile)
	}
	if err != nil {
		return run, nil, fmt.Errorf("read the run: %w", err)
	}
	if err := json.Unmarshal(data, &run); err != nil {
		return run, nil, fmt.Errorf("%s is not a run: %w", name, err)
	}
	if run.Schema != Schema {
		return run, nil, fmt.Errorf("%s has schema %d, and this boxdyno reads %d", name, run.Schema, Schema)
	}
	recs, err := readTrials(filepath.Join(dir, TrialsFile))
	return run, recs, err
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
		var r Record
		if err := json.Unmarshal(line, &r); err != nil {
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
