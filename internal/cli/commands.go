// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"

	"boxdyno/internal/files"
	"boxdyno/internal/yaml"
	"boxdyno/lab"
	"boxdyno/link"
	"boxdyno/runner"
	"boxdyno/subject/capture"
)

// ownCommands refuses commands that somebody else wrote: those of a plan in a file, or
// of a run's, and those of a subject's description, if the file belongs to neither root
// nor this user, nor under sudo its caller. source is the plan's file; "": it is none.
// The error is a *runner.PlanError.
func ownCommands(p runner.Plan, source string) error {
	refuse := func(name string, uid int, commands []string) error {
		return &runner.PlanError{Err: fmt.Errorf("%s belongs to user %d and would run %s: add --allow-commands if it may", name, uid, strings.Join(commands, ", and "))}
	}
	if uid, strange := foreign(source); strange {
		if commands := commandsOf(p); len(commands) > 0 {
			return refuse(source, uid, commands)
		}
	}
	for _, name := range descriptions(p) {
		if uid, strange := foreign(name); strange {
			return refuse(name, uid, []string{described(name)})
		}
	}
	return nil
}

// foreign says whose a file is, and that it is a stranger's. One that does not exist is
// nobody's.
func foreign(name string) (uid int, strange bool) {
	if name == "" {
		return 0, false
	}
	info, err := os.Stat(name)
	if err != nil {
		return 0, false
	}
	uid = int(info.Sys().(*syscall.Stat_t).Uid)
	if o := sudoer(); o != nil && uid == o.UID {
		return uid, false
	}
	return uid, uid != 0 && uid != os.Geteuid()
}

// commandsOf are the commands that a plan brings with it.
func commandsOf(p runner.Plan) (commands []string) {
	quote := func(what, text string) { commands = append(commands, fmt.Sprintf("%q (%s)", text, what)) }
	if p.Telemetry.Meter != "" {
		quote("meter", p.Telemetry.Meter)
	}
	for _, m := range p.Telemetry.Places {
		if m.Meter != "" {
			quote("meter of "+m.Of, m.Meter)
		}
	}
	for _, key := range lab.Commands {
		if s := p.Lab.Get(key); s != nil {
			for _, w := range s.Values {
				if w.Text != "" && !(strings.HasPrefix(key, "program") && w.Text == link.Name) {
					quote(key, w.Text)
				}
			}
		}
	}
	for _, name := range descriptions(p) {
		commands = append(commands, described(name))
	}
	return commands
}

// descriptions are the files of subjects that a plan's user described.
func descriptions(p runner.Plan) (names []string) {
	for _, e := range p.Procedures {
		of := e.Get("subject")
		if of == nil || !slices.ContainsFunc(of.Values, func(w runner.Word) bool { return w.Text == capture.Own }) {
			continue
		}
		if file := e.Get("file"); file != nil {
			for _, w := range file.Values {
				if w.Text != "" {
					names = append(names, w.Text)
				}
			}
		}
	}
	return names
}

// described is the command that a subject's file says.
func described(name string) string {
	data, err := files.Read(name, yaml.MaxSize)
	if err == nil {
		if root, err := yaml.Parse(name, data); err == nil {
			if command := root.Get("command"); command != nil {
				if words, err := command.Texts("command"); err == nil {
					return fmt.Sprintf("%q (%s)", strings.Join(words, " "), name)
				}
			}
		}
	}
	return "the program that " + name + " describes"
}
