// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"unsafe"

	"boxdyno/internal/infer"
	"boxdyno/subject/internal/made"
)

// A library is a child of the child: programs/infer.py in one of the virtual
// environments.
type library struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	name string
}

// Files in a child's working folder.
const (
	scriptFile  = "infer.py"
	paramsFile  = "params.json"
	windowsFile = "windows"
	classesFile = "classes"
	labelsFile  = "labels"
)

func (d *detection) library(m *infer.Detector, args ...string) (*library, error) {
	params, err := json.Marshal(m.Params())
	if err != nil {
		return nil, err
	}
	if err := errors.Join(os.WriteFile(scriptFile, []byte(made.Embedded(scriptFile)), 0o600), os.WriteFile(paramsFile, params, 0o600)); err != nil {
		return nil, err
	}
	l := &library{cmd: exec.Command(d.Python, append([]string{scriptFile, d.Runtime, paramsFile}, args...)...), name: d.Runtime}
	l.cmd.Stderr = os.Stderr
	if l.in, err = l.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := l.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	l.out = bufio.NewReader(out)
	if err := l.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", d.Runtime, err)
	}
	return l, nil
}

// end is err, and how it ended where it has.
func (l *library) end(err error) error {
	l.in.Close()
	if wait := l.cmd.Wait(); wait != nil {
		return fmt.Errorf("%s failed: %w", l.name, wait)
	}
	return fmt.Errorf("%s ended too early: %w", l.name, err)
}

// octets are the windows' own, in the machine's order.
func octets(xs []infer.Vector) []byte {
	if len(xs) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&xs[0])), len(xs)*int(unsafe.Sizeof(xs[0])))
}

func classes(m *infer.Detector, xs []infer.Vector, out []byte) []byte {
	out = out[:0]
	for i := range xs {
		out = append(out, m.Class(&xs[i]))
	}
	return out
}

// bench starts the library offline, and compares its outputs with this program's.
func (d *detection) bench(m *infer.Detector, windows []infer.Vector, e *Evaluation) (*library, error) {
	if err := errors.Join(os.WriteFile(windowsFile, octets(windows), 0o600), os.WriteFile(classesFile, classes(m, windows, nil), 0o600)); err != nil {
		return nil, err
	}
	l, err := d.library(m, "bench", windowsFile, classesFile, strconv.Itoa(d.Batch), strconv.FormatFloat(d.For.Seconds(), 'f', -1, 64), labelsFile)
	if err != nil {
		return nil, err
	}
	if _, err := l.out.ReadBytes('\n'); err != nil {
		return nil, l.end(err)
	}
	if m.Learns() {
		return l, nil // another tree of the same kind
	}
	labels, err := os.ReadFile(labelsFile)
	if err != nil {
		return nil, err
	}
	if len(labels) != len(windows) {
		return nil, fmt.Errorf("%s gave %d outputs for %d windows", l.name, len(labels), len(windows))
	}
	for i, y := range labels {
		if e.Compared++; y != m.Model.Predict(&windows[i]) {
			e.Differ++
		}
	}
	return l, nil
}

// measure lets it go, and reads what it did.
func (l *library) measure(e *Evaluation) error {
	if _, err := l.in.Write([]byte("\n")); err != nil {
		return l.end(err)
	}
	line, err := l.out.ReadBytes('\n')
	if err != nil {
		return l.end(err)
	}
	if err := json.Unmarshal(line, e); err != nil {
		return fmt.Errorf("%s printed what is no figure: %.80q", l.name, line)
	}
	return l.close()
}

func (l *library) close() error {
	l.in.Close()
	return l.cmd.Wait()
}

// A served evaluates windows of a port by a library: it waits for each batch, as a
// detector does that acts upon what it finds.
type served struct {
	*library
	model   *infer.Detector
	classes []byte
	labels  []byte
}

// serve starts the library and waits until it is ready.
func (d *detection) serve(m *infer.Detector) (*served, error) {
	l, err := d.library(m, "serve")
	if err != nil {
		return nil, err
	}
	if _, err := l.out.ReadByte(); err != nil {
		return nil, l.end(err)
	}
	return &served{library: l, model: m, labels: make([]byte, d.Batch)}, nil
}

func (s *served) evaluate(xs []infer.Vector) error {
	n := uint32(len(xs))
	s.classes = classes(s.model, xs, s.classes)
	for _, b := range [][]byte{unsafe.Slice((*byte)(unsafe.Pointer(&n)), unsafe.Sizeof(n)), octets(xs), s.classes} {
		if _, err := s.in.Write(b); err != nil {
			return s.end(err)
		}
	}
	if _, err := io.ReadFull(s.out, s.labels[:n]); err != nil {
		return s.end(err)
	}
	return nil
}
