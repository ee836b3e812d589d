// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"boxdyno/result"
)

// History and size are answered by boxdyno itself, a process that ends with its answer. Under
// sudo it gives up root for the caller, as it does on the command line, and this server
// does not. What a browser asks becomes values of flags; none of them is a file's name.
//
//	GET /api/history?metric=...  -->  boxdyno history METRIC --json --split ...
//	GET /api/size?for=...        -->  boxdyno size --for=... --json | --csv

// The bounds of an answer.
const (
	mostAnswer    = 32 << 20 // octets
	mostCount     = 1_000_000
	answerPatient = 50 * time.Second
)

// A Metric is one that the page History offers.
type Metric struct {
	Name      string `json:"name"`
	Procedure string `json:"procedure"`
	Unit      string `json:"unit"`
	Help      string `json:"help"`
}

var metricName = regexp.MustCompile(`^[a-z][a-z0-9_]{0,99}$`)

// metricsList is GET /api/history/metrics.
func (s *Server) metricsList(w http.ResponseWriter, _ *http.Request) error {
	return reply(w, append([]Metric{}, s.o.Metrics...))
}

// history is GET /api/history?metric=...&box=...&procedure=...&where=key=value&since=...
func (s *Server) history(w http.ResponseWriter, r *http.Request) error {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err := checked(q, err, "metric", "box", "procedure", "where", "since", "until"); err != nil {
		return err
	}
	name := q.Get("metric")
	if !metricName.MatchString(name) {
		return answer{http.StatusBadRequest, "metric is a name such as throughput_fps"}
	}
	args := []string{"history", name, "--json", "--split"}
	for _, flag := range []string{"box", "procedure", "where", "since", "until"} {
		args = with(args, flag, q[flag])
	}
	out, err := s.told(r.Context(), s.answering, append(args, s.o.Library...))
	if err != nil {
		return err
	}
	if out, err = s.withoutFolders(out); err != nil {
		return err
	}
	return send(w, "application/json", out)
}

// withoutFolders replaces the folder of each run by its name in the list of runs; one that is not
// in it has none. Where runs lie on the disk is not a browser's business.
func (s *Server) withoutFolders(history []byte) ([]byte, error) {
	var h map[string]any
	d := json.NewDecoder(bytes.NewReader(history))
	d.UseNumber()
	if err := d.Decode(&h); err != nil {
		return nil, fmt.Errorf("read the history: %w", err)
	}
	all, _ := h["series"].([]any)
	for _, one := range all {
		series, _ := one.(map[string]any)
		points, _ := series["points"].([]any)
		for _, p := range points {
			if point, ok := p.(map[string]any); ok {
				dir, _ := point["dir"].(string)
				delete(point, "dir")
				if id := filepath.Base(dir); s.runs.find(id) == dir && dir != "" {
					point["bundle"] = id
				}
			}
		}
	}
	return json.Marshal(h)
}

// send answers with what was made.
func send(w http.ResponseWriter, kind string, data []byte) error {
	w.Header().Set("Content-Type", kind)
	_, _ = w.Write(data)
	return nil
}

// size is GET /api/size?for=...&load=..., in the words of boxdyno size; format=csv has the rows alone.
func (s *Server) size(w http.ResponseWriter, r *http.Request) error {
	q, err := url.ParseQuery(r.URL.RawQuery)
	flags := []string{"for", "load", "rules", "cipher", "direction", "spare", "shared", "what-if", "board", "against"}
	if err := checked(q, err, append(flags, "published", "format")...); err != nil {
		return err
	}
	for _, name := range []string{"rules", "spare"} {
		for _, text := range q[name] {
			if n, err := strconv.Atoi(text); err != nil || n < 0 || n > mostCount {
				return answer{http.StatusBadRequest, fmt.Sprintf("%s is a number from 0 to %d", name, mostCount)}
			}
		}
	}
	kind, form := "application/json", "--json"
	switch q.Get("format") {
	case "", "json":
	case "csv":
		kind, form = "text/csv", "--csv"
	default:
		return answer{http.StatusBadRequest, "format is json or csv"}
	}
	args := []string{"size", form}
	for _, flag := range flags {
		args = with(args, flag, q[flag])
	}
	switch q.Get("published") {
	case "", "false":
		args = append(args, s.o.Library...)
	case "true":
		args = append(args, "--published")
	default:
		return answer{http.StatusBadRequest, "published is true or false"}
	}
	out, err := s.told(r.Context(), s.answering, args)
	if err != nil {
		return err
	}
	return send(w, kind, out)
}

// with adds a flag for each value that is not empty.
func with(args []string, flag string, values []string) []string {
	for _, v := range values {
		if v != "" {
			args = append(args, "--"+flag+"="+v)
		}
	}
	return args
}

// told is what boxdyno prints. In each place one process answers at a time, at the least
// priority, and none does while a run needs all CPUs of this machine.
func (s *Server) told(within context.Context, place chan struct{}, args []string) ([]byte, error) {
	if s.o.Library == nil {
		return nil, answer{http.StatusNotFound, "this server has no index of runs"}
	}
	for _, a := range args {
		if strings.ContainsRune(a, 0) {
			return nil, answer{http.StatusBadRequest, "a value has a character that no argument can have"}
		}
	}
	if s.tight() {
		return nil, answer{http.StatusServiceUnavailable, "a run needs all CPUs of this machine: ask again when it has ended"}
	}
	ctx, cancel := context.WithTimeout(within, answerPatient)
	defer cancel()
	select {
	case place <- struct{}{}:
		defer func() { <-place }()
	case <-ctx.Done():
		return nil, answer{http.StatusServiceUnavailable, "others are being answered: ask again"}
	}
	out := &bounded{most: mostAnswer, end: cancel}
	said := &bounded{most: 64 << 10, end: func() {}}
	program := s.o.Program
	if program == "" {
		program = "/proc/self/exe"
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdout, cmd.Stderr = out, said
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start boxdyno: %w", err)
	}
	_ = syscall.Setpriority(syscall.PRIO_PGRP, cmd.Process.Pid, 19) // it answers at another one, too
	err := cmd.Wait()
	switch {
	case out.over:
		return nil, answer{http.StatusUnprocessableEntity, "there is too much of it: choose a box or a time"}
	case within.Err() != nil:
		return nil, within.Err() // nobody reads it
	case ctx.Err() != nil:
		return nil, answer{http.StatusServiceUnavailable, "it takes too long: run boxdyno index once, and ask again"}
	case err != nil:
		text := lastWords(said.kept.Bytes())
		if text == "" {
			text = err.Error()
		}
		return nil, refused(errors.New(text))
	}
	return out.kept.Bytes(), nil
}

// tight says whether a run that goes on needs all CPUs of this machine.
func (s *Server) tight() bool {
	for _, info := range s.runs.active(locks()) {
		if dir := s.runs.find(info.ID); dir != "" {
			if run, err := result.ReadRun(dir); err == nil && needsAll(run) {
				return true
			}
		}
	}
	return false
}

// lastWords is the last line of an error, without the program's name.
func lastWords(b []byte) string {
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return strings.TrimPrefix(strings.ToValidUTF8(lines[len(lines)-1], "?"), "boxdyno: ")
}

// bounded keeps what is written, up to a number of octets; then it calls end.
// The buffer has a name: its ReadFrom would go by Write.
type bounded struct {
	kept bytes.Buffer
	most int
	over bool
	end  func()
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.kept.Len()+len(p) > b.most {
		b.over = true
		b.end()
		return len(p), nil
	}
	return b.kept.Write(p)
}
