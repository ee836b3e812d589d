// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"
	"time"

	"boxdyno/lab"
	"boxdyno/procedure"
	"boxdyno/procedure/internal/metrics"
	"boxdyno/procedure/internal/param"
	"boxdyno/result"
	"boxdyno/subject/cipher"
)

// CryptoSpec is the row of crypto.
var CryptoSpec = procedure.Spec{
	Name: "crypto", Needs: lab.OwnMachine, Lab: lab.Here, Alone: true,
	Deviation: "if a program cannot compute a cipher for a given key, crypto checks the known answer of its parts, or none (known_answer in the record)",
	Quick:     "operations of crypto are measured for 0.3 s (openssl and cryptsetup: 1 s) and 3 times, not for 10 s and 10 times",
	Doc:       "ciphers and asymmetric schemes by the kernel, cryptsetup, OpenSSL and Botan: octets and operations a second, on one CPU or all",
	Names:     []string{"path", "cipher", "parallel"},
	Metrics:   cryptoMetrics, Joules: cryptoJoules, New: newCrypto,
}

// Crypto measures a cipher or an asymmetric scheme on one path by which this machine can
// compute it. Where the path measures encryption and decryption one by one, each has its
// known answer and rounds.
type Crypto struct {
	work
	path   param.Choice
	cipher cipherFlag
	block  param.Count
}

func newCrypto() procedure.Procedure {
	p := &Crypto{work: newWork(), path: param.NewChoice("openssl", cipher.Paths()), block: param.NewCount(0, 0, cipher.MostBlock)}
	if err := p.cipher.Set("aes-xts-256"); err != nil {
		panic(err) // a test makes one
	}
	return p
}

// A cipherFlag is the name of a cipher with its key.
type cipherFlag struct{ cipher.Cipher }

func (c *cipherFlag) String() string { return c.Name }

func (c *cipherFlag) Set(s string) error {
	parsed, err := cipher.Parse(s)
	if err == nil {
		c.Cipher = parsed
	}
	return err
}

// Flags implements Procedure.
func (p *Crypto) Flags(fs *flag.FlagSet) {
	fs.Var(&p.path, "path", "what computes it: "+strings.Join(cipher.Paths(), ", "))
	fs.Var(&p.cipher, "cipher", "`name`: ALGORITHM-MODE-BITS of the whole key, such as aes-cbc-128 and twofish-xts-512, or chacha20, ed25519, ml-kem-768 and the like")
	fs.Var(&p.block, "block", "`octets` encrypted at once, multiples of 16; 0: the path's default (65536 in the kernel, 16384 in libraries)")
	p.work.flags(fs)
}

// subject is the worker for a direction; "": for the first that the path measures.
func (p *Crypto) subject(direction string) (*cipher.Crypto, error) {
	s, err := cipher.New(p.path.Value)
	if err != nil {
		return nil, err
	}
	s.Cipher, s.Block, s.For = p.cipher.Cipher, p.block.Value, p.each()
	if s.Direction = direction; direction == "" {
		s.Direction = s.Directions()[0]
	}
	return s, nil
}

// each is how long an operation is measured.
func (p *Crypto) each() time.Duration {
	if p.preset.Value == "quick" {
		return 300 * time.Millisecond
	}
	return p.seconds()
}

// Check implements Procedure.
func (p *Crypto) Check(bed *lab.Testbed) error {
	s, err := p.subject("")
	if err != nil {
		return err
	}
	if err := s.Takes(); err != nil {
		return err
	}
	return p.check(bed)
}

// longest is how long the operations of a point last together: OpenSSL takes whole
// seconds, RSA makes keys, too.
func (p *Crypto) longest() time.Duration {
	each := p.each()
	if p.path.Value == "openssl" || p.path.Value == "cryptsetup" {
		each = max(each, time.Second)
	}
	switch {
	case p.cipher.Algorithm == "rsa" && p.path.Value == "botan":
		return 8*each + 2*time.Second
	case p.cipher.Algorithm == "rsa":
		return 10 * each // OpenSSL 3.5 measures it as an encapsulation, too
	case p.cipher.Kind != cipher.Encryption:
		return 3 * each
	}
	return 2 * each
}

// Estimate implements Procedure.
func (p *Crypto) Estimate() (int, time.Duration) {
	n, d := p.estimate(p.longest())
	if s, err := p.subject(""); err == nil {
		n *= len(s.Directions())
	}
	return n, d
}

// cryptoGrace is what a small board may take beside the time of the operations: keys of
// RSA with 4096 bits are made.
const cryptoGrace = 2 * time.Minute

// Run implements Procedure.
func (p *Crypto) Run(ctx context.Context, env *procedure.Env) (o procedure.Outcome, err error) {
	first, err := p.subject("")
	if err != nil {
		return o, err
	}
	if err := first.Lacks(); err != nil {
		return procedure.Outcome{Status: result.Skipped, Reason: err.Error()}, nil
	}
	for _, direction := range first.Directions() {
		s, err := p.subject(direction)
		if err != nil {
			return o, err
		}
		library := p.path.Value == "openssl" || p.path.Value == "botan" // the kernel's drivers may wait for another chip
		one, err := p.run(ctx, env, job{worker: s, name: p.path.Value, computes: library, limit: 2*p.longest() + cryptoGrace})
		if err != nil {
			return o, err
		}
		o = bothWays(o, one)
		if o.Status != result.Passed {
			break
		}
	}
	if o.Status == result.Passed && !slices.ContainsFunc(o.Values, func(v result.Value) bool {
		return slices.ContainsFunc(cipher.Metrics, func(m result.Metric) bool { return m.Name == v.Metric })
	}) {
		o.Status, o.Reason = result.Failed, fmt.Sprintf("%s printed no figure of %s", p.path.Value, p.cipher.Name)
	}
	return o, nil
}

// bothWays is the outcome of two directions: of figures that both have, such as time and
// memory, those of the first stay.
func bothWays(a, b procedure.Outcome) procedure.Outcome {
	if a.Status == "" {
		return b
	}
	for _, v := range b.Values {
		if !slices.ContainsFunc(a.Values, func(have result.Value) bool { return have.Metric == v.Metric }) {
			a.Values = append(a.Values, v)
		}
	}
	for _, w := range b.Warnings {
		if !slices.Contains(a.Warnings, w) {
			a.Warnings = append(a.Warnings, w)
		}
	}
	for i, c := range b.Copies {
		if i < len(a.Copies) && a.Copies[i].CPU == c.CPU {
			a.Copies[i].Values = append(slices.Clone(a.Copies[i].Values), c.Values...)
		}
	}
	a.Status, a.Reason = b.Status, b.Reason
	return a
}

var cryptoMetrics = slices.Concat(cipher.Metrics, metrics.Grouped("What crypto took, all copies together", workMetrics))

// cryptoJoules are what joules are spent on.
var cryptoJoules = []procedure.Joule{
	procedure.Worked("encrypt_bytes_per_s", "encrypted MiB", 1<<20, "while it encrypted"),
	procedure.Worked("decrypt_bytes_per_s", "decrypted MiB", 1<<20, "while it decrypted"),
}
