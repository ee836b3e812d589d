// SPDX-License-Identifier: Apache-2.0

package far

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"boxdyno/agent"
	"boxdyno/result"
)

// A witness is what the other board of a pair has counted at its port in a trial. The tester hears it
// from that board, as it passes by, and so has two accounts of the same frames:
//
//	board A: procedure --- outcome: so many came back -----------> tester
//	board B: counters  --- ledger.read, on its way to board A ---> tester
type witness struct {
	read   bool
	first  map[string]uint64 // by counter
	latest map[string]uint64
}

// Watch begins a trial: what is heard from now on is of it.
func (p *Pair) Watch() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.witness = witness{}
}

// Hear notes a reading of the other board's counters.
func (p *Pair) Hear(raw json.RawMessage) {
	var r agent.LedgerReading
	if json.Unmarshal(raw, &r) != nil {
		return // who asked says so
	}
	counts := map[string]uint64{}
	for _, t := range r.Tallies {
		if _, counter, ok := strings.Cut(t.Term.From, " "); ok && t.Term.Place == result.DUTNIC && t.Passed {
			counts[counter] = t.Value
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if w := &p.witness; !w.read {
		w.read, w.first = true, counts
	}
	p.witness.latest = counts
}

// A port counts frames of others, too, and a driver may count late: so many more, and that share.
const slackFrames, slackShare = 64, 0.05

// tardy is longer than drivers take that bring their counters up to date now and then: once a second.
var tardy = 1500 * time.Millisecond

// Contradiction says how a trial's account is in contradiction to what the other board has counted
// since Watch: from is the name of the board whose account it is. "": it is not, as far as is known.
// Which of the two is wrong nobody can say. Before it says so, it reads the counters once more.
func (p *Pair) Contradiction(ctx context.Context, from string, a *result.Account) string {
	why := p.contradiction(from, a)
	if why == "" || !p.readAgain(ctx) {
		return why
	}
	return p.contradiction(from, a)
}

// readAgain hears the other board's counters once more, after tardy; false: they were not read, or are
// not open any more.
func (p *Pair) readAgain(ctx context.Context) bool {
	id, open := 0, false
	p.mu.Lock()
	for b := range p.begun {
		if b.end == string(agent.LedgerClose) {
			id, open = b.id, p.witness.read
		}
	}
	p.mu.Unlock()
	if !open {
		return false
	}
	select {
	case <-time.After(tardy):
	case <-ctx.Done():
		return false
	}
	var raw json.RawMessage
	if p.Conn.Call(ctx, string(agent.LedgerRead), id, &raw) != nil {
		return false
	}
	p.Hear(raw)
	return true
}

func (p *Pair) contradiction(from string, a *result.Account) string {
	if a == nil || a.Received-a.Duplicate <= 0 {
		return ""
	}
	p.mu.Lock()
	w := p.witness
	p.mu.Unlock()
	claimed, to := a.Received-a.Duplicate, p.Conn.Name
	if !w.read {
		return fmt.Sprintf("%s says where %d frames went, and has not asked %s for its counters", from, a.Accepted, to)
	}
	counter, came, went := "rx_packets", "were counted there", "coming in"
	if p.Routes {
		counter, came, went = "tx_packets", "came back from there", "going out"
	}
	before, known := w.first[counter]
	now, still := w.latest[counter]
	if !known || !still || now < before {
		return ""
	}
	if n := float64(now - before); float64(claimed) > n*(1+slackShare)+slackFrames {
		return fmt.Sprintf("%s and %s contradict each other: %s says that %d frames %s, and the port of %s counted %.0f %s", from, to, from, claimed, came, to, n, went)
	}
	return ""
}
