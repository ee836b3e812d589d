// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"

	"boxdyno/internal/cables"
)

// CablesArgs begin a search for cables.
type CablesArgs struct {
	Nonce string `json:"nonce"` // of the search; "": nothing is sent, changed or heard
}

// CablesState is what a search sees so far.
type CablesState struct {
	Ports []cables.Port  `json:"ports"`
	Heard []cables.Heard `json:"heard,omitempty"`
}

var errNoSearch = errors.New("no search for cables is open")

// openCables begins a search, or only lists the ports.
func (s *Session) openCables(ctx context.Context, a CablesArgs) (CablesState, error) {
	if a.Nonce == "" {
		ports, err := cables.Ports("")
		return CablesState{Ports: ports}, err
	}
	s.looking.Lock()
	defer s.looking.Unlock()
	if _, err := s.searching(); err == nil {
		return CablesState{}, errors.New("a search for cables is open already")
	}
	search, err := cables.Open(ctx, "", a.Nonce, cables.Box)
	if err != nil {
		return CablesState{}, err
	}
	s.atEnd(search.Close)
	s.mu.Lock()
	s.search = search
	s.mu.Unlock()
	return s.seeCables(ctx, None{})
}

func (s *Session) searching() (*cables.Search, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.search == nil {
		return nil, errNoSearch
	}
	return s.search, nil
}

func (s *Session) seeCables(context.Context, None) (CablesState, error) {
	search, err := s.searching()
	if err != nil {
		return CablesState{}, err
	}
	ports, err := search.Ports()
	return CablesState{ports, search.Heard()}, err
}

func (s *Session) sendCables(context.Context, None) (None, error) {
	search, err := s.searching()
	if err != nil {
		return None{}, err
	}
	return None{}, search.Send()
}

func (s *Session) closeCables(context.Context, None) (None, error) {
	s.mu.Lock()
	search := s.search
	s.search = nil
	s.mu.Unlock()
	if search == nil {
		return None{}, errNoSearch
	}
	return None{}, search.Close()
}
