// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"os"

	"boxdyno/host"
	"boxdyno/internal/netns"
	"boxdyno/result"
)

// mostPorts are on a tester's cables.
const mostPorts = 8

// readReceive has no Receive at first.
func (s *Session) readReceive(_ context.Context, ports []string) (w result.DUTWork, err error) {
	now, err := (&host.Local{}).Receiving()
	if err != nil {
		return w, err
	}
	s.mu.Lock()
	before := s.received
	s.received = &now
	s.mu.Unlock()
	if before != nil {
		w.Receive = now.Since(*before)
	}
	_ = netns.DoSys("", func(sys *os.Root) error { // who may not see it leaves that out
		for _, p := range ports[:min(len(ports), mostPorts)] {
			w.State = append(w.State, host.QueueState(sys.FS(), p)...)
		}
		return nil
	})
	w.State = append(w.State, host.ConnectionState(os.DirFS("/"))...)
	return w, nil
}
