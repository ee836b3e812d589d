// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"context"
	"flag"
	"fmt"
	"math"
	"slices"
	"time"

	"boxdyno/lab"
	"boxdyno/procedure"
	"boxdyno/procedure/internal/metrics"
	"boxdyno/procedure/internal/param"
	"boxdyno/subject/compute"
)

// HashSpec is the row of hash.
var HashSpec = procedure.Spec{
	Name: "hash", Needs: lab.OwnMachine, Lab: lab.Here, Alone: true,
	Quick: "each function of hash is measured 3 times, not 10 times",
	Doc:   "this machine hashing: SHA-1, SHA-256 and BLAKE2b over 2 GB in memory, by OpenSSL and coreutils, on one, some or all CPUs",
	Names: []string{"subject", "algorithm", "parallel", "core_type"}, Metrics: hashMetrics, Joules: hashJoules, New: newHash,
}

// A Hash lets programs hash a file that is in no memory and on no disk.
type Hash struct {
	work
	subject   param.Choice
	algorithm param.Choice
	size      param.Count
}

func newHash() procedure.Procedure {
	names := compute.HashSpecs().Names()
	return &Hash{work: newWork(), subject: param.NewChoice(names[0], names), algorithm: param.NewChoice("sha256", compute.DigestAlgorithms()), size: param.NewCount(2_000_000_000, 1, math.MaxInt32)}
}

func (p *Hash) Flags(fs *flag.FlagSet) {
	fs.Var(&p.subject, "subject", "`program` that hashes")
	fs.Var(&p.algorithm, "algorithm", "hash `function`")
	p.work.flags(fs)
	p.userland.Declare(fs)
	fs.Var(&p.size, "size", "`octets` that each copy hashes in a round, all of them zero")
}

func (p *Hash) Check(bed *lab.Testbed) error { return p.check(bed) }

// hashSlow is a rate that no hash function here stays below on a small board, in B/s.
const hashSlow = 100e6

func (p *Hash) expected() time.Duration {
	return time.Duration(float64(p.size.Value) / hashSlow * float64(time.Second))
}

func (p *Hash) Estimate() (int, time.Duration) { return p.estimate(p.expected() / 2) }

func (p *Hash) Run(ctx context.Context, env *procedure.Env) (procedure.Outcome, error) {
	spec, err := compute.HashSpecs().Find(p.subject.Value)
	if err != nil {
		return procedure.Outcome{}, err
	}
	d, ok := spec.New().(*compute.Digest)
	if !ok {
		return procedure.Outcome{}, fmt.Errorf("subject %s does not hash", spec.Name)
	}
	d.Algorithm, d.Size = p.algorithm.Value, int64(p.size.Value)
	return p.run(ctx, env, job{name: spec.Name, worker: d, computes: true, limit: 10*p.expected() + time.Minute})
}

var hashMetrics = slices.Concat(metrics.Grouped("Hashing zeros from memory, on this machine's CPUs", compute.DigestMetrics), metrics.Grouped("What hash took, all copies together", workMetrics))

// hashJoules are what joules are spent on.
var hashJoules = []procedure.Joule{procedure.Worked("hash_rate", "gigabyte", 1e9, "")}
