// SPDX-License-Identifier: Apache-2.0

package xdp

import (
	"context"
	"errors"
	"fmt"
	"time"

	"boxdyno/engine/internal/bpf"
	"boxdyno/engine/internal/ports"
	"boxdyno/internal/netns"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// A senderKind is what a sender's program is specialized for.
type senderKind struct {
	Pace
	ipv6, mixed, networked, tagged bool
	lanes                          uint32
}

// A Program is a loaded sender, of specs or of a source.
type Program struct {
	Coll  *ebpf.Collection
	prog  *ebpf.Program
	sched *ebpf.Variable
}

// sender loads each kind once: that takes longer than a short trial's snapshots.
func (t *Transmitter) sender(k senderKind) (*Program, error) {
	if p := t.senders[k]; p != nil {
		return p, nil
	}
	p, err := k.load()
	if err == nil {
		t.senders[k] = p
	}
	return p, err
}

func (k senderKind) load() (*Program, error) {
	spec, err := loadSender()
	if err != nil {
		return nil, fmt.Errorf("read the sender's program: %w", err)
	}
	if err := errors.Join(k.Specialize(spec), setVariables(spec, map[string]any{
		senderVarIpv6: k.ipv6, senderVarMixed: k.mixed, senderVarNetworked: k.networked, senderVarTagged: k.tagged, senderVarLanes: k.lanes,
	})); err != nil {
		return nil, err
	}
	delete(spec.Programs, senderProgRedirectErr)
	delete(spec.Programs, senderProgDevmapXmit)
	return LoadProgram(spec, senderProgSend, nil)
}

// LoadProgram loads the sender prog of spec, with maps in place of its own.
func LoadProgram(spec *ebpf.CollectionSpec, prog string, maps map[string]*ebpf.Map) (*Program, error) {
	coll, err := bpf.Load(spec, maps)
	if err != nil {
		return nil, bpf.Refused("load the sender", err)
	}
	return &Program{coll, coll.Programs[prog], coll.Variables[senderVarSched]}, nil
}

// state is where the schedule stands.
func (p *Program) state() (s senderSchedule, err error) {
	if err := p.sched.Get(&s); err != nil {
		return s, fmt.Errorf("read the sender's schedule: %w", err)
	}
	return s, nil
}

func (p *Program) done() bool {
	s, err := p.state()
	return err == nil && s.Done != 0
}

// pollEvery is how often a load without a source is looked after.
const pollEvery = 2 * time.Millisecond

// tendEvery is how often a load's source is looked after: at 50 Gbit/s a window
// of it lasts 2.5 ms.
const tendEvery = time.Millisecond

// wait returns once the sender's thread has ended: by itself, or because the
// load is done or ctx ended. It sleeps for most of the load, so as not to
// disturb the measurement, and calls look now and then.
func (p *Program) wait(ctx context.Context, t *netns.Thread, r Run, look func()) error {
	looked := time.Now()
	end, every := looked.Add(r.Most), pollEvery
	if r.tend != nil {
		end, every = looked, tendEvery
	}
	pause := func() time.Duration { return min(max(time.Until(end), every), ports.LookEvery) }
	timer := time.NewTimer(pause())
	defer timer.Stop()
	for {
		select {
		case <-t.Done():
			if err := t.Wait(); err != nil && !errors.Is(err, unix.EINTR) {
				return bpf.Refused("run live frames", err)
			}
			return nil
		case <-ctx.Done():
			// The signal may come before the thread is in its system call: repeat it.
			time.Sleep(pollEvery)
		case now := <-timer.C:
			timer.Reset(pause())
			if now.Sub(looked) >= ports.LookEvery {
				looked = now
				look()
			}
		}
		if r.tend != nil && ctx.Err() == nil {
			r.tend()
		}
		if p.done() || ctx.Err() != nil {
			if err := t.Interrupt(); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("stop the sender: %w", err)
			}
		}
	}
}
