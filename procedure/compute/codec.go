// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"time"

	"boxdyno/host"
	"boxdyno/lab"
	"boxdyno/procedure"
	"boxdyno/procedure/internal/metrics"
	"boxdyno/procedure/internal/param"
	"boxdyno/subject/compute"
)

// CodecSpec is the row of codec.
var CodecSpec = procedure.Spec{
	Name: "codec", Needs: lab.OwnMachine, Lab: lab.Here, Alone: true,
	Quick: "codec encodes 60 s of music 3 times, not 8 min 10 times",
	Doc:   "this machine encoding generated music in memory by LAME, FLAC, Opus and Vorbis, on one, some or all CPUs",
	Names: []string{"subject", "parallel", "core_type"}, Metrics: codecMetrics, Joules: codecJoules, New: newCodec,
}

// A Codec lets programs encode a piece of music that is in no file on a disk.
type Codec struct {
	work
	subject param.Choice
	length  time.Duration
}

func newCodec() procedure.Procedure {
	names := compute.CodecSpecs().Names()
	return &Codec{work: newWork(), subject: param.NewChoice(names[0], names)}
}

func (p *Codec) Flags(fs *flag.FlagSet) {
	fs.Var(&p.subject, "subject", "`program` that encodes")
	p.work.flags(fs)
	p.userland.Declare(fs)
	fs.DurationVar(&p.length, "length", p.length, "how `long` the music is, in whole seconds; 0s: as preset says")
}

const (
	mostMusic  = time.Hour
	studyMusic = 8 * time.Minute // as the published study encoded it
)

func (p *Codec) Check(bed *lab.Testbed) error {
	if p.length != 0 && (p.length < time.Second || p.length > mostMusic || p.length%time.Second != 0) {
		return fmt.Errorf("length %v: want whole seconds from 1s to %v, or 0s", p.length, mostMusic)
	}
	return p.check(bed)
}

func (p *Codec) music() time.Duration {
	switch {
	case p.length > 0:
		return p.length
	case p.preset.Value == "standard":
		return studyMusic
	}
	return time.Minute
}

// codecSlow is how many times real time a small board encodes at.
const codecSlow = 8

func (p *Codec) Estimate() (int, time.Duration) { return p.estimate(p.music() / codecSlow) }

func (p *Codec) Run(ctx context.Context, env *procedure.Env) (o procedure.Outcome, err error) {
	spec, err := compute.CodecSpecs().Find(p.subject.Value)
	if err != nil {
		return o, err
	}
	c, ok := spec.New().(*compute.Codec)
	if !ok {
		return o, fmt.Errorf("subject %s does not encode", spec.Name)
	}
	local, err := p.userland.Local(ctx)
	if err != nil {
		return o, err
	}
	if err := c.Check(ctx, local); err != nil {
		return refused(ctx, err)
	}
	cpus, err := p.cpus(local, env.Bed.CPUs)
	if err != nil {
		return o, err
	}
	// The music, and what comes out of each copy, which is less.
	if takes, have := compute.MusicSize(p.music())*uint64(1+len(cpus)), local.MemoryAvailable(); have > 0 && takes > have {
		return o, &host.Missing{What: fmt.Sprintf("memory for %v of music and %d encoders: %d MB are needed, and %d are available", p.music(), len(cpus), takes/1e6, have/1e6), Hint: "give a smaller --set length"}
	}
	if c.Music, err = compute.NewMusic(p.music()); err != nil {
		return o, err
	}
	defer func() { err = errors.Join(err, c.Music.Close()) }()
	return p.run(ctx, env, job{name: spec.Name, worker: c, limit: 4*p.music() + time.Minute, computes: true, mean: []string{"encode_s", "encoded_bytes", "encoded_bps"}})
}

var codecMetrics = slices.Concat(metrics.Grouped("Encoding music from and to memory, on this machine's CPUs", compute.CodecMetrics), metrics.Grouped("What codec took, all copies together", workMetrics))

// codecJoules are what joules are spent on.
var codecJoules = []procedure.Joule{procedure.Worked("codec_speed", "second of music", 1, "")}
