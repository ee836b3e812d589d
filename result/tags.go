// SPDX-License-Identifier: Apache-2.0

package result

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"boxdyno/internal/files"
)

// TagsFile holds the tags that people gave a run: a JSON list of words. A run without
// tags has none.
const TagsFile = "tags.json"

// What tags may be, so that they can be listed, and searched for, anywhere.
const (
	mostTags    = 64
	longestTag  = 64
	longestTags = 16 << 10 // octets of TagsFile
)

// CheckTag says why a word is no tag: tags are up to 64 letters, digits and _.:@/+-.
func CheckTag(tag string) error {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_.:@/+-", r)
	}
	if tag == "" || len(tag) > longestTag || strings.ContainsFunc(tag, func(r rune) bool { return !plain(r) }) {
		return fmt.Errorf("%.80q is no tag: a tag is up to %d letters, digits and _.:@/+-", tag, longestTag)
	}
	return nil
}

// ReadTags returns the tags of the run in dir, sorted.
func ReadTags(dir string) (tags []string, err error) {
	name := filepath.Join(dir, TagsFile)
	data, err := files.Read(name, longestTags)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the run's tags: %w", err)
	}
	if err = json.Unmarshal(data, &tags); err == nil {
		tags, err = tidyTags(tags)
	}
	if err != nil {
		return nil, fmt.Errorf("%s has no tags: %w", name, err)
	}
	return tags, nil
}

// ChangeTags replaces the tags of the run in dir by what change makes of them. Of several
// that do so at once, one waits for the other, where the file system has locks.
func ChangeTags(o *files.Owner, dir string, change func([]string) []string) error {
	folder, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("write the run's tags: %w", err)
	}
	defer folder.Close()
	_ = unix.Flock(int(folder.Fd()), unix.LOCK_EX) // without locks the last writer wins
	tags, err := ReadTags(dir)
	if err != nil {
		return err
	}
	return WriteTags(o, dir, change(tags))
}

// WriteTags replaces the tags of the run in dir. The file is o's.
func WriteTags(o *files.Owner, dir string, tags []string) error {
	tags, err := tidyTags(tags)
	if err != nil {
		return err
	}
	if tags == nil {
		tags = []string{}
	}
	data, err := json.Marshal(tags)
	if err != nil {
		return err
	}
	if err := files.Replace(filepath.Join(dir, TagsFile), o, func(f *os.File) error { _, err := f.Write(append(data, '\n')); return err }); err != nil {
		return fmt.Errorf("write the run's tags: %w", err)
	}
	return nil
}

func tidyTags(tags []string) ([]string, error) {
	tags = slices.Clone(tags)
	slices.Sort(tags)
	tags = slices.Compact(tags)
	if len(tags) > mostTags {
		return nil, fmt.Errorf("%d tags are more than the %d that a run may have", len(tags), mostTags)
	}
	for _, t := range tags {
		if err := CheckTag(t); err != nil {
			return nil, err
		}
	}
	return tags, nil
}

// InUse says whether a process writes to the run in dir. It tries the lock of a
// Bundle for an instant.
func InUse(dir string) bool {
	f, err := files.Open(filepath.Join(dir, TrialsFile))
	if err != nil {
		return false
	}
	defer f.Close()
	return unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB) == unix.EWOULDBLOCK
}
