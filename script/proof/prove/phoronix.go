// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"boxdyno/result"
)

// The Phoronix Test Suite 10.8.6 of June 2026. It is fetched, run as an ordinary user and
// deleted again.
const (
	phoronixSource = "https://github.com/phoronix-test-suite/phoronix-test-suite"
	phoronixCommit = "84227e6aac22d51cfe0bd2c612bd49ff3433982e"
)

// phoronixSettings has the suite look for results in a folder, and stay off the network.
const phoronixSettings = `<PhoronixTestSuite><Options>
<OpenBenchmarking><AnonymousUsageReporting>FALSE</AnonymousUsageReporting></OpenBenchmarking>
<Testing><ResultsDirectory>%s/</ResultsDirectory></Testing>
<Networking><NoInternetCommunication>TRUE</NoInternetCommunication></Networking>
</Options></PhoronixTestSuite>
`

// A ptsKey names a figure in composite.xml: its system and its description without a bound.
type ptsKey struct{ system, about string }

// A ptsFigures has the repeats of each figure.
type ptsFigures map[ptsKey][]float64

// ptsWanted returns the figures that runs have for composite.xml; systems has their names there.
func ptsWanted(runs, systems []string) (ptsFigures, error) {
	want := ptsFigures{}
	for i, dir := range runs {
		run, recs, err := result.Open(dir)
		if err != nil {
			return nil, err
		}
		for _, r := range recs {
			if r.Parent != "" || r.Status != result.Passed && r.Status != result.Failed {
				continue
			}
			id, _, _ := strings.Cut(r.ID, "#")
			for _, v := range r.Values {
				if slices.ContainsFunc(run.Metrics, func(m result.Metric) bool { return m.Name == v.Metric && m.Better != 0 }) {
					key := ptsKey{systems[i], v.Metric + ", " + id}
					want[key] = append(want[key], v.Value)
				}
			}
		}
	}
	return want, nil
}

// asPhoronix has the Phoronix Test Suite validate a composite.xml and convert it, and
// compares the figures that it reads with those of the runs.
func asPhoronix(ctx context.Context, dir, source string, data []byte, runs []string, wrong func(string, ...any)) error {
	var file struct {
		System []struct{ Identifier string }
	}
	if err := xml.Unmarshal(data, &file); err != nil || len(file.System) != len(runs) {
		wrong("composite.xml has %d systems of %d runs: %v", len(file.System), len(runs), err)
		return nil
	}
	var systems []string
	for _, s := range file.System {
		systems = append(systems, s.Identifier)
	}
	want, err := ptsWanted(runs, systems)
	if err != nil {
		return err
	}
	suite, home := filepath.Join(dir, "phoronix"), filepath.Join(dir, "phoronix-home")
	if err := havePhoronix(ctx, suite, source); err != nil {
		fmt.Printf("left out, the Phoronix Test Suite: %v\n", err)
		return ctx.Err()
	}
	if err := phoronixHome(dir, home, data); err != nil {
		return err
	}
	phoronix := func(command string) string {
		c := exec.CommandContext(ctx, filepath.Join(suite, "phoronix-test-suite"), command, "ours")
		c.Dir = suite
		c.Env = []string{"PATH=" + os.Getenv("PATH"), "PTS_USER_PATH_OVERRIDE=" + home + "/", "OUTPUT_DIR=" + home + "/"}
		c.SysProcAttr = ordinary()
		out, err := c.CombinedOutput()
		if err != nil {
			wrong("the Phoronix Test Suite's %s: %v: %s", command, err, bytes.TrimSpace(out))
		}
		return string(out)
	}
	if said := phoronix("validate-result-file"); !strings.Contains(said, "The result file is Valid.") {
		wrong("the Phoronix Test Suite does not find composite.xml valid: %s", said)
	}
	phoronix("result-file-to-json")
	got, err := ptsRead(filepath.Join(home, "ours.json"))
	if err != nil {
		wrong("what the Phoronix Test Suite reads: %v", err)
	}
	for _, key := range slices.SortedFunc(maps.Keys(want), func(a, b ptsKey) int {
		return strings.Compare(a.system+a.about, b.system+b.about)
	}) {
		if !slices.Equal(got[key], want[key]) {
			wrong("%s, %s: the Phoronix Test Suite reads %v of %v", key.system, key.about, got[key], want[key])
		}
	}
	if len(got) != len(want) || len(want) == 0 {
		wrong("the Phoronix Test Suite reads %d figures of %d", len(got), len(want))
	}
	fmt.Printf("the Phoronix Test Suite reads %d figures of %d runs\n", len(got), len(runs))
	return nil
}

// havePhoronix fetches the suite's files from a git repository, unless they are there.
func havePhoronix(ctx context.Context, suite, source string) error {
	if exec.CommandContext(ctx, "php", "-r", "exit(function_exists('simplexml_load_string') ? 0 : 1);").Run() != nil {
		return errors.New("it needs php-cli and php-xml")
	}
	if _, err := os.Stat(filepath.Join(suite, "phoronix-test-suite")); err == nil {
		return nil
	}
	for _, args := range [][]string{{"init", "--quiet", suite}, {"-C", suite, "fetch", "--quiet", "--depth=1", source, phoronixCommit}, {"-C", suite, "checkout", "--quiet", "FETCH_HEAD"}} {
		if out, err := exec.CommandContext(ctx, "git", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("git %s: %v: %s", args[len(args)-1], err, bytes.TrimSpace(out))
		}
	}
	return nil
}

// phoronixHome makes the suite's folder, with a result named ours.
func phoronixHome(dir, home string, data []byte) error {
	results := filepath.Join(home, "results")
	err := errors.Join(os.RemoveAll(home), os.MkdirAll(filepath.Join(results, "ours"), 0o755), os.Chmod(dir, 0o711))
	if err == nil {
		err = errors.Join(os.WriteFile(filepath.Join(results, "ours", "composite.xml"), data, 0o644),
			os.WriteFile(filepath.Join(home, "user-config.xml"), fmt.Appendf(nil, phoronixSettings, results), 0o644))
	}
	if a := ordinary(); err == nil && a != nil {
		err = filepath.WalkDir(home, func(path string, _ os.DirEntry, err error) error {
			return errors.Join(err, os.Chown(path, int(a.Credential.Uid), int(a.Credential.Gid)))
		})
	}
	return err
}

// ordinary has a program run as nobody: as root the suite would write into the machine's folders.
func ordinary() *syscall.SysProcAttr {
	if os.Geteuid() != 0 {
		return nil
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
}

// ptsRead returns the figures in what the suite's result-file-to-json writes, which has
// raw values only of more than one repeat.
func ptsRead(name string) (ptsFigures, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var said struct {
		Results map[string]struct {
			Description string
			Results     map[string]struct {
				Value float64
				Raw   []float64 `json:"raw_values"`
			}
		}
	}
	if err := json.Unmarshal(data, &said); err != nil {
		return nil, err
	}
	got := ptsFigures{}
	for _, r := range said.Results {
		about := strings.TrimSuffix(strings.TrimSuffix(r.Description, ", a lower bound"), ", an upper bound")
		for system, e := range r.Results {
			key := ptsKey{system, about}
			if e.Raw == nil {
				e.Raw = []float64{e.Value}
			}
			got[key] = append(got[key], e.Raw...)
		}
	}
	return got, nil
}
