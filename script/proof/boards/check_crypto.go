// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"boxdyno/result"
)

// provenCiphers are those of which a board's kernel must give its known answer.
var provenCiphers = []string{
	"aes-cbc-128", "aes-xts-256", "aes-xts-512", "twofish-cbc-256", "twofish-xts-512", "serpent-cbc-256", "serpent-xts-512",
	"camellia-cbc-256", "chacha20", "adiantum", "aes-gcm-128", "aes-gcm-256", "chacha20-poly1305",
}

// unitTests must have passed, each of them by name; one that was skipped is counted
// with its reason.
func unitTests(names ...string) func(*checker, ran) {
	return func(c *checker, r ran) {
		for _, name := range names {
			told := lastWord(string(r.stdout), name)
			if told == "SKIP" {
				c.skips(name + ": " + whySkipped(string(r.stdout), name))
				continue
			}
			c.holds(name, told == "PASS", fmt.Sprintf("exit code %d %s: %s %s", r.Exit, r.Problem, r.stdout, r.stderr))
		}
		c.holds(strings.Join(r.Argv[:min(3, len(r.Argv))], " ")+" ends well", r.Exit == 0, fmt.Sprintf("exit code %d %s: %s", r.Exit, r.Problem, r.stderr))
	}
}

// lastWord is PASS, SKIP or FAIL as "go test -v" says of a test; "": it did not run.
func lastWord(text, name string) string {
	m := regexp.MustCompile(`(?m)^ *--- (\w+): ` + regexp.QuoteMeta(name) + ` \(`).FindStringSubmatch(text)
	if m == nil {
		return ""
	}
	return m[1]
}

// whySkipped is what a test said between its beginning and the next line of the test
// program's own.
func whySkipped(text, name string) string {
	_, text, _ = strings.Cut(text, "=== RUN   "+name+"\n")
	var said []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "=== ") || strings.HasPrefix(line, "--- ") {
			break
		}
		said = append(said, line)
	}
	return strings.Join(said, " ")
}

// records are those of a bundle that came back.
func (c *checker) records(dir string) (recs []result.Record, err error) {
	for line := range strings.Lines(string(c.files[dir+"/"+result.TrialsFile])) {
		var rec result.Record
		if bad := json.Unmarshal([]byte(line), &rec); bad != nil {
			err = errors.Join(err, bad)
			continue
		}
		recs = append(recs, rec)
	}
	return recs, err
}

// point looks for a point that passed, by one of its parameters, with figures above 0.
func (c *checker) point(dir string, r ran, key, value string, metrics ...string) {
	recs, err := c.records(dir)
	i := slices.IndexFunc(recs, func(rec result.Record) bool {
		return rec.Parent == "" && rec.Status == result.Passed && result.Get(rec.Config, key) == value && !slices.ContainsFunc(metrics, func(m string) bool {
			v := rec.Value(m)
			return v == nil || !(v.Value > 0)
		})
	})
	c.holds(fmt.Sprintf("%s: %s %s: %s", dir, key, value, strings.Join(metrics, ", ")), err == nil && i >= 0,
		fmt.Sprintf("no point passed with these figures: exit code %d %s: %v: %s", r.Exit, r.Problem, err, r.stderr))
}

// crypto must have encrypted and decrypted, by both ways into the kernel.
func (c *checker) crypto(r ran) {
	exits := []int{0, 4}
	if c.lacksProgram(r, "cryptsetup") {
		exits = []int{3}
	} else {
		c.point("crypto", r, "path", "cryptsetup", "encrypt_bytes_per_s", "decrypt_bytes_per_s")
	}
	c.comesBack("crypto", r, exits...)
	c.point("crypto", r, "path", "af-alg", "encrypt_bytes_per_s", "decrypt_bytes_per_s")
}

// vpn must have carried frames and, by iperf3, streams through the kernel's tunnels.
func (c *checker) vpn(r ran) {
	c.comesBack("vpn", r, 0, 4)
	carried := []string{"startup_s", "forwarding_rate_fps"}
	if !c.lacksProgram(r, "iperf3") {
		carried = append(carried, "goodput_bps")
	}
	c.point("vpn", r, "tunnel", "ipsec", carried...)
	c.point("vpn", r, "tunnel", "wireguard", append(carried, "handshake_s")...)
}

// lacksProgram counts a program that could not be fetched for the board, and says so.
func (c *checker) lacksProgram(r ran, name string) bool {
	said := strings.Join(strings.Fields(string(r.stderr)+" "+string(r.stdout)), " ")
	if !strings.Contains(said, "missing the program "+name) {
		return false
	}
	c.skips(fmt.Sprintf("%s: %s could not be fetched for the board: call script/boards --refresh %s where the mirror has it", r.Argv[min(2, len(r.Argv)-1)], name, c.board))
	return true
}
