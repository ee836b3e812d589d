// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"boxdyno/host"
	"boxdyno/lab"
	"boxdyno/result"
)

// Another is a testbed beside the run's own, for points of procedures that the plan has
// measured in a topology of theirs (Entry.Lab). It is built when they are reached, as
// the topology is by default, and taken down before a point that is measured elsewhere:
// it may keep CPUs from sleeping, and pin threads of the kernel. Telemetry, tuning and
// what runs beside stay with the run's own testbed.
type another struct {
	bed *lab.Testbed // nil: it does not stand
	err error        // why it cannot be built
}

// testbed is where pt is measured. What cannot be built is a *host.Missing: its points
// are skipped, and the others go on.
func (x *execution) testbed(ctx context.Context, pt Point) (*lab.Testbed, error) {
	own := pt.Lab != "" && pt.Lab != x.bed.Topology
	fits := func(bed *lab.Testbed) error { _, err := Check(x.o.Catalogue, []Point{pt}, bed); return err }
	if a := x.others[pt.Lab]; own && a != nil {
		switch {
		case a.err != nil:
			return nil, a.err
		case a.bed != nil:
			return a.bed, fits(a.bed)
		}
	}
	if err := x.leave(); err != nil || !own {
		return x.bed, err
	}
	a := &another{}
	if x.others == nil {
		x.others = map[string]*another{}
	}
	x.others[pt.Lab] = a
	topology, err := x.o.Catalogue.topology(pt.lab)
	if err != nil {
		return nil, err
	}
	bed, err := topology.Build(ctx)
	var missing *host.Missing
	switch {
	case err == nil:
		a.bed = bed
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.As(err, &missing):
		a.err = missing
		return nil, a.err
	default:
		a.err = &host.Missing{What: "a testbed of topology " + pt.Lab, Hint: err.Error()}
		return nil, a.err
	}
	if err := fits(bed); err != nil {
		return nil, err
	}
	return bed, x.tell(bed)
}

// tell puts what is said of the run's testbed once into the header for another one, too.
func (x *execution) tell(bed *lab.Testbed) error {
	if names := strings.Split(x.run.Topology, ", "); !slices.Contains(names, bed.Topology) {
		x.run.Topology += ", " + bed.Topology
		said := bed.Settings
		if bed.Placement != "" && result.Get(said, "placement") == "" {
			said = append([]result.Pair{{Key: "placement", Value: bed.Placement}}, said...)
		}
		for _, p := range append(backends(bed), said...) {
			x.run.Backend = append(slices.Clip(x.run.Backend), result.Pair{Key: bed.Topology + " " + p.Key, Value: p.Value})
		}
	}
	for _, w := range bed.Warnings {
		x.warn("topology " + bed.Topology + ": " + w)
	}
	return x.write()
}

// leave takes the other testbeds down.
func (x *execution) leave() (err error) {
	for _, a := range x.others {
		if a.bed == nil {
			continue
		}
		if cerr := a.bed.Close(); cerr != nil {
			err = errors.Join(err, fmt.Errorf("take the testbed of topology %s down: %w", a.bed.Topology, cerr))
		}
		a.bed = nil
	}
	return err
}
