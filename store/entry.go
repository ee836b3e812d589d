// SPDX-License-Identifier: Apache-2.0

package store

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"boxdyno/result"
)

// What is read of a bundle at most. The longest plans make some MB.
const (
	longestFile     = 128 << 20 // octets of run.json, and of trials.jsonl
	longestSettings = 64 << 10  // octets of a point's settings
	mostFigures     = 1 << 20   // of a bundle
)

// reader is the version of what is made of a bundle. After another one all bundles are
// read again.
const reader = 2

// An entry is a bundle as the index keeps it.
type entry struct {
	run     Run
	key     int64
	env     []byte // JSON of the circumstances
	envKey  int64
	series  []series // sorted by key
	figures []figure
}

type series struct {
	key          int64
	metric, unit string
	better       int
	settings     []byte // JSON of pairs
}

type figure struct {
	series  int64
	ordinal int // of the point in its run
	value   result.Value
}

// key64 is a key made of what identifies a thing.
func key64(parts ...string) int64 {
	h := sha256.New()
	for _, p := range parts {
		var n [8]byte
		binary.LittleEndian.PutUint64(n[:], uint64(len(p)))
		h.Write(n[:])
		h.Write([]byte(p))
	}
	return int64(binary.LittleEndian.Uint64(h.Sum(nil)))
}

// stampOf tells one state of a bundle's files from another. It fails where run.json or
// trials.jsonl is missing, no regular file, or too long.
func stampOf(dir string) (string, error) {
	stamp := fmt.Sprint(reader)
	for _, name := range []string{result.RunFile, result.TrialsFile, result.TagsFile} {
		info, err := os.Stat(filepath.Join(dir, name))
		switch {
		case errors.Is(err, fs.ErrNotExist) && name == result.TagsFile:
			stamp += " -"
			continue
		case err != nil:
			return stamp, err
		case !info.Mode().IsRegular():
			return stamp, fmt.Errorf("%s is not a regular file", name)
		case info.Size() > longestFile:
			return fmt.Sprintf("%s %d", stamp, info.Size()), fmt.Errorf("%s has %d octets: an index reads up to %d", name, info.Size(), longestFile)
		}
		stamp += fmt.Sprintf(" %d@%d", info.Size(), info.ModTime().UnixNano())
	}
	return stamp, nil
}

// A Judge says how a run ended, and in a sentence what was found.
type Judge func(result.Run, []result.Record) (result.Status, string)

// read makes the entry of the bundle in dir. A fault in judge is the bundle's.
func read(dir string, judge Judge) (e *entry, err error) {
	defer func() {
		if v := recover(); v != nil {
			e, err = nil, fmt.Errorf("it cannot be judged: %v", v)
		}
	}()
	run, recs, err := result.Open(dir)
	if err != nil {
		return nil, err
	}
	e = &entry{run: headOf(run)}
	// Databases keep nanoseconds since 1970 in 64 bits.
	if y := run.Start.Year(); y < 1970 || y > 2200 {
		return nil, fmt.Errorf("it says that it began in the year %d", y)
	}
	boot := ""
	if len(run.Machines) > 0 {
		boot = run.Machines[0].BootID
	}
	e.key = key64("run", run.ID, run.Start.UTC().Format(time.RFC3339Nano), fmt.Sprint(run.Seed), e.run.Machine, boot)
	if judge != nil {
		var s string
		e.run.Verdict, s = judge(run, recs)
		e.run.Sentence = text(s)
	}
	if err := e.circumstances(run); err != nil {
		return nil, err
	}
	if err := e.points(run, recs); err != nil {
		return nil, err
	}
	e.run.Tags, err = result.ReadTags(dir)
	return e, err
}

// headOf is what a run says of itself once.
func headOf(run result.Run) Run {
	r := Run{
		ID: text(run.ID), Start: run.Start.UTC(), Version: text(run.Version), Role: text(run.Role), Preset: text(run.Preset),
		Topology: text(run.Topology), Kind: text(run.Kind), Box: text(run.Box),
	}
	if len(run.Machines) > 0 {
		r.Machine, r.Board = text(run.Machines[0].Name), text(run.Machines[0].Board)
	}
	r.Box = cmp.Or(r.Box, r.Machine)
	return r
}

// circumstances keeps what the run says of how it was measured, at its begin.
func (e *entry) circumstances(run result.Run) error {
	var env []result.Pair
	if len(run.Environments) > 0 {
		env = run.Environments[0]
	}
	pairs := []result.Pair{}
	for _, p := range run.Circumstances(env) {
		if p.Key != "boot" && !strings.HasPrefix(p.Key, "boot of machine ") {
			pairs = append(pairs, result.Pair{Key: text(p.Key), Value: text(p.Value)})
		}
	}
	var err error
	if e.env, err = json.Marshal(pairs); err != nil {
		return err
	}
	if len(e.env) > 1<<20 {
		return fmt.Errorf("its circumstances take %d octets", len(e.env))
	}
	e.envKey = key64("environment", string(e.env))
	return nil
}

// points keeps the figures of the points that count, and counts all records.
func (e *entry) points(run result.Run, recs []result.Record) error {
	metrics := map[string]result.Metric{}
	for _, m := range run.Metrics {
		metrics[m.Name] = m
	}
	seen := map[int64]bool{}
	var from, to time.Time
	for n, r := range recs {
		if !r.Finished() {
			e.run.Unfinished = true
		}
		if r.Parent != "" {
			e.run.Trials++
			if from.IsZero() || r.Start.Before(from) {
				from = r.Start
			}
			if end := r.Start.Add(time.Duration(r.End - r.Begin)); end.After(to) {
				to = end
			}
			continue
		}
		e.run.Points++
		procedure := text(r.Procedure)
		if !slices.Contains(e.run.Procedures, procedure) {
			if len(e.run.Procedures) == 1000 {
				return errors.New("it has more than 1,000 procedures")
			}
			e.run.Procedures = append(e.run.Procedures, procedure)
		}
		if r.Status == result.Invalid {
			e.run.Invalid++
		}
		if r.Status != result.Passed && r.Status != result.Failed {
			continue
		}
		settings, err := json.Marshal(settingsOf(e.run, run, r))
		if err != nil {
			return err
		}
		if len(settings) > longestSettings {
			return fmt.Errorf("the settings of point %.80q take %d octets", r.ID, len(settings))
		}
		for _, v := range r.Values {
			s := series{metric: text(v.Metric), unit: text(string(v.Unit)), settings: settings}
			s.better = max(-1, min(1, metrics[v.Metric].Better))
			s.key = key64("series", s.metric, s.unit, string(settings))
			if !seen[s.key] {
				seen[s.key] = true
				e.series = append(e.series, s)
			}
			e.figures = append(e.figures, figure{s.key, n, v})
		}
		if len(e.figures) > mostFigures {
			return fmt.Errorf("it has more than %d figures", mostFigures)
		}
	}
	if e.run.Points == 0 {
		e.run.Unfinished = true
	}
	e.run.Seconds = max(0, to.Sub(from).Seconds())
	slices.SortFunc(e.series, func(a, b series) int { return cmp.Compare(a.key, b.key) })
	return nil
}

// settingsOf is what tells the points of one series from those of another: what the run
// says once, then the point's own settings.
func settingsOf(of Run, run result.Run, r result.Record) []result.Pair {
	pairs := []result.Pair{{Key: "procedure", Value: text(r.Procedure)}, {Key: "box", Value: of.Box}, {Key: "kind", Value: of.Kind}, {Key: "topology", Value: of.Topology}}
	if result.Get(r.Config, "preset") == "" && of.Preset != "" {
		pairs = append(pairs, result.Pair{Key: "preset", Value: of.Preset})
	}
	var recipe struct{ Name string }
	if len(run.Recipe) > 0 && json.Unmarshal(run.Recipe, &recipe) == nil {
		pairs = append(pairs, result.Pair{Key: "tune", Value: text(cmp.Or(recipe.Name, "unnamed"))})
	}
	own := len(pairs)
	for _, p := range r.Config {
		if slices.Contains(result.Unsaid, p) {
			continue
		}
		key := text(p.Key)
		if slices.ContainsFunc(pairs[:own], func(o result.Pair) bool { return o.Key == key }) {
			key = "point." + key
		}
		pairs = append(pairs, result.Pair{Key: key, Value: text(p.Value)})
	}
	return pairs
}
