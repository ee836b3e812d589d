// SPDX-License-Identifier: Apache-2.0

package cipher

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"boxdyno/host"
	"boxdyno/result"
	"boxdyno/subject"
	"boxdyno/subject/internal/program"
)

// afAlgPath is the kernel's ciphers, in requests as cryptsetup benchmark makes them: a
// child of this program sends and reads, one request after the other.
var afAlgPath = cryptoPath{
	name: "af-alg", doc: "the kernel's ciphers through AF_ALG sockets, without a library",
	needs: func(_ context.Context, _ *host.Local, c Cipher) error {
		name, err := kernelName(c)
		if err != nil {
			return err
		}
		s, err := openAlg(name, testKey(c))
		if err != nil {
			return err
		}
		s.Close()
		return nil
	},
	lacks: func(c Cipher) error {
		_, err := kernelName(c)
		return err
	},
	apart: true, block: mostAlg, most: mostAlg,
	identify: afAlgIdentify,
	proof: func(_ context.Context, _ *host.Local, c Cipher) string {
		if symmetric(c) == nil {
			return "none: there is no test vector"
		}
		return c.Name
	},
	prove: func(_ context.Context, _ *host.Local, c Cipher) error { return afAlgProve(c) },
	argv: func(s *Crypto) ([]string, error) {
		return program.Child(algWord, algWork{Cipher: s.Cipher.Name, Direction: s.Direction, For: s.For, Block: s.Octets()})
	},
	read: func(s *Crypto, w subject.Worked) ([]result.Value, error) {
		rate, err := parseAlgDone(w.Stdout)
		if err != nil {
			return nil, err
		}
		return s.rate(rate), nil
	},
}

// kernelName is what the kernel calls it.
func kernelName(c Cipher) (algName, error) {
	switch {
	case c.Kind != Encryption:
		return algName{}, fmt.Errorf("AF_ALG has no %s", c.Name)
	case c.Name == "chacha20":
		return algName{"skcipher", c.Name}, nil
	case c.Name == "adiantum":
		return algName{"skcipher", "adiantum(xchacha12,aes)"}, nil
	case c.Name == "chacha20-poly1305":
		return algName{"aead", "rfc7539(chacha20,poly1305)"}, nil
	case c.Mode == "gcm":
		return algName{"aead", "gcm(" + c.Algorithm + ")"}, nil
	case c.aead():
		return algName{}, fmt.Errorf("AF_ALG has no %s here: of authenticated ciphers it has gcm and chacha20-poly1305", c.Name)
	case c.Algorithm == "3des":
		return algName{"skcipher", c.Mode + "(des3_ede)"}, nil
	}
	return algName{"skcipher", c.Mode + "(" + c.Algorithm + ")"}, nil
}

// kernelIV is the length of its initialisation vector.
func kernelIV(c Cipher) int {
	switch {
	case c.aead():
		return 12
	case c.Algorithm == "adiantum":
		return 32
	case c.Algorithm == "3des":
		return 8
	}
	return 16
}

func afAlgIdentify(_ context.Context, h *host.Local, c Cipher) ([]result.Pair, error) {
	name, err := kernelName(c)
	if err != nil {
		return nil, err
	}
	s, err := openAlg(name, testKey(c)) // the kernel makes a driver when it is asked for
	if err != nil {
		return nil, err
	}
	defer s.Close()
	data, err := fs.ReadFile(h.Files(), "proc/crypto")
	if err != nil {
		return nil, err
	}
	d, err := kernelDriver(string(data), name)
	if err != nil {
		return nil, err
	}
	return identity(h, d)
}

// kernelDriver is the one of a cipher in /proc/crypto that the kernel takes.
func kernelDriver(text string, alg algName) (string, error) {
	driver := program.KernelDriver(text, alg.kind, alg.name)
	if driver == "" {
		return "", fmt.Errorf("/proc/crypto names no driver of %s", alg.name)
	}
	return driver, nil
}

// afAlgProve encrypts and decrypts a known text.
func afAlgProve(c Cipher) error {
	a := symmetric(c)
	if a == nil {
		return nil
	}
	name, err := kernelName(c)
	if err != nil {
		return err
	}
	s, err := openAlg(name, a.key)
	if err != nil {
		return err
	}
	defer s.Close()
	iv := a.iv
	if c.Name == "chacha20" { // the kernel has the counter before the nonce
		iv = append(make([]byte, 4), iv...)
	}
	for _, d := range []struct {
		decrypt  bool
		in, want []byte
	}{{false, a.plain, a.secret}, {true, a.secret, a.plain}} {
		out := make([]byte, len(d.want))
		if err := s.Do(algControl(d.decrypt, iv), d.in, out); err != nil {
			return err
		}
		if err := same(c.Name, d.want, out); err != nil {
			return err
		}
	}
	if !c.aead() {
		return nil
	}
	forged := slices.Clone(a.secret)
	forged[len(forged)-1] ^= 1
	if err := s.Do(algControl(true, iv), forged, make([]byte, len(a.plain))); !errors.Is(err, unix.EBADMSG) {
		return fmt.Errorf("%s takes a tag that is wrong (%v)", c.Name, err)
	}
	return nil
}

// algWord is the first argument of a child that has the kernel encrypt, an algWork the
// second.
const algWord = "encrypt-by-the-kernel"

type algWork struct {
	Cipher, Direction string
	For               time.Duration
	Block             int
}

// algDone is what the child prints.
type algDone struct {
	Octets int64         `json:"octets"`
	Took   time.Duration `json:"took_ns"`
}

// Main is the child's work where this process is one, and then does not return.
func Main() { program.ChildMain(algWord, (*algWork).run) }

func (w *algWork) run() error {
	c, err := Parse(w.Cipher)
	if err != nil {
		return err
	}
	name, err := kernelName(c)
	if err != nil {
		return err
	}
	if w.Block < 16 || w.Block > mostAlg {
		return fmt.Errorf("block %d: the kernel takes 16 to %d octets at once", w.Block, mostAlg)
	}
	s, err := openAlg(name, testKey(c))
	if err != nil {
		return err
	}
	defer s.Close()
	buffer := make([]byte, 1<<20/w.Block*w.Block) // as large as cryptsetup's
	for i := range buffer {
		buffer[i] = byte(i) // its pages are there before the clock runs
	}
	requests, err := w.requests(s, c, buffer)
	if err != nil {
		return err
	}
	control := algControl(w.Direction == Decrypt, make([]byte, kernelIV(c)))
	var done algDone
	begin := time.Now()
	for i := 0; done.Took < w.For; done.Took = time.Since(begin) {
		if err := s.Do(control, requests[i].in, requests[i].out); err != nil {
			return err
		}
		done.Octets += int64(w.Block)
		if i++; i == len(requests) {
			i = 0
		}
	}
	return program.Say(done)
}

// An algRequest is a text and the room for what comes of it.
type algRequest struct{ in, out []byte }

// requests are those over a buffer: in place, or with an authenticated cipher to a room
// of their own, and what is decrypted was encrypted before, for its tag must be right.
func (w *algWork) requests(s *algSocket, c Cipher, buffer []byte) (all []algRequest, err error) {
	for block := range slices.Chunk(buffer, w.Block) {
		r := algRequest{block, block}
		if c.aead() {
			sealed := make([]byte, w.Block+algTag)
			if err := s.Do(algControl(false, make([]byte, kernelIV(c))), block, sealed); err != nil {
				return nil, err
			}
			r.out = sealed
			if w.Direction == Decrypt {
				r.in, r.out = sealed, block
			}
		}
		all = append(all, r)
	}
	return all, nil
}

// parseAlgDone reads octets a second.
func parseAlgDone(stdout string) (float64, error) {
	var d algDone
	if err := json.Unmarshal([]byte(stdout), &d); err != nil {
		return 0, fmt.Errorf("the child that has the kernel encrypt printed %q: %w", stdout, err)
	}
	if d.Octets <= 0 || d.Took <= 0 {
		return 0, errors.New("the kernel has encrypted nothing")
	}
	return float64(d.Octets) / d.Took.Seconds(), nil
}
