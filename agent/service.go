// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"

	"boxdyno/service"
)

// ManageArgs are the ports that are set up for services.
type ManageArgs struct {
	Ports []service.Port `json:"ports"`
}

// ManageReply is what could not be set up, in sentences, and how flows of two ports would be
// spread over all CPUs (service.Machine.AllCPUs).
type ManageReply struct {
	Warnings []string `json:"warnings,omitempty"`
	AllCPUs  string   `json:"all_cpus,omitempty"`
}

// leastBits are the shortest prefixes of addresses, by whether these are of IPv4.
var leastBits = map[bool]int{true: 8, false: 32}

var errNotManaged = errors.New("no ports are set up for services")

// manage sets ports up until the connection ends.
func (s *Session) manage(ctx context.Context, a ManageArgs) (ManageReply, error) {
	if len(a.Ports) < 1 || len(a.Ports) > 2 {
		return ManageReply{}, errors.New("services need one port or two")
	}
	for _, p := range a.Ports {
		if len(p.Hops) != len(p.Addresses) {
			return ManageReply{}, errors.New("each address needs a hop of the tester")
		}
		for _, a := range p.Addresses {
			if least := leastBits[a.Addr().Is4()]; a.Bits() < least {
				return ManageReply{}, fmt.Errorf("address %v of %s: its network would have the machine's other traffic: want /%d or longer", a, p.Name, least)
			}
		}
	}
	s.managing.Lock()
	defer s.managing.Unlock()
	if s.managed() != nil || s.gateway != nil {
		return ManageReply{}, errors.New("ports are set up for services already, or as a gateway")
	}
	m, err := service.Manage(ctx, "", a.Ports, "agent")
	if err != nil {
		return ManageReply{}, err
	}
	s.atEnd(m.Close)
	s.mu.Lock()
	s.machine = m
	s.mu.Unlock()
	reply := ManageReply{Warnings: m.Warnings}
	if len(a.Ports) == 2 {
		if reply.AllCPUs, err = m.AllCPUs(); err != nil {
			reply.Warnings = append(reply.Warnings, "how flows come to all CPUs is not known: "+err.Error())
		}
	}
	return reply, nil
}

func (s *Session) managed() *service.Machine {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.machine
}

func (s *Session) setService(ctx context.Context, a service.Service) (None, error) {
	s.managing.Lock()
	defer s.managing.Unlock()
	m := s.managed()
	if m == nil {
		return None{}, errNotManaged
	}
	return None{}, m.Set(ctx, a)
}

func (s *Session) unmanage(context.Context, None) (None, error) {
	s.managing.Lock()
	defer s.managing.Unlock()
	s.mu.Lock()
	m := s.machine
	s.machine = nil
	s.mu.Unlock()
	if m == nil {
		return None{}, errNotManaged
	}
	return None{}, m.Close()
}
