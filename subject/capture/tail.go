// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"boxdyno/subject/internal/program"
)

// A LogFile is a file of a program's folder that it writes lines to while it runs.
type LogFile struct {
	Name string
	Said Parser
	End  func() Told // what all its lines tell once the program has ended; nil: no more
}

// A tail reads such a file as it grows. The file is made and opened before the program
// starts, so that it can still be read after the folder was removed with the program.
type tail struct {
	file *os.File
	log  LogFile
	rest []byte // read, and of no whole line yet
	long bool   // the line that rest belongs to is passed over, being too long
	buf  []byte
}

const (
	// tailRead is how much of a file is read at once, tailMost before something else is
	// looked at.
	tailRead = 64 << 10
	tailMost = 16 << 20
)

func openTails(dir string, logs []LogFile) (tails []*tail, err error) {
	for _, l := range logs {
		f, err := os.OpenFile(filepath.Join(dir, l.Name), os.O_RDONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if err != nil {
			for _, t := range tails {
				err = errors.Join(err, t.file.Close())
			}
			return nil, fmt.Errorf("make the log that is read: %w", err)
		}
		tails = append(tails, &tail{file: f, log: l, buf: make([]byte, tailRead)})
	}
	return tails, nil
}

// read takes at most so many octets' lines; more says whether there may be others.
func (t *tail) read(take func(s Told, line string), most int) (more bool, err error) {
	for done := 0; done < most; {
		n, err := t.file.Read(t.buf)
		t.lines(t.buf[:n], take)
		done += n
		if err == io.EOF || n == 0 && err == nil {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("read %s: %w", t.log.Name, err)
		}
	}
	return true, nil
}

// lines takes whole lines; a line without its end waits for that.
func (t *tail) lines(b []byte, take func(s Told, line string)) {
	for len(b) > 0 {
		i := 0
		for i < len(b) && b[i] != '\n' {
			i++
		}
		whole := i < len(b)
		if !t.long && len(t.rest)+i > program.LongestLine {
			t.long, t.rest = true, t.rest[:0]
			s := Nothing
			s.Garbage = true
			take(s, "a line of more than 64 KiB in "+t.log.Name)
		}
		if !t.long {
			t.rest = append(t.rest, b[:i]...)
		}
		if !whole {
			return
		}
		if !t.long && len(t.rest) > 0 {
			line := string(t.rest)
			take(t.log.Said(line), line)
		}
		t.rest, t.long = t.rest[:0], false
		b = b[i+1:]
	}
}

func (r *Capturing) readTails() {
	for _, t := range r.tails {
		if _, err := t.read(r.Take, tailMost); err != nil {
			r.Fault(err)
		}
	}
}

// endTails reads what is left once the program has ended.
func (r *Capturing) endTails() {
	for _, t := range r.tails {
		<-r.Process.Done()
		more, err := true, error(nil)
		for more && err == nil {
			more, err = t.read(r.Take, tailMost)
		}
		if err != nil {
			r.Fault(err)
		}
		if t.log.End != nil {
			r.Take(t.log.End(), "")
		}
	}
	r.closeTails()
}

func (r *Capturing) closeTails() {
	for _, t := range r.tails {
		_ = t.file.Close() // it was only read
	}
	r.tails = nil
}
