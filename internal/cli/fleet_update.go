// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"boxdyno/agent"
	"boxdyno/fleet/hub"
	"boxdyno/host"
	"boxdyno/internal/files"
	"boxdyno/internal/guard"
	"boxdyno/lab"
	"boxdyno/runner"
)

// A fleetUpdating is what fleet update was asked for.
type fleetUpdating struct {
	file   string
	waves  string
	within time.Duration
	older  bool
	atOnce int

	programs map[string][]byte // by architecture

	mu    sync.Mutex
	asked time.Time
	all   []hub.Entry // as the hub said then
}

// list is what the hub said of its boards just now.
func (u *fleetUpdating) list(ctx context.Context, fl *hub.Fleet) (all []hub.Entry, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if time.Since(u.asked) > 300*time.Millisecond {
		if u.all, _, err = fl.List(ctx); err == nil {
			u.asked = time.Now()
		}
	}
	return u.all, err
}

func (a *app) fleetUpdate() *cobra.Command {
	var f fleetFlag
	var u fleetUpdating
	cmd := &cobra.Command{
		Use: "update [BOARD...]", Short: "Install this version's agent on boards, in waves",
		Long: `Update sends boards the agent of this version, by orders that the hub's key has signed.
A board keeps its own program until the hub has greeted the new one. If that crashes or
is not greeted in time, the board goes on with its own, and says why. Boards are updated
in waves, side by side within one; after a wave with a failure no other begins.

A board takes updates if it joined with --allow update, is not busy, and its agent is not
a Debian package's. Names, group=NAME and all select boards; without one, all are meant.`,
		Example: `  boxdyno fleet update
  boxdyno fleet update group=rack1 --waves 1,25%,all
  boxdyno fleet update pi1 pi2 --within 3m`,
		Args: cobra.ArbitraryArgs,
	}
	cmd.ValidArgsFunction = f.boardNames
	cmd.RunE = do(func(ctx context.Context, args []string) error {
		switch {
		case u.atOnce < 1:
			return &runner.PlanError{At: "--at-once", Err: errors.New("want 1 or more")}
		case u.within < time.Second || u.within > 10*time.Minute:
			return &runner.PlanError{At: "--within", Err: fmt.Errorf("%v: want 1s to 10m", u.within)}
		}
		if _, err := parseWaves(u.waves, 1); err != nil {
			return &runner.PlanError{At: "--waves", Err: err}
		}
		if len(args) == 0 {
			args = []string{"all"}
		}
		return f.with(func(fl *hub.Fleet) error {
			all, _, err := fl.List(ctx)
			if err != nil {
				return err
			}
			chosen, err := hub.Select(all, args)
			if err != nil {
				return &runner.PlanError{Err: err}
			}
			return a.updateBoards(ctx, fl, &u, chosen)
		})
	})
	f.add(cmd)
	fs := cmd.Flags()
	fs.StringVar(&u.waves, "waves", "1,10%,all", "`SIZES` of the waves, as boards or shares of all boards; the last one takes all that are left")
	fs.DurationVar(&u.within, "within", time.Minute, "`time` within which the hub must greet a new program")
	fs.BoolVar(&u.older, "older", false, "also in the place of a newer version, or of one whose age is not known")
	fs.StringVar(&u.file, "agent", "", "`FILE` of the agent, where it is elsewhere")
	fs.IntVar(&u.atOnce, "at-once", 16, "`N` boards that are updated side by side")
	return cmd
}

// parseWaves is how many boards each wave has, of so many.
func parseWaves(text string, boards int) (waves []int, err error) {
	left := boards
	for part := range strings.SplitSeq(text, ",") {
		n := left
		share, isShare := strings.CutSuffix(part, "%")
		switch {
		case part == "all":
		case isShare:
			x, err := strconv.ParseFloat(share, 64)
			if err != nil || !(x > 0 && x <= 100) {
				return nil, fmt.Errorf("%q: want a share above 0 %% and at most 100 %%", part)
			}
			n = int(math.Ceil(x / 100 * float64(boards)))
		default:
			if n, err = strconv.Atoi(part); err != nil || n < 1 {
				return nil, fmt.Errorf("%q: want a number of boards, a share such as 10%%, or all", part)
			}
		}
		if n = min(n, left); n > 0 {
			waves, left = append(waves, n), left-n
		}
	}
	if left > 0 {
		waves = append(waves, left)
	}
	return waves, nil
}

// updateBoards updates boards in waves, and prints what became of each.
func (a *app) updateBoards(ctx context.Context, fl *hub.Fleet, u *fleetUpdating, chosen []hub.Entry) error {
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	var todo []hub.Entry
	away := 0
	for _, e := range chosen {
		switch {
		case e.State != "ready" && e.State != "busy":
			away++
			row(w, e.Name, "left out: it is "+e.State)
		case e.Version == Version():
			row(w, e.Name, "has "+e.Version+" already")
		default:
			todo = append(todo, e)
		}
	}
	todo, without, err := u.load(todo)
	if err != nil {
		return err
	}
	for _, x := range without {
		row(w, x.Name, "left out: "+sentence(x.why))
	}
	waves, err := parseWaves(u.waves, len(todo))
	if err != nil {
		return err
	}
	failed, first := 0, ""
	for i, n := range waves {
		if failed > 0 || ctx.Err() != nil {
			break
		}
		wave := todo[:n]
		todo = todo[n:]
		said, errs := make([]string, n), make([]error, n)
		var group guard.Group
		turn := make(chan struct{}, u.atOnce)
		for j, e := range wave {
			group.Go(func() {
				turn <- struct{}{}
				defer func() { <-turn }()
				if errs[j] = ctx.Err(); errs[j] == nil {
					said[j], errs[j] = u.one(ctx, fl, e)
				}
				if errs[j] != nil {
					said[j] = sentence(errs[j])
				}
				if !a.quiet {
					a.note("wave %d of %d: %s: %s", i+1, len(waves), cell(e.Name), cell(said[j]))
				}
			})
		}
		group.Wait()
		for j, e := range wave {
			row(w, e.Name, said[j])
			if errs[j] != nil {
				if failed++; first == "" {
					first = e.Name
				}
			}
		}
	}
	for _, e := range todo {
		row(w, e.Name, "left as it is, with "+e.Version)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case failed > 0:
		return fmt.Errorf("%d boards were not updated, of which %s is the first; %d more were left as they are: see the lines above", failed, first, len(todo))
	case len(without) > 0:
		return &host.Missing{What: fmt.Sprintf("an agent for %d of %d boards, of which %s is the first", len(without), len(chosen), without[0].Name), Hint: "see the lines above"}
	case away > 0:
		return &host.Missing{What: fmt.Sprintf("%d of %d boards", away, len(chosen)), Hint: "see boxdyno fleet ls, then run the command again"}
	}
	return nil
}

// An agentless is a board for which there is no agent here.
type agentless struct {
	hub.Entry
	why error
}

// load reads the agents for boards. A board whose architecture has none is left out.
func (u *fleetUpdating) load(boards []hub.Entry) (with []hub.Entry, without []agentless, err error) {
	u.programs = map[string][]byte{}
	for _, e := range boards {
		file := u.file
		if file == "" {
			if file, err = lab.AgentFile(e.Arch); err != nil {
				without = append(without, agentless{e, err})
				continue
			}
		}
		if u.programs[e.Arch] == nil {
			if u.programs[e.Arch], err = files.Read(file, lab.MostAgent); err != nil {
				return nil, nil, fmt.Errorf("read the agent: %w", err)
			}
		}
		with = append(with, e)
	}
	return with, without, nil
}

// sending is how long a board may take for the program.
const sending = 15 * time.Minute

// one updates a board, and says how.
func (u *fleetUpdating) one(ctx context.Context, fl *hub.Fleet, e hub.Entry) (said string, err error) {
	begin := time.Now()
	program := u.programs[e.Arch]
	sum := sha256.Sum256(program)
	update := agent.Update{Version: Version(), Arch: e.Arch, SHA256: hex.EncodeToString(sum[:]), Size: int64(len(program)), Older: u.older, Within: u.within}
	if err := send(ctx, fl, e, update, program); err != nil {
		return "", err
	}
	// The board tells of itself: first the program on trial, then the one that stays.
	for late := time.Now().Add(u.within + time.Minute); time.Now().Before(late); {
		if err := host.Pause(ctx, 300*time.Millisecond); err != nil {
			return "", err
		}
		all, err := u.list(ctx, fl)
		if err != nil {
			return "", err
		}
		for _, now := range all {
			if now.Key != e.Key || now.Epoch == e.Epoch {
				continue
			}
			switch {
			case now.State == "revoked":
				return "", errors.New("it was revoked meanwhile")
			case now.State != "ready" && now.State != "busy":
			case now.Version == update.Version:
				return fmt.Sprintf("%s in the place of %s, after %v", now.Version, e.Version, time.Since(begin).Round(100*time.Millisecond)), nil
			case now.Why != "":
				return "", errors.New(now.Why)
			default:
				return "", fmt.Errorf("it came back with %s", now.Version)
			}
		}
	}
	return "", fmt.Errorf("it did not come back within %v", u.within+time.Minute)
}

// send hands a program to a board, which tries it once the session has ended.
func send(ctx context.Context, fl *hub.Fleet, e hub.Entry, update agent.Update, program []byte) (err error) {
	ctx, cancel := context.WithTimeout(ctx, sending)
	defer cancel()
	c, err := fl.Dial(ctx, e)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if _, err := agent.UpdateCheck.Call(ctx, c, update); err != nil {
		return err
	}
	if _, err := agent.Hold.Call(ctx, c, agent.HoldArgs{Boot: (&host.Local{}).Identify().BootID}); err != nil {
		return err
	}
	if err := agent.PutProgram(ctx, c, bytes.NewReader(program)); err != nil {
		return err
	}
	_, err = agent.UpdateApply.Call(ctx, c, update)
	return err
}
