// SPDX-License-Identifier: Apache-2.0

package program

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"syscall"

	"boxdyno/host"
)

// Child is the command of a child of this program that does a work of its own: the word
// names it, and ChildMain of that word gets the work, as JSON has it.
func Child(word string, work any) ([]string, error) {
	text, err := json.Marshal(work)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	return []string{self, word, string(text)}, err
}

// ChildMain runs the work of such a child where this process is one, and then does not
// return.
func ChildMain[T any](word string, run func(*T) error) {
	if len(os.Args) != 3 || os.Args[1] != word {
		return
	}
	var work T
	err := json.Unmarshal([]byte(os.Args[2]), &work)
	if err == nil {
		err = run(&work)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Failed makes a sentence of the error of a process's Wait, with what it said last; nil stays
// nil, unless the kernel killed it. A signal is that which ended what the process stands
// for; 0: its own.
func Failed(p *host.Process, err error, name, last string, signal syscall.Signal) error {
	var exit *host.Exit
	switch {
	case p.OOMKills() > 0:
		return fmt.Errorf("%s was killed by the kernel: the memory that it may have was used up", name)
	case errors.As(err, &exit):
		how := &host.Exit{Name: name, Code: exit.Code, Signal: exit.Signal}
		if signal != 0 {
			how.Signal = signal
		}
		if err = how; last != "" {
			err = fmt.Errorf("%w; it said %q", err, last)
		}
	}
	return err
}
