// SPDX-License-Identifier: Apache-2.0

package cipher

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// A Cipher is a cipher or an asymmetric scheme by its name: ALGORITHM-MODE-BITS, where
// BITS is the whole key, so that aes-xts-256 has two keys of 128 bits; or a name that
// stands for itself, such as chacha20 or ed25519.
type Cipher struct {
	Name      string
	Algorithm string // aes, chacha20, rsa, ed25519
	Mode      string // cbc; "": the algorithm has none
	Bits      int    // of the key of a symmetric cipher
	Kind      CipherKind
	Variant   string // of an asymmetric scheme: "2048", "p256", "768"; ""
}

// A CipherKind is what is done with it.
type CipherKind int

// Encryption is symmetric; the others are asymmetric.
const (
	Encryption CipherKind = iota
	Signature
	Agreement
	Encapsulation
)

// blockCiphers are those that have modes, with their key sizes in bits.
var blockCiphers = map[string][]int{
	"aes": {128, 192, 256}, "twofish": {128, 192, 256}, "serpent": {128, 192, 256},
	"camellia": {128, 192, 256}, "aria": {128, 192, 256}, "sm4": {128}, "3des": {192},
}

// cipherModes are theirs; xts has two keys.
var cipherModes = []string{"cbc", "ctr", "xts", "gcm", "ccm", "ocb"}

// wholeCiphers stand for themselves.
var wholeCiphers = []Cipher{
	{Name: "chacha20", Algorithm: "chacha20", Bits: 256},
	{Name: "chacha20-poly1305", Algorithm: "chacha20-poly1305", Bits: 256},
	{Name: "adiantum", Algorithm: "adiantum", Bits: 256},
	{Name: "rsa-2048", Algorithm: "rsa", Variant: "2048", Kind: Signature},
	{Name: "rsa-3072", Algorithm: "rsa", Variant: "3072", Kind: Signature},
	{Name: "rsa-4096", Algorithm: "rsa", Variant: "4096", Kind: Signature},
	{Name: "ecdsa-p256", Algorithm: "ecdsa", Variant: "p256", Kind: Signature},
	{Name: "ecdsa-p384", Algorithm: "ecdsa", Variant: "p384", Kind: Signature},
	{Name: "ecdsa-p521", Algorithm: "ecdsa", Variant: "p521", Kind: Signature},
	{Name: "ed25519", Algorithm: "ed25519", Kind: Signature},
	{Name: "ml-dsa-44", Algorithm: "ml-dsa", Variant: "44", Kind: Signature},
	{Name: "ml-dsa-65", Algorithm: "ml-dsa", Variant: "65", Kind: Signature},
	{Name: "ml-dsa-87", Algorithm: "ml-dsa", Variant: "87", Kind: Signature},
	{Name: "x25519", Algorithm: "x25519", Kind: Agreement},
	{Name: "ml-kem-512", Algorithm: "ml-kem", Variant: "512", Kind: Encapsulation},
	{Name: "ml-kem-768", Algorithm: "ml-kem", Variant: "768", Kind: Encapsulation},
	{Name: "ml-kem-1024", Algorithm: "ml-kem", Variant: "1024", Kind: Encapsulation},
}

// Parse is the cipher of that name; an error says what there is, or which keys it
// has.
func Parse(name string) (c Cipher, err error) {
	if i := slices.IndexFunc(wholeCiphers, func(c Cipher) bool { return c.Name == name }); i >= 0 {
		return wholeCiphers[i], nil
	}
	algorithm, rest, _ := strings.Cut(name, "-")
	sizes, known := blockCiphers[algorithm]
	if !known {
		return c, fmt.Errorf("there is no cipher %q: give ALGORITHM-MODE-BITS with an algorithm of %s and a mode of %s, or one of %s",
			name, strings.Join(slices.Sorted(maps.Keys(blockCiphers)), ", "), strings.Join(cipherModes, ", "), strings.Join(wholeNames(), ", "))
	}
	mode, text, _ := strings.Cut(rest, "-")
	if !slices.Contains(cipherModes, mode) {
		return c, fmt.Errorf("cipher %q: %q is no mode: the modes are %s", name, mode, strings.Join(cipherModes, ", "))
	}
	if algorithm == "3des" && mode != "cbc" {
		return c, fmt.Errorf("cipher %q: 3des, whose blocks are of 64 bits, is measured in mode cbc only", name)
	}
	c = Cipher{Name: name, Algorithm: algorithm, Mode: mode}
	var have []string
	for _, n := range sizes {
		if mode == "xts" {
			n *= 2
		}
		if have = append(have, strconv.Itoa(n)); have[len(have)-1] == text {
			c.Bits = n
		}
	}
	if c.Bits == 0 {
		return c, fmt.Errorf("cipher %q: in mode %s %s has keys of %s bits, not of %s", name, mode, algorithm, strings.Join(have, ", "), cmp.Or(text, "none"))
	}
	return c, nil
}

func wholeNames() (names []string) {
	for _, c := range wholeCiphers {
		names = append(names, c.Name)
	}
	return names
}

// block are the bits of the block cipher's key: half of them in xts.
func (c Cipher) block() int {
	if c.Mode == "xts" {
		return c.Bits / 2
	}
	return c.Bits
}

// stream says whether encrypting and decrypting are the same work.
func (c Cipher) stream() bool { return c.Algorithm == "chacha20" || c.Mode == "ctr" }

// lattice says whether it is one of NIST's schemes of 2024, which not every library has.
func (c Cipher) lattice() bool { return c.Algorithm == "ml-kem" || c.Algorithm == "ml-dsa" }

// aead says whether what it makes is authenticated.
func (c Cipher) aead() bool {
	return c.Algorithm == "chacha20-poly1305" || slices.Contains([]string{"gcm", "ccm", "ocb"}, c.Mode)
}
