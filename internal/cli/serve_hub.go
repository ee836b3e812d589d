// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"boxdyno/fleet/hub"
	"boxdyno/runner"
	"boxdyno/serve"
)

// A serveHub is the hub of a fleet in the process of serve.
type serveHub struct{ hub.Options }

func (s *serveHub) add(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringVar(&s.Listen, "hub", "", "`HOST:PORT` of the hub of a fleet, which runs in serve; port 0 is any (default: no hub)")
	fs.StringVar(&s.Boards, "hub-boards", "", "`URL` that the hub gives to boards (default: this machine's name and the port)")
	fs.StringVar(&s.Folder, "hub-folder", "", "`FOLDER` of the hub's keys and boards (default $XDG_STATE_HOME/boxdyno/fleet)")
}

// start starts the hub, if one is asked for, and has its boards shown. Close ends it.
func (s *serveHub) start(ctx context.Context, a *app, o *serve.Options) (end func(), err error) {
	if s.Listen == "" {
		if s.Boards != "" || s.Folder != "" {
			return nil, &runner.PlanError{At: "--hub-boards", Err: errors.New("there is no hub without --hub")}
		}
		return func() {}, nil
	}
	if s.Folder, err = fleetFolder(s.Folder); err != nil {
		return nil, err
	}
	h, err := a.StartHub(ctx, s.Options)
	if err != nil {
		return nil, err
	}
	a.note("the hub is at %s", h.URL)
	o.Fleet = func() serve.Fleet { return shownFleet(h.List()) }
	return h.Close, nil
}

// boardStates are all that a board may be in.
var boardStates = []string{"ready", "busy", "silent", "trial", "new", "cut off", "revoked"}

// shownFleet is what browsers are shown. Whom ssh reaches is not among it: reading may be
// open to everybody.
func shownFleet(all []hub.Entry, strange []hub.Stranger) serve.Fleet {
	boards := append([]hub.Entry{}, all...)
	for i := range boards {
		boards[i].SSH = ""
	}
	f := serve.Fleet{Boards: boards, Strangers: append([]hub.Stranger{}, strange...), Now: time.Now()}
	for _, name := range boardStates {
		f.States = append(f.States, serve.FleetState{Name: name})
	}
	for _, e := range all {
		if i := slices.Index(boardStates, e.State); i >= 0 {
			f.States[i].Boards++
		}
	}
	return f
}
