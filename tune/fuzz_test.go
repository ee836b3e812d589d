// SPDX-License-Identifier: Apache-2.0

package tune

import (
	"net"
	"slices"
	"strings"
	"testing"
)

// FuzzRecipe reads a recipe that anybody wrote. What it exports becomes lines of
// programs, so that a value of it must never be more than a word of one.
func FuzzRecipe(f *testing.F) {
	names, err := embedded.ReadDir("recipes")
	if err != nil {
		f.Fatal(err)
	}
	for _, e := range names {
		data, err := embedded.ReadFile("recipes/" + e.Name())
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	for _, s := range All {
		f.Add([]byte("name: x\nsteps: [{knob: " + s.Name + ", value: \"1; reboot\"}, {knob: " + s.Name + ", target: eth0, value: \"$(reboot)\\nExecStart=x\"}]"))
	}
	f.Add([]byte("name: x\nsteps: [{knob: rps, target: \"a;reboot\", value: \"1\"}]"))
	ports := []ExportPort{{Name: "eth0", MAC: net.HardwareAddr{2, 0, 0, 0, 0, 1}}, {Name: "en-p1.7"}}
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := Parse("r.yaml", data)
		if err != nil {
			if s := err.Error(); strings.Contains(s, "\n") || strings.Contains(s, "%!") && !strings.Contains(string(data), "%!") {
				t.Errorf("%q", s)
			}
			return
		}
		_ = Ablate(r)
		files, _, err := Export(r, ports)
		if err != nil {
			return
		}
		for _, file := range files {
			if strings.Count(file.Path, "/") > 5 || strings.Contains(file.Path, "..") {
				t.Errorf("it would be written to %q", file.Path)
			}
			for _, s := range r.Steps {
				for _, word := range []string{s.Target, s.Value} {
					if strings.ContainsAny(word, ";|&`$<>\"'\\\n\r%") && strings.Contains(file.Text, word) {
						t.Errorf("%q of %s stands in %s:\n%s", word, s.Knob, file.Path, file.Text)
					}
				}
			}
			for line := range strings.Lines(file.Text) {
				if i := strings.IndexFunc(line, func(c rune) bool { return c < ' ' && c != '\n' || c == 0x7f }); i >= 0 {
					t.Errorf("%q in %s", line, file.Path)
				}
			}
		}
	})
}

// FuzzJournal reads a journal that was damaged or that somebody else wrote.
func FuzzJournal(f *testing.F) {
	const begin = `{"begin":{"schema":1,"recipe":"r","by":"hand","boot":"b","pid":7,"started":9}}` + "\n"
	f.Add([]byte(begin + `{"set":{"n":1,"knob":"mtu","port":"eth0","old":"1500","new":"9000"}}` + "\n" + `{"got":{"n":1,"value":"9000"}}` + "\n" + `{"undone":1}` + "\n"))
	f.Add([]byte(begin + `{"hold":"by hand"}` + "\n" + `{"got":{"n":2}}` + "\n{"))
	f.Add([]byte("{}\nnull\n[]\n" + `{"undone":-1}` + "\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		j, err := openJournal(oneJournal(data), "00000000000000000001-7.journal")
		if err != nil {
			t.Fatal(err)
		}
		if j.size > len(data) || j.size > 0 && data[j.size-1] != '\n' {
			t.Errorf("%d of %d octets are whole lines", j.size, len(data))
		}
		for _, s := range j.broken {
			if strings.Contains(s, "\n") {
				t.Errorf("%q", s)
			}
		}
		if again, err := openJournal(oneJournal(data[:j.size]), j.name); err != nil || len(again.entries) != len(j.entries) || !slices.Equal(again.broken, j.broken) {
			t.Errorf("without the line that was cut off it reads otherwise: %v", err)
		}
	})
}

// oneJournal is a disk with one journal.
type oneJournal []byte

func (d oneJournal) List(string) ([]string, error)    { return []string{"j"}, nil }
func (d oneJournal) Read(string) ([]byte, error)      { return slices.Clone(d), nil }
func (d oneJournal) Create(string) (file, error)      { panic("it only reads") }
func (d oneJournal) Append(string, int) (file, error) { panic("it only reads") }
func (d oneJournal) Remove(string) error              { panic("it only reads") }
