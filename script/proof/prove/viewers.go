// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"boxdyno/internal/guard"
	"boxdyno/result"
	"boxdyno/stat"
)

// Three viewers look at a run; what boxdyno serve may take of one core for them.
const (
	viewersAtOnce = 3
	viewersCost   = 0.005
)

// watchers measures throughput n times with three viewers of boxdyno serve and n times without,
// in pairs in shuffled order, and returns how many of its claims fail: the median with viewers
// lies within the interval of the runs without, and serve takes no more than it may. On a
// machine whose CPUs the run needs all, serve reads seldom; so its cost is also that of a run
// on one CPU, which it reads twice a second.
func watchers(ctx context.Context, binary, dir string, n int, seed uint64) (failed int, err error) {
	s, err := startServe(ctx, binary, filepath.Join(dir, "viewed"))
	if err != nil {
		return 0, err
	}
	defer s.end()
	random := rand.New(rand.NewPCG(seed, 3))
	rates := map[bool][]float64{}
	var split, one cost
	for i := range n {
		first := random.IntN(2) == 0
		for _, viewed := range []bool{first, !first} {
			id := fmt.Sprintf("%d-%t", i, viewed)
			c, err := s.run(ctx, id, viewed, "--set", "service=route")
			if err != nil {
				return 0, err
			}
			rate, err := throughputOf(filepath.Join(s.runs, id))
			if err != nil {
				return 0, err
			}
			if rate > 0 { // else the run is invalid, and says why
				rates[viewed] = append(rates[viewed], rate)
			}
			if viewed {
				split.add(c)
			}
		}
		c, err := s.run(ctx, fmt.Sprintf("%d-one", i), true, "--set", "placement=shared", "--set", "search=none", "--repeat", "6")
		if err != nil {
			return 0, err
		}
		one.add(c)
	}
	fmt.Printf("%d viewers at 10 Hz, seed %d: serve took %.2f %% of a core in %.0f s of runs that need all CPUs, and %.2f %% in %.0f s of runs on one\n",
		viewersAtOnce, seed, 100*split.share(), split.wall, 100*one.share(), one.wall)
	for _, c := range []cost{split, one} {
		if c.share() >= viewersCost {
			failed++
		}
	}
	if len(rates[true]) < 2 || len(rates[false]) < 2 {
		fmt.Printf("FAILED: of %d runs of each kind %d with viewers and %d without are valid: does anything else run here?\n\n", n, len(rates[true]), len(rates[false]))
		return failed + 1, nil
	}
	with, without := stat.Summarize(rates[true]), stat.Summarize(rates[false])
	fmt.Printf("throughput is %.0f frame/s in %d runs with viewers (%.0f to %.0f), and %.0f in %d without (%.0f to %.0f)\n\n",
		with.Center, len(rates[true]), with.Lo, with.Hi, without.Center, len(rates[false]), without.Lo, without.Hi)
	if with.Center < without.Lo || with.Center > without.Hi {
		failed++
	}
	return failed, nil
}

// A cost is CPU time of boxdyno serve while runs went on, in seconds.
type cost struct{ cpu, wall float64 }

func (c *cost) add(o cost)    { c.cpu, c.wall = c.cpu+o.cpu, c.wall+o.wall }
func (c cost) share() float64 { return c.cpu / max(c.wall, 1e-9) }

// throughputOf is the throughput of a run's one point; 0: it is invalid.
func throughputOf(dir string) (float64, error) {
	_, recs, err := result.Open(dir)
	if err != nil {
		return 0, err
	}
	for _, r := range recs {
		if v := r.Value("throughput_fps"); v != nil && r.Parent == "" && r.Status == result.Passed {
			return v.Value, nil
		}
	}
	return 0, nil
}

// A server is boxdyno serve, for the runs in a folder.
type server struct {
	binary, runs, address string
	cmd                   *exec.Cmd
}

func startServe(ctx context.Context, binary, runs string) (*server, error) {
	if err := os.MkdirAll(runs, 0o755); err != nil {
		return nil, err
	}
	s := &server{binary: binary, runs: runs, cmd: exec.CommandContext(ctx, binary, "serve", "--listen", "127.0.0.1:0", "--runs", runs)}
	s.cmd.Stderr = os.Stderr
	said, err := s.cmd.StdoutPipe()
	if err == nil {
		err = s.cmd.Start()
	}
	if err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(said).ReadString('\n')
	if err != nil {
		s.end()
		return nil, fmt.Errorf("boxdyno serve does not say where it listens: %w", err)
	}
	s.address, _, _ = strings.Cut(strings.TrimSpace(line), "#")
	return s, nil
}

func (s *server) end() {
	_ = s.cmd.Process.Signal(unix.SIGTERM)
	_ = s.cmd.Wait() // it has no result
}

// run measures, with viewers or without, and returns what serve took meanwhile.
func (s *server) run(ctx context.Context, id string, viewed bool, more ...string) (c cost, err error) {
	ctx, end := context.WithCancel(ctx)
	var viewers guard.Group
	defer viewers.Wait()
	defer end()
	seen := make(chan error, viewersAtOnce)
	if viewed {
		for range viewersAtOnce {
			viewers.Go(func() { seen <- s.view(ctx, id) })
		}
	}
	before, err := s.spent()
	if err != nil {
		return c, err
	}
	took, err := timed(ctx, s.binary, slices.Concat([]string{"run", "forward", "--quick", "--quiet", "--telemetry", "10", "--set", "frame_size=64", "--out", filepath.Join(s.runs, id)}, more)...)
	if err != nil {
		return c, err
	}
	after, err := s.spent()
	if err != nil {
		return c, err
	}
	end()
	for range viewersAtOnce {
		if !viewed {
			break
		}
		if err := <-seen; err != nil {
			return c, fmt.Errorf("a viewer: %w", err)
		}
	}
	return cost{after - before, took.Seconds()}, nil
}

// view reads the events of a run until ctx ends. It is an error that telemetry was not among
// them.
func (s *server) view(ctx context.Context, id string) error {
	for ; ctx.Err() == nil; time.Sleep(100 * time.Millisecond) {
		if _, err := os.Stat(filepath.Join(s.runs, id, result.TrialsFile)); err != nil {
			continue // a page waits for the run in one connection
		}
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.address+"api/events?run="+url.QueryEscape(id), nil)
		if err != nil {
			return err
		}
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			break
		}
		if res.StatusCode == http.StatusNotFound { // the run is yet to begin
			res.Body.Close()
			continue
		}
		events := bufio.NewReaderSize(res.Body, 1<<20)
		telemetry := 0
		for {
			line, err := events.ReadSlice('\n')
			if strings.HasPrefix(string(line), "event: telemetry") {
				telemetry++
			}
			if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
				res.Body.Close()
				if telemetry == 0 {
					return fmt.Errorf("no telemetry of %s came: %w", id, err)
				}
				if errors.Is(err, io.EOF) {
					return fmt.Errorf("serve ended the connection of %s", id)
				}
				return nil
			}
		}
	}
	return fmt.Errorf("the run %s was not seen", id)
}

// spent is the CPU time of serve and of the processes that it has waited for, in seconds.
func (s *server) spent() (float64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
	sum := 0.0
	for _, f := range fields[11:15] { // utime, stime, cutime, cstime
		v, err := strconv.ParseFloat(f, 64)
		if err != nil {
			return 0, err
		}
		sum += v
	}
	return sum / 100, nil // USER_HZ
}
