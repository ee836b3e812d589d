// SPDX-License-Identifier: Apache-2.0

package many

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// What boards may give each other, octets: an answer to a board has that of all.
const (
	mostGiven = 64 << 10
	mostAll   = 512 << 10
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
}

func newGathering(boards int) *gathering {
	return &gathering{data: make([][]byte, boards), full: make(chan struct{}), gone: make(chan struct{}), failed: make([]bool, boards)}
}

// give is board i's: it returns what all have given.
func (g *gathering) give(ctx context.Context, i int, mine []byte) ([][]byte, int, error) {
	g.mu.Lock()
	g.octets += len(mine)
	switch {
	case g.data[i] != nil:
		defer g.mu.Unlock()
		return nil, 0, errors.New("it gives twice what others have given once")
	case len(mine) > mostGiven || g.octets > mostAll:
		defer g.mu.Unlock()
		return nil, 0, fmt.Errorf("what the boards tell each other has more than %d octets, or %d of one", mostAll, mostGiven)
	}
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
