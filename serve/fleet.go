// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"net/http"
	"time"
)

// A Fleet is the boards of a hub, as boxdyno fleet ls --json has them.
type Fleet struct {
	Boards    any       `json:"boards"`
	Strangers any       `json:"strangers"` // clients that were refused
	Now       time.Time `json:"now"`       // by the hub's clock

	States []FleetState `json:"-"`
}

// A FleetState is how many boards are in a state.
type FleetState struct {
	Name   string
	Boards int
}

// fleet is GET /api/fleet. Nothing of a fleet is changed here.
func (s *Server) fleet(w http.ResponseWriter, r *http.Request) error {
	if err := checked(r.URL.Query(), nil); err != nil {
		return err
	}
	if s.o.Fleet == nil {
		return answer{http.StatusNotFound, "this server has no hub: start it with --hub"}
	}
	return reply(w, s.o.Fleet())
}
