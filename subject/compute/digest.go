// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"

	"boxdyno/host"
	"boxdyno/result"
	"boxdyno/subject"
)

// A Digest is a program that hashes zeros which it reads from a file that is in memory
// only, and sparse: no disk is touched, and no memory taken.
type Digest struct {
	Algorithm string // one of DigestAlgorithms
	Size      int64  // octets

	of digestProgram
}

// A digestProgram is how a program is asked; it prints the digest first.
type digestProgram struct {
	name    string
	argv    func(algorithm string) []string
	version []string
}

var opensslDigest = digestProgram{
	name: "openssl-dgst", version: []string{"openssl", "version"},
	argv: func(a string) []string {
		if a == "blake2b" {
			a = "blake2b512"
		}
		return []string{"openssl", "dgst", "-" + a, "-r"}
	},
}

var coreutilsDigest = digestProgram{
	name: "coreutils", version: []string{"sha256sum", "--version"},
	argv: func(a string) []string {
		return []string{map[string]string{"sha1": "sha1sum", "sha256": "sha256sum", "blake2b": "b2sum"}[a]}
	},
}

// HashSpecs are the subjects that hash.
func HashSpecs() (specs subject.Specs) {
	for _, p := range []digestProgram{opensslDigest, coreutilsDigest} {
		specs = append(specs, subject.Spec{
			Name: p.name, Work: "hash", Doc: "hash functions of " + p.name + " over zeros in memory", Metrics: DigestMetrics,
			New: func() subject.Subject { return &Digest{Algorithm: "sha256", Size: 2_000_000_000, of: p} },
		})
	}
	return specs
}

// DigestAlgorithms are the hash functions: blake2b is BLAKE2b-512.
func DigestAlgorithms() []string { return []string{"sha1", "sha256", "blake2b"} }

// digestVectors are of the three octets "abc": FIPS 180-4's examples, and RFC 7693
// appendix A.
var digestVectors = map[string]string{
	"sha1":    "a9993e364706816aba3e25717850c26c9cd0d89d",
	"sha256":  "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
	"blake2b": "ba80a53f981c4d0d6a2797b69f12f6e94c212f14685ac4b74b12bb6fdbffa2d17d87c5392aab792dc252d5de4533cc9518d38aa8dbf1925ab92386edd4009923",
}

// digestZeros are of so many zeros, as OpenSSL and coreutils both say; "" where the
// size is none of them.
func digestZeros(algorithm string, size int64) string {
	switch size {
	case 1_000_000:
		return map[string]string{
			"sha1":    "bef3595266a65a2ff36b700a75e8ed95c68210b6",
			"sha256":  "d29751f2649b32ff572b5e0a9f541ea660a50f94ff0beedfb0b692b924cc8025",
			"blake2b": "9ef8b51be521c6e33abb22d6a69363902b6d7eb67ca1364ebc87a64d5a36ec5e749e5c9e7029a85b0008e46cff24281e87500886818dbe79dc8e094f119bbeb8",
		}[algorithm]
	case 2_000_000_000:
		return map[string]string{
			"sha1":    "752ef2367f479e79e4f0cded9c270c2890506ab0",
			"sha256":  "2e0c654b6cba3a1e816726bae0eac481eb7fd0351633768c3c18392e0f02b619",
			"blake2b": "a689cef6753889c53d4accad3a6627da5b46e98a5853f53cf505a58faa852937ffa910b0f55cbfdf64bd2c039c46bf2984644a49633406aa1a0f4ef0e8817a11",
		}[algorithm]
	}
	return ""
}

// Flags implements Subject.
func (d *Digest) Flags(fs *flag.FlagSet) {
	fs.StringVar(&d.Algorithm, "algorithm", d.Algorithm, "hash `function`: sha1, sha256, blake2b")
	fs.Int64Var(&d.Size, "size", d.Size, "`octets` that are hashed")
}

// Check implements Subject.
func (d *Digest) Check(_ context.Context, h *host.Local) error {
	if !slices.Contains(DigestAlgorithms(), d.Algorithm) {
		return fmt.Errorf("algorithm %q: want one of %s", d.Algorithm, strings.Join(DigestAlgorithms(), ", "))
	}
	if d.Size < 1 {
		return fmt.Errorf("size %d: want 1 octet at least", d.Size)
	}
	return h.Has(d.of.argv(d.Algorithm)[0])
}

// Identify implements Worker.
func (d *Digest) Identify(ctx context.Context, h *host.Local) ([]result.Pair, error) {
	out, err := h.Run(ctx, "", d.of.version...)
	first, _, _ := strings.Cut(string(out), "\n")
	return []result.Pair{{Key: "version", Value: first}}, err
}

// Prove implements Worker: the published digest of "abc".
func (d *Digest) Prove(ctx context.Context, h *host.Local) error {
	out, err := h.Run(ctx, "abc", d.of.argv(d.Algorithm)...)
	if err != nil {
		return err
	}
	return d.compare(string(out), digestVectors[d.Algorithm], `"abc"`)
}

// compare looks at what the program printed.
func (d *Digest) compare(printed, want, of string) error {
	got, _, _ := strings.Cut(strings.TrimSpace(printed), " ")
	if len(got) != len(digestVectors[d.Algorithm]) || strings.Trim(got, "0123456789abcdef") != "" {
		return fmt.Errorf("it printed what is no %s digest: %.80q", d.Algorithm, printed)
	}
	if want != "" && got != want {
		return fmt.Errorf("the %s digest of %s is %s, and not %s", d.Algorithm, of, want, got)
	}
	return nil
}

// Start implements Subject.
func (d *Digest) Start(ctx context.Context, e subject.Env) (subject.Running, error) {
	zeros, err := memoryFile("zeros")
	if err != nil {
		return nil, err
	}
	if err := zeros.Truncate(d.Size); err != nil {
		zeros.Close()
		return nil, fmt.Errorf("make a file of %d octets in memory: %w", d.Size, err)
	}
	return subject.Command{
		Name: d.of.name + " " + d.Algorithm, Argv: d.of.argv(d.Algorithm), Stdin: zeros,
		Read: func(w subject.Worked) ([]result.Value, error) {
			if err := d.compare(w.Stdout, digestZeros(d.Algorithm, d.Size), fmt.Sprintf("%d zeros", d.Size)); err != nil {
				return nil, err
			}
			return []result.Value{{Metric: "hash_rate", Unit: "B/s", Value: float64(d.Size) / w.Elapsed.Seconds()}}, nil
		},
	}.Start(ctx, e)
}

// DigestMetrics are those of a Digest.
var DigestMetrics = []result.Metric{
	{Name: "hash_rate", Label: "hashed", Interval: "range", Heads: true, Unit: "B/s", Better: 1, Help: "octets hashed a second, from the start of the program to its end"},
}
