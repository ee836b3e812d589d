// SPDX-License-Identifier: Apache-2.0

package tune

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"boxdyno/result"
)

// A journal is one recipe's changes, a line of JSON each: begin, set before a knob is turned,
// got, undone, hold. Only what must not be lost before a knob is turned is waited for (begin,
// set, hold). A killed process loses nothing that it wrote, and a machine that loses it has
// lost the settings, too (which begin's boot tells). A last line that was cut off is as if it
// were not there.
type journal struct {
	disk disk
	name string
	f    file
	size int // octets that are whole lines

	head    head
	entries []entry
	held    bool
	broken  []string // lines that cannot be read
}

type head struct {
	Schema int       `json:"schema"`
	Recipe string    `json:"recipe"`
	By     string    `json:"by"` // "run 2026...", "hand"
	Begun  time.Time `json:"begun"`
	owner
}

// An owner is a process, among all of all boots.
type owner struct {
	Boot    string `json:"boot"`
	PID     int    `json:"pid"`
	Started uint64 `json:"started"` // clock ticks after boot
}

// An entry is one knob that was, or was about to be, turned.
type entry struct {
	N      int    `json:"n"`
	Knob   string `json:"knob"`
	Port   string `json:"port,omitempty"`
	Netns  string `json:"netns,omitempty"` // path; "": the process's own
	Space  string `json:"space,omitempty"` // identity of that namespace; "": of the machine
	Index  int    `json:"index,omitempty"` // of the port
	Old    string `json:"old"`
	New    string `json:"new,omitempty"`
	Beside bool   `json:"beside,omitempty"` // not turned: another knob changes it on the side

	got    *string
	undone bool
}

// line is one of any kind; the pointers say which.
type line struct {
	Begin  *head   `json:"begin,omitempty"`
	Set    *entry  `json:"set,omitempty"`
	Got    *reply  `json:"got,omitempty"`
	Undone *int    `json:"undone,omitempty"`
	Hold   *string `json:"hold,omitempty"`
}

type reply struct {
	N     int    `json:"n"`
	Value string `json:"value"`
}

func createJournal(d disk, dir string, h head) (*journal, error) {
	j := &journal{disk: d, head: h, name: filepath.Join(dir, fmt.Sprintf("%020d-%d%s", h.Begun.UnixNano(), h.PID, suffix))}
	var err error
	if j.f, err = d.Create(j.name); err != nil {
		return nil, fmt.Errorf("begin the tuning journal: %w", permitted(err))
	}
	if err := j.write(line{Begin: &h}, true); err != nil {
		return nil, errors.Join(err, j.close())
	}
	return j, nil
}

// openJournal reads one. One without a first line is of a process that has not turned
// anything yet.
func openJournal(d disk, name string) (*journal, error) {
	data, err := d.Read(name)
	if err != nil {
		return nil, fmt.Errorf("read the tuning journal: %w", err)
	}
	j := &journal{disk: d, name: name}
	_, pid, _ := strings.Cut(strings.TrimSuffix(filepath.Base(name), suffix), "-")
	j.head.PID, _ = strconv.Atoi(pid) // until the first line says more
	for n := 1; ; n++ {
		text, rest, whole := bytes.Cut(data, []byte("\n"))
		if !whole {
			return j, nil
		}
		data = rest
		j.size += len(text) + 1
		var l line
		if err := json.Unmarshal(text, &l); err != nil || !j.take(l) {
			j.broken = append(j.broken, fmt.Sprintf("%s:%d cannot be read", name, n))
		}
	}
}

func (j *journal) take(l line) bool {
	find := func(n int) *entry {
		for i := range j.entries {
			if j.entries[i].N == n {
				return &j.entries[i]
			}
		}
		return nil
	}
	switch {
	case l.Begin != nil:
		j.head = *l.Begin
	case l.Set != nil:
		j.entries = append(j.entries, *l.Set)
	case l.Got != nil:
		e := find(l.Got.N)
		if e == nil {
			return false
		}
		e.got = &l.Got.Value
	case l.Undone != nil:
		e := find(*l.Undone)
		if e == nil {
			return false
		}
		e.undone = true
	case l.Hold != nil:
		j.held = true
	default:
		return false
	}
	return true
}

func (j *journal) write(l line, synced bool) error {
	if j.f == nil {
		f, err := j.disk.Append(j.name, j.size)
		if err != nil {
			return fmt.Errorf("go on with the tuning journal: %w", permitted(err))
		}
		j.f = f
	}
	data, err := json.Marshal(l)
	if err == nil {
		_, err = j.f.Write(append(data, '\n'))
	}
	if err == nil && synced {
		err = j.f.Sync()
	}
	if err != nil {
		return fmt.Errorf("write the tuning journal: %w", err)
	}
	j.size += len(data) + 1
	return nil
}

// set notes what is about to be turned, and returns its index among the entries.
func (j *journal) set(e entry) (int, error) {
	e.N = len(j.entries)
	if err := j.write(line{Set: &e}, true); err != nil {
		return 0, err
	}
	j.entries = append(j.entries, e)
	return e.N, nil
}

func (j *journal) got(i int, value string) error {
	j.entries[i].got = &value
	return j.write(line{Got: &reply{j.entries[i].N, value}}, false)
}

func (j *journal) undone(i int) error {
	j.entries[i].undone = true
	return j.write(line{Undone: &j.entries[i].N}, false)
}

func (j *journal) hold() error {
	j.held = true
	return j.write(line{Hold: &j.head.Recipe}, true)
}

// open says whether an old value may still have to be put back.
func (j *journal) open() bool {
	for _, e := range j.entries {
		if !e.undone {
			return true
		}
	}
	return len(j.broken) > 0
}

func (j *journal) close() error {
	if j.f == nil {
		return nil
	}
	err := j.f.Close()
	j.f = nil
	return err
}

// finish takes the journal away if nothing of it is open.
func (j *journal) finish() error {
	err := j.close()
	if !j.open() {
		err = errors.Join(err, j.disk.Remove(j.name))
	}
	if err != nil {
		return fmt.Errorf("end the tuning journal: %w", err)
	}
	return nil
}

// A Standing is a setting that a journal still has to put back.
type Standing struct {
	Recipe string    `json:"recipe"`
	By     string    `json:"by"`    // "hand", or the run
	State  string    `json:"state"` // "held": by hand; "running": its process lives; "left": its process died
	Since  time.Time `json:"since"`
	result.Setting
	Now     string `json:"now"`               // what it reads now
	Journal string `json:"journal,omitempty"` // the file
}
