// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"boxdyno/result"
	"boxdyno/runner"
)

// documents is how many JSON documents s is; -1: something else.
func documents(s string) (n int) {
	for d := json.NewDecoder(strings.NewReader(s)); ; n++ {
		var v any
		if err := d.Decode(&v); errors.Is(err, io.EOF) {
			return n
		} else if err != nil {
			return -1
		}
	}
}

// With --json a command that fails prints nothing or one document, never a part of one,
// and one sentence on standard error.
func TestJSONOfErrors(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_STATE_HOME", filepath.Join(dir, "state"))
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(dir, "config"))
	run, cut, text, plan := filepath.Join(dir, "run"), filepath.Join(dir, "cut"), filepath.Join(dir, "text"), filepath.Join(dir, "plan.yaml")
	b, err := result.Create(run, result.Run{Schema: result.Schema, ID: "x"})
	if err == nil {
		err = b.Close()
	}
	err = errors.Join(err, os.Mkdir(cut, 0o755), os.WriteFile(filepath.Join(cut, result.RunFile), []byte(`{"schema":1,"id`), 0o644),
		os.WriteFile(text, []byte("text"), 0o644), os.WriteFile(plan, []byte("procedures: [{use: forward, frame_size: 7}]"), 0o644))
	if err != nil {
		t.Fatal(err)
	}
	// Nobody, root neither, writes below a file.
	cases := map[string][]string{
		"run":         {"run forward --lab mem --set frame_size=7", "run nothing", "run gone.yaml", "run " + plan, "run --resume " + dir + "/gone", "run --resume " + cut, "run forward --lab mem --out " + text + "/x", "run forward --lab mem --out " + text + "/x", "run forward --lab mem --repeat x", "run forward --lab mem --dry-run --set rules=-1"},
		"qualify":     {"qualify nothing", "qualify firewall --quick --out " + text + "/x", "qualify firewall --quick --budget x", "qualify firewall --quick --link-rate 1000", "qualify gone.yaml", "qualify firewall --quick --report " + text + "/x.html"},
		"report":      {"report", "report gone", "report " + cut, "report " + run + " gone", "report " + text},
		"compare":     {"compare", "compare " + run, "compare " + run + " gone", "compare " + cut + " " + run, "compare " + run + " " + run, "compare " + run + " " + run + " --fail-on x"},
		"doctor":      {"doctor x", "doctor --install x"},
		"list":        {"list x", "list procedures x", "list a b c"},
		"history":     {"history", "history x --where y", "history x --since y", "history gone"},
		"runs":        {"runs x", "runs --newest -1", "runs --since x"},
		"index":       {"index " + dir + "/gone", "index " + text, "index --index " + text},
		"fleet ls":    {"fleet ls", "fleet ls x"},
		"fleet run":   {"fleet run", "fleet run nothing", "fleet run crypto --nodes x"},
		"size":        {"size", "size --for x", "size --for crypto", "size --for ids --load x", "size --for hpl --board gone", "size --for hpl --what-if x", "size --for hpl --shared x"},
		"send":        {"send", "send -i gone0 -t", "send -i lo -t -p 5", "send -i gone0 -p x", "send -i gone0 -t --templates gone"},
		"replay":      {"replay", "replay -i gone0 gone.pcap", "replay -i lo " + text, "replay -i gone0 -x x gone.pcap"},
		"meter":       {"meter", "meter -i gone0", "meter -i lo --duration x"},
		"watch":       {"watch --rate x", "watch --collectors x", "watch --duration x", "watch --meter gone"},
		"tune show":   {"tune show", "tune show x", "tune show gone.yaml", "tune show router --port gone0"},
		"tune apply":  {"tune apply", "tune apply x", "tune apply router --port gone0", "tune apply gone.yaml"},
		"tune status": {"tune status x"},
		"tune export": {"tune export", "tune export x", "tune export router --port gone0 --out " + text + "/x", "tune export gone.yaml"},
		"box add":     {"box add", "box add x", "box add x --ssh -x", "box add x --ssh y --cable z", "box add x --ssh gone.invalid"},
		"box check":   {"box check", "box check gone"},
		"box ls":      {"box ls x"},
		"box cables":  {"box cables", "box cables gone"},
		"box update":  {"box update", "box update gone"},
		"tune ablate": {"tune ablate x", "tune ablate router --procedure x", "tune ablate router --out " + text + "/x", "tune ablate gone.yaml"},
	}
	var walk func(cmd *cobra.Command, name string)
	walk = func(cmd *cobra.Command, name string) {
		if cmd.Flags().Lookup("json") != nil && cases[name] == nil {
			t.Errorf("%s has --json and no case here", name)
		}
		for _, c := range cmd.Commands() {
			walk(c, strings.TrimSpace(name+" "+c.Name()))
		}
	}
	walk(Command(), "")
	for name, list := range cases {
		if cmd, _, err := Command().Find(strings.Fields(name)); err != nil || cmd.Flags().Lookup("json") == nil {
			t.Errorf("%s has no --json: %v", name, err)
		}
		for _, args := range list {
			code, out, errw := call(t.Context(), runner.Plugins(), append(strings.Fields(args), "--json", "--quiet")...)
			if !slices.Contains([]int{exitUsage, exitMissing, exitOther, exitInvalid}, code) || documents(out) != 0 && documents(out) != 1 {
				t.Errorf("%s --json: exit code %d and %d documents: %.300q", args, code, documents(out), out)
			}
			if strings.Count(errw, "\n") != 1 || !strings.HasPrefix(errw, "boxdyno: ") {
				t.Errorf("%s --json: %q", args, errw)
			}
		}
	}
}
