// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"boxdyno/fleet"
	"boxdyno/internal/guard"
)

// What commands ask the hub for; no board may.
const (
	askPrefix   = "fleet-hub.ask."
	goneSubject = "fleet-hub.gone" // the key of a board that was revoked
	page        = 200              // boards of one answer, which has less than fleet.MaxMessage octets
)

// An Entry is a board and how it is.
type Entry struct {
	Board
	State      string        `json:"state"` // ready, busy, silent, trial, cut off, revoked, new
	Version    string        `json:"version,omitempty"`
	Arch       string        `json:"arch,omitempty"`
	Epoch      string        `json:"epoch,omitempty"` // of the agent's start
	Seen       time.Time     `json:"seen,omitzero"`
	Clock      time.Duration `json:"clock_ns"`                 // its wall clock is ahead of the hub's by so much
	ClockError time.Duration `json:"clock_error_ns,omitempty"` // at most so far off is that; 0: not known
	Celsius    float64       `json:"temperature_celsius,omitempty"`
	Throttles  int64         `json:"throttles,omitempty"`
	States     uint64        `json:"states,omitempty"`      // that were heard since the hub began
	Lost       uint64        `json:"states_lost,omitempty"` // that were not
	Refused    uint64        `json:"refused,omitempty"`     // orders
	Why        string        `json:"why,omitempty"`         // the last sentence on it
}

type listed struct {
	Boards  []Entry    `json:"boards"`
	All     int        `json:"all"`
	Strange []Stranger `json:"strangers,omitempty"`
	Failure string     `json:"failure,omitempty"`
	Tokens  []string   `json:"tokens,omitempty"`
	URL     string     `json:"url,omitempty"`
}

// answer answers a command.
func (h *Hub) answer(m *nats.Msg) {
	var out listed
	err := func() error {
		h.mu.Lock()
		defer h.mu.Unlock()
		switch strings.TrimPrefix(m.Subject, askPrefix) {
		case "list":
			var from int
			if err := json.Unmarshal(m.Data, &from); err != nil {
				return err
			}
			all := h.entries()
			out.All = len(all)
			out.Boards = all[min(max(from, 0), len(all)):min(max(from, 0)+page, len(all))]
			out.Strange = h.strange
		case "token":
			var a TokenArgs
			if err := json.Unmarshal(m.Data, &a); err != nil {
				return err
			}
			var hub [32]byte
			copy(hub[:], publicBytes(h.k.issuer))
			var err error
			out.URL = h.w.Boards
			out.Tokens, err = h.reg.token(a, h.pin, hub, time.Now())
			return err
		case "revoke":
			var name string
			if err := json.Unmarshal(m.Data, &name); err != nil {
				return err
			}
			b, err := h.reg.revoke(name, time.Now())
			if err != nil {
				return err
			}
			h.o.Note(fmt.Sprintf("board %s was revoked", name))
			var at connection
			if p := h.live[b.Key]; p != nil {
				at = p.at
			}
			delete(h.live, b.Key)
			guard.Go(func() { h.kick(b, at) })
			return h.nc.Publish(goneSubject, []byte(b.Key))
		default:
			return fmt.Errorf("the hub answers no %q", m.Subject)
		}
		return nil
	}()
	if err != nil {
		out.Failure = err.Error()
	}
	data, err := json.Marshal(out)
	if err == nil {
		err = m.Respond(data)
	}
	if err != nil {
		h.o.Note(fmt.Sprintf("a command is not answered: %v", err))
	}
}

// List is all boards, and who was refused besides.
func (h *Hub) List() (all []Entry, strange []Stranger) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.entries(), slices.Clone(h.strange)
}

// entries are all boards, those that were revoked last.
func (h *Hub) entries() (all []Entry) {
	for _, b := range h.reg.boards {
		e := Entry{Board: *b, State: "new"}
		if p := h.live[b.Key]; p != nil {
			e.Version, e.Arch, e.Epoch, e.Seen = p.hello.Version, p.hello.Arch, p.hello.Epoch, p.heard
			e.Clock, e.ClockError, e.Celsius, e.Throttles = p.clock, p.clockError, p.state.Temperature, p.state.Throttles
			e.States, e.Lost, e.Refused, e.Why = p.states, p.lost, p.state.Refused, p.why
			switch {
			case time.Now().Before(p.until):
				e.State = "cut off"
			case p.hello.Epoch == "" || !p.state.Welcome:
			case time.Since(p.heard) > fleet.Silence:
				e.State = "silent"
			case p.hello.Trial:
				e.State = "trial"
			case len(p.state.Sessions) > 0:
				e.State = "busy"
			default:
				e.State = "ready"
			}
			if p.hello.Epoch != "" && p.hello.Protocol != fleet.Protocol {
				e.Why = fmt.Sprintf("it speaks protocol %d, and this hub %d: install the same version there", p.hello.Protocol, fleet.Protocol)
			}
		}
		if !b.Revoked.IsZero() {
			e.State = "revoked"
		}
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b Entry) int {
		return cmp.Or(a.Revoked.Compare(b.Revoked), strings.Compare(a.Name, b.Name), strings.Compare(a.Key, b.Key))
	})
	return all
}
