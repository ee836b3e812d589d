// SPDX-License-Identifier: Apache-2.0

package many

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"boxdyno/subject/mpi"
)

// What boards may give each other, octets: an answer to a board has that of all.
const (
	mostGiven = mpi.MostGiven
	mostAll   = 8 * mostGiven
)

// A gathering hands what each board gives to all of them, once each has given.
type gathering struct {
	mu     sync.Mutex
	data   [][]byte // by board; nil: it has not given
	got    int
	octets int
	full   chan struct{} // closed once all have given
	gone   chan struct{} // closed once a board is
	why    error
	failed []bool // boards that were refused because of another one

	refusals []refusal // of each board, for what it gave
}

// A refusal is how often what a board gave was refused, and why the last time.
type refusal struct {
	times int
	why   string
}

func newGathering(boards int) *gathering {
	return &gathering{data: make([][]byte, boards), full: make(chan struct{}), gone: make(chan struct{}), failed: make([]bool, boards), refusals: make([]refusal, boards)}
}

// give is board i's: it returns what all have given.
func (g *gathering) give(ctx context.Context, i int, mine []byte) ([][]byte, int, error) {
	g.mu.Lock()
	why := ""
	switch {
	case g.data[i] != nil:
		why = "it gives twice what others have given once"
	case len(mine) > mostGiven:
		why = fmt.Sprintf("it gives the others %d octets at once, and %d are the most", len(mine), mostGiven)
	case g.octets+len(mine) > mostAll:
		why = fmt.Sprintf("with the %d octets that it gives, all boards give more than %d", len(mine), mostAll)
	}
	if why != "" {
		defer g.mu.Unlock()
		g.refusals[i] = refusal{g.refusals[i].times + 1, why}
		return nil, 0, errors.New(why)
	}
	g.octets += len(mine)
	g.data[i] = append([]byte{}, mine...)
	full, all := g.full, g.data
	if g.got++; g.got == len(g.data) { // the next round is another one
		close(full)
		g.data, g.got, g.octets, g.full = make([][]byte, len(g.data)), 0, 0, make(chan struct{})
	}
	g.mu.Unlock()
	select {
	case <-full:
		return all, i, nil
	case <-g.gone:
		g.mu.Lock()
		defer g.mu.Unlock()
		select {
		case <-full: // before the other one left
			return all, i, nil
		default:
		}
		g.failed[i] = true
		return nil, 0, g.why
	case <-ctx.Done():
		return nil, 0, ctx.Err()
	}
}

// leave ends it: board name takes part no more.
func (g *gathering) leave(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.why == nil {
		g.why = fmt.Errorf("board %s takes part no more", name)
		close(g.gone)
	}
}

// refused says whether board i was, because of another one.
func (g *gathering) refused(i int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.failed[i]
}

// refusal is what of board i was refused; "": nothing was.
func (g *gathering) refusal(i int) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch r := g.refusals[i]; r.times {
	case 0:
		return ""
	case 1:
		return r.why
	default:
		return fmt.Sprintf("%s; %d of its answers were refused", r.why, r.times)
	}
}
