// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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
	fs.StringVar(&s.Listen, "hub", "", "`HOST:PORT` that the hub of a fleet listens at, or the URL of another NATS server for it; port 0 is any (default: no hub)")
	fs.StringVar(&s.CA, "hub-ca", "", "`FILE` of the certificate of that other server, or of its authority (default: the system's authorities)")
	fs.StringVar(&s.Boards, "hub-boards", "", "`URL` that the hub gives to boards (default: this machine's name and the port, or the other server's URL)")
	fs.StringVar(&s.Folder, "hub-folder", "", "`FOLDER` of the hub's keys and boards (default $XDG_STATE_HOME/boxdyno/fleet)")
}

// start starts the hub, if one is asked for, and has its boards shown. Close ends it.
func (s *serveHub) start(ctx context.Context, a *app, o *serve.Options) (end func(), err error) {
	if s.Listen == "" {
		if s.Boards != "" || s.Folder != "" || s.CA != "" {
			return nil, &runner.PlanError{At: "--hub-boards", Err: errors.New("there is no hub without --hub")}
		}
		return func() {}, nil
	}
	if strings.Contains(s.Listen, "://") {
		s.URL, s.Listen = s.Listen, ""
	} else if s.CA != "" {
		return nil, &runner.PlanError{At: "--hub-ca", Err: fmt.Errorf("the hub at %s has a certificate of its own: give the URL of another NATS server as --hub", s.Listen)}
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
