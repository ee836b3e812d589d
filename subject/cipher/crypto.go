// SPDX-License-Identifier: Apache-2.0

// Package cipher holds the programs that encrypt and decrypt, sign and verify.
package cipher

import (
	"context"
	"flag"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"boxdyno/host"
	"boxdyno/result"
	"boxdyno/subject"
)

// Metrics are the figures of a cipher; each program tells some of them.
var Metrics = []result.Metric{
	{Name: "encrypt_bytes_per_s", Label: "encrypted", Group: "Ciphers: octets a second, all streams together", Interval: "range", Heads: true, Unit: "B/s", Better: 1, Help: "octets encrypted a second"},
	{Name: "decrypt_bytes_per_s", Label: "decrypted", Interval: "range", Unit: "B/s", Better: 1, Help: "octets decrypted a second"},
	{Name: "signs_per_s", Label: "signed", Group: "Asymmetric schemes: operations a second, all streams together", Heads: true, Unit: "1/s", Better: 1, Help: "signatures made a second"},
	{Name: "verifies_per_s", Label: "verified", Unit: "1/s", Better: 1, Help: "signatures verified a second"},
	{Name: "agreements_per_s", Label: "agreed", Unit: "1/s", Better: 1, Help: "shared secrets computed a second from a private and a public key"},
	{Name: "keygens_per_s", Label: "keys made", Unit: "1/s", Better: 1, Help: "key pairs made a second"},
	{Name: "encapsulations_per_s", Label: "encapsulated", Unit: "1/s", Better: 1, Help: "shared secrets made and encapsulated a second"},
	{Name: "decapsulations_per_s", Label: "opened", Unit: "1/s", Better: 1, Help: "encapsulated secrets opened a second"},
}

// Directions of a Crypto. A program that measures all in one go has Both alone.
const (
	Both    = "both"
	Encrypt = "encrypt"
	Decrypt = "decrypt"
)

// A Crypto is a cipher on one of the paths by which this machine can compute it.
type Crypto struct {
	Cipher    Cipher
	Direction string        // of Directions
	For       time.Duration // about how long each operation is measured
	Block     int           // octets that are encrypted at once; 0: as the path does by itself

	path *cryptoPath
}

// A cryptoPath computes ciphers: a row of cryptoPaths, in a file of its own.
type cryptoPath struct {
	name, doc string
	needs     func(ctx context.Context, h *host.Local, c Cipher) error // a *host.Missing with the remedy
	// lacks is an error where it does not have the cipher.
	lacks    func(Cipher) error
	apart    bool // encryption and decryption are measured one by one
	block    int  // octets that it encrypts at once by itself
	fixed    bool // it takes no other
	most     int  // that it takes; 0: MostBlock
	identify func(ctx context.Context, h *host.Local, c Cipher) ([]result.Pair, error)
	// proof says what prove checks, in words: the cipher itself, or what of it the
	// program's commands reach.
	proof func(ctx context.Context, h *host.Local, c Cipher) string
	prove func(ctx context.Context, h *host.Local, c Cipher) error
	argv  func(*Crypto) ([]string, error)
	read  func(*Crypto, subject.Worked) ([]result.Value, error)
}

var cryptoPaths = []*cryptoPath{&afAlgPath, &cryptsetupPath, &opensslPath, &botanPath}

// Paths are the paths by which ciphers are computed.
func Paths() (names []string) {
	for _, p := range cryptoPaths {
		names = append(names, p.name)
	}
	return names
}

// New is aes-xts-256 on one of Paths.
func New(path string) (*Crypto, error) {
	i := slices.IndexFunc(cryptoPaths, func(p *cryptoPath) bool { return p.name == path })
	if i < 0 {
		return nil, fmt.Errorf("there is no path %q: the paths are %s", path, strings.Join(Paths(), ", "))
	}
	return newCrypto(cryptoPaths[i]), nil
}

func newCrypto(p *cryptoPath) *Crypto {
	c, err := Parse("aes-xts-256")
	if err != nil {
		panic(err) // it is in the table
	}
	s := &Crypto{Cipher: c, For: time.Second, path: p}
	s.Direction = s.Directions()[0]
	return s
}

// cryptoPrefix is before a path's name in that of its subject.
const cryptoPrefix = "crypto-"

// Specs are the rows of All that compute ciphers.
func Specs() (specs subject.Specs) {
	for _, p := range cryptoPaths {
		specs = append(specs, subject.Spec{Name: cryptoPrefix + p.name, Work: "cipher", Doc: p.doc, Metrics: Metrics, New: func() subject.Subject { return newCrypto(p) }})
	}
	return specs
}

// Flags implements Subject.
func (s *Crypto) Flags(fs *flag.FlagSet) {
	fs.Func("cipher", "`name` of a cipher, such as "+s.Cipher.Name, func(name string) (err error) {
		s.Cipher, err = Parse(name)
		return err
	})
	fs.StringVar(&s.Direction, "direction", s.Direction, "encrypt, decrypt or both, as the program can")
	fs.DurationVar(&s.For, "for", s.For, "how `long` each operation is measured")
	fs.IntVar(&s.Block, "block", s.Block, "`octets` that are encrypted at once; 0: as the program does by itself")
}

// Directions are what must be measured one after the other for all figures of the
// cipher.
func (s *Crypto) Directions() []string {
	switch {
	case s.path.apart && s.Cipher.stream():
		return []string{Encrypt}
	case s.path.apart && s.Cipher.Kind == Encryption:
		return []string{Encrypt, Decrypt}
	}
	return []string{Both}
}

// Lacks is an error where the path does not have the cipher, whatever the machine has.
func (s *Crypto) Lacks() error { return s.path.lacks(s.Cipher) }

// MostBlock is the most octets that are encrypted at once.
const MostBlock = 1 << 20

// Takes is an error where a parameter is out of its range, whatever the machine has.
func (s *Crypto) Takes() error {
	switch {
	case !slices.Contains(s.Directions(), s.Direction):
		return fmt.Errorf("direction %s: path %s measures %s", s.Direction, s.path.name, strings.Join(s.Directions(), " and "))
	case s.Block != 0 && (s.Block < 16 || s.Block > MostBlock || s.Block%16 != 0):
		return fmt.Errorf("block %d: want 0, or a multiple of 16 octets up to %d", s.Block, MostBlock)
	case s.Block != 0 && s.path.fixed && s.Block != s.path.block:
		return fmt.Errorf("block %d: path %s always takes %d octets at once", s.Block, s.path.name, s.path.block)
	case s.path.most > 0 && s.Block > s.path.most:
		return fmt.Errorf("block %d: path %s takes at most %d octets at once", s.Block, s.path.name, s.path.most)
	case s.For < time.Millisecond || s.For > time.Hour:
		return fmt.Errorf("for %v: want 1ms to 1h", s.For)
	}
	return nil
}

// Octets are encrypted at once.
func (s *Crypto) Octets() int {
	if s.Block > 0 {
		return s.Block
	}
	return s.path.block
}

// Check implements Subject.
func (s *Crypto) Check(ctx context.Context, h *host.Local) error {
	if err := s.Takes(); err != nil {
		return err
	}
	if err := s.Lacks(); err != nil {
		return err
	}
	return s.path.needs(ctx, h, s.Cipher)
}

// Identify implements Worker: the driver or library that computes, the CPU's features
// that it may use, and what its known answer is of.
func (s *Crypto) Identify(ctx context.Context, h *host.Local) ([]result.Pair, error) {
	pairs, err := s.path.identify(ctx, h, s.Cipher)
	if err != nil {
		return nil, err
	}
	return append(pairs, result.Pair{Key: "direction", Value: s.Direction}, result.Pair{Key: "known_answer", Value: s.path.proof(ctx, h, s.Cipher)}), nil
}

// Prove implements Worker: a known answer.
func (s *Crypto) Prove(ctx context.Context, h *host.Local) error {
	return s.path.prove(ctx, h, s.Cipher)
}

// Start implements Subject: a *Working.
func (s *Crypto) Start(ctx context.Context, e subject.Env) (subject.Running, error) {
	if err := s.Check(ctx, e.Machine()); err != nil {
		return nil, err
	}
	argv, err := s.path.argv(s)
	if err != nil {
		return nil, err
	}
	return subject.Command{Name: s.path.name, Argv: argv, Read: func(w subject.Worked) ([]result.Value, error) { return s.path.read(s, w) }}.Start(ctx, e)
}

// cryptoValue is one of Metrics.
func cryptoValue(metric string, v float64) result.Value {
	i := slices.IndexFunc(Metrics, func(m result.Metric) bool { return m.Name == metric })
	return result.Value{Metric: metric, Unit: Metrics[i].Unit, Value: v}
}

// rate is the figure of the one direction that was measured.
func (s *Crypto) rate(octets float64) []result.Value {
	metric := "encrypt_bytes_per_s"
	if s.Direction == Decrypt {
		metric = "decrypt_bytes_per_s"
	}
	return []result.Value{cryptoValue(metric, octets)}
}

// cryptoFeatures are the words of /proc/cpuinfo for instructions that ciphers use.
var cryptoFeatures = strings.Fields(`aes vaes pclmulqdq vpclmulqdq gfni ssse3 sse4_1 avx avx2 avx512f avx512vl avx512ifma bmi2 adx sha_ni sha512 sm3 sm4
	pmull sha1 sha2 sha3 neon asimd sve sve2 asimddp
	zbkb zbkc zkne zknd zvkned zvkg zvbb zvkb altivec vsx msa crypto`)

// cpuFeatures are those of the first CPU, joined by blanks; "none" where none is among
// them.
func cpuFeatures(root fs.FS) (string, error) {
	data, err := fs.ReadFile(root, "proc/cpuinfo")
	if err != nil {
		return "", fmt.Errorf("features of the CPU: %w", err)
	}
	var found []string
	for line := range strings.Lines(string(data)) {
		key, text, _ := strings.Cut(line, ":")
		key = strings.ToLower(strings.TrimSpace(key))
		if key == "isa" {
			text = strings.ReplaceAll(text, "_", " ")
		} else if key != "flags" && key != "features" {
			continue
		}
		for _, w := range strings.Fields(text) {
			if slices.Contains(cryptoFeatures, w) && !slices.Contains(found, w) {
				found = append(found, w)
			}
		}
		break
	}
	if found == nil {
		return "none", nil
	}
	return strings.Join(found, " "), nil
}

// identity is the driver and the CPU's features.
func identity(h *host.Local, driver string) ([]result.Pair, error) {
	features, err := cpuFeatures(h.Files())
	return []result.Pair{{Key: "driver", Value: driver}, {Key: "cpu_features", Value: features}}, err
}
